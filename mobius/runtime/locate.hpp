// Where an ONNX Runtime library may lie on this machine.
//
//   for (const auto& library : wheel_libraries(python_prefixes())) try_to_load(library);
//
// A Python wheel `onnxruntime` keeps it at <prefix>/lib/python3.X/site-packages/onnxruntime/capi/libonnxruntime.so.<version>.
// Prefixes, in order: $VIRTUAL_ENV, $CONDA_PREFIX, a `.venv` in a folder above this program (not above the working directory:
// code is never loaded because of where one happens to stand), ~/.local, the versions of pyenv, /usr/local, /usr.
#pragma once
#include <filesystem>
#include <vector>

namespace mobius::runtime {

std::vector<std::filesystem::path> python_prefixes();

// The libraries of the wheels under these prefixes, in the order of the prefixes; newer Python versions first.
std::vector<std::filesystem::path> wheel_libraries(const std::vector<std::filesystem::path>& prefixes);

// The libraries directly in a folder, or in its `capi` or `lib`.
std::vector<std::filesystem::path> libraries_in(const std::filesystem::path& folder);

}  // namespace mobius::runtime
