// The file this program runs from, as the operating system tells it.
//
//   const auto beside = program_path().parent_path() / "libonnxruntime.so";
#pragma once
#include <filesystem>

namespace mobius {

std::filesystem::path program_path();  // absolute; empty where unknown

}  // namespace mobius
