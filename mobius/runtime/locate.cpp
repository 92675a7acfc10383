// Looks through the usual Python prefixes for an installed onnxruntime wheel.
#include "mobius/runtime/locate.hpp"

#include <algorithm>
#include <string>

#include "mobius/base/file.hpp"
#include "mobius/base/program.hpp"

namespace mobius::runtime {
namespace {

// The entries of a folder, sorted by name from last to first; empty when it can't be read.
std::vector<fs::path> entries(const fs::path& folder) {
  std::vector<fs::path> found;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) found.push_back(it->path());
  std::sort(found.begin(), found.end(), [](const fs::path& a, const fs::path& b) {
    const auto &x = a.native(), &y = b.native();
    // python3.9 comes before python3.11: a longer name is a later version.
    return x.size() != y.size() ? x.size() > y.size() : x > y;
  });
  return found;
}

bool is_library(const fs::path& file) {
  const std::string name = file.filename().string();
  if (name == "onnxruntime.dll") return true;
  return name.starts_with("libonnxruntime.") && (name.find(".so") != std::string::npos || name.ends_with(".dylib"));
}

void add_if_set(std::vector<fs::path>& out, const char* variable, const char* below = "") {
  if (auto value = environment(variable); value && !value->empty()) out.push_back(fs::path(*value) / below);
}

}  // namespace

std::vector<fs::path> libraries_in(const fs::path& folder) {
  std::vector<fs::path> found;
  for (const char* below : {"", "capi", "lib"}) {
    for (const fs::path& file : entries(folder / below)) {
      if (is_library(file)) found.push_back(file);
    }
  }
  return found;
}

std::vector<fs::path> wheel_libraries(const std::vector<fs::path>& prefixes) {
  std::vector<fs::path> found;
  auto look = [&](const fs::path& packages) {
    for (const fs::path& file : libraries_in(packages / "onnxruntime")) found.push_back(file);
  };
  for (const fs::path& prefix : prefixes) {
    for (const fs::path& python : entries(prefix / "lib")) {
      if (!python.filename().string().starts_with("python3")) continue;
      look(python / "site-packages");
      look(python / "dist-packages");
    }
    look(prefix / "Lib" / "site-packages");
  }
  return found;
}

std::vector<fs::path> python_prefixes() {
  std::vector<fs::path> prefixes;
  add_if_set(prefixes, "VIRTUAL_ENV");
  add_if_set(prefixes, "CONDA_PREFIX");
  const fs::path program = program_path();
  for (fs::path folder = program.parent_path(); folder.has_relative_path(); folder = folder.parent_path()) prefixes.push_back(folder / ".venv");
  add_if_set(prefixes, "HOME", ".local");

  std::vector<fs::path> pyenv_roots;
  add_if_set(pyenv_roots, "PYENV_ROOT");
  add_if_set(pyenv_roots, "HOME", ".pyenv");
  for (const fs::path& root : pyenv_roots) {
    for (fs::path& version : entries(root / "versions")) prefixes.push_back(std::move(version));
  }
  prefixes.emplace_back("/usr/local");
  prefixes.emplace_back("/usr");
  return prefixes;
}

}  // namespace mobius::runtime
