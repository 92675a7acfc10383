// What a package has besides its graphs when it is for a certain runtime.
//
//   runtime_files(package, {.runtime = "ort-genai"})      // package.files(), some made to suit, and genai_config.json
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "mobius/package/package.hpp"

namespace mobius::package {

// For options.runtime == "": the package's own files. What was made for a runtime is left out, with a warning, where it describes other graphs than the
// package has now. Errors: invalid_argument (no such runtime, an option that only runtimes have), and those of genai_config.
std::vector<PackageFile> runtime_files(const ModelPackage& package, const SaveOptions& options);

// Whether a file of this name was made for a runtime, from the graphs beside it.
bool is_runtime_file(std::string_view name);
// Tells graphs from others, whatever their weights are.
std::string fingerprint(const ModelPackage& package);

}  // namespace mobius::package
