// What a package has besides its graphs when it is for a certain runtime.
//
//   runtime_files(package, {.runtime = "ort-genai"})      // package.files(), some made to suit, and genai_config.json
#pragma once
#include <string>
#include <vector>

#include "mobius/package/package.hpp"

namespace mobius::package {

// For options.runtime == "": the package's own files. Errors: invalid_argument (no such runtime), and those of genai_config.
std::vector<PackageFile> runtime_files(const ModelPackage& package, const SaveOptions& options);

}  // namespace mobius::package
