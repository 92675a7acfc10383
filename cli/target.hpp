// What a command optimises for, and how it tells what the optimisation did: options that build and optimize share.
//
//   auto options = target_options(flags);            // --ep, --ep-file, --dtype, --opset, --padding, --trace, --trace-json
//   const std::string ep = chosen_ep(*flags);        // after --ep-file has registered its own
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/command.hpp"
#include "mobius/base/json.hpp"
#include "mobius/rewrite/rule.hpp"

namespace mobius::cli {

struct TargetFlags {
  std::string ep, ep_file, dtype, padding = "right", trace_json;
  std::size_t opset = 0;  // 0: the EP's own
  bool trace = false;
};

std::vector<Option> target_options(TargetFlags& flags);

// Registers the EP of --ep-file. Errors: UsageError for a name that is not known, invalid_argument for a file that describes none.
std::string chosen_ep(const TargetFlags& flags);

std::optional<ir::DataType> chosen_dtype(const TargetFlags& flags);
std::optional<std::int64_t> chosen_opset(const TargetFlags& flags);
rewrite::Padding chosen_padding(const TargetFlags& flags);

// Error invalid_argument: the file of --trace-json is there and was not written as one.
void check_trace_file(const TargetFlags& flags);
// Into the file of --trace-json, where that is given.
void write_trace(const TargetFlags& flags, const Json& trace);

}  // namespace mobius::cli
