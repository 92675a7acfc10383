// Where a package may be written: not into its own source, not over what is no package.
//
//   const fs::path out = checked_target("out", {model_folder}, false);   // may be written, and replaced as a whole
#pragma once
#include <string_view>
#include <vector>

#include "mobius/base/file.hpp"

namespace mobius::package {

// `folder` as an absolute path without links, so that what it really names is compared and replaced.
// Errors: invalid_argument when something forbids it, io when it can't be written to; each says what stands in the way.
fs::path checked_target(const fs::path& folder, const std::vector<fs::path>& sources, bool force);

// Whether a file of this name is part of a package, beside the graphs: configs, tokenizer files, licences.
bool is_companion(std::string_view name);
// Whether it is a graph or its data.
bool is_model_file(std::string_view name);

}  // namespace mobius::package
