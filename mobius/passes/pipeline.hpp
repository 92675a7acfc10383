// optimize_model: the EP-aware pipeline, in the stages of the specification.
//
//   optimize_model(model, {.ep = "cuda", .dtype = DataType::float16});
//
//   1 cleanup   always          2 fusion    as far as the EP's capabilities allow
//   2b inline   what the EP lacks, by function bodies
//   3 lowering  what the EP's constraints require               4 fold      always
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "mobius/ep/capabilities.hpp"
#include "mobius/ir/model.hpp"
#include "mobius/passes/report.hpp"

namespace mobius {

using rewrite::Padding;

struct OptimizeOptions {
  std::string ep = "default";
  std::optional<ir::DataType> dtype = {};  // absent: the float type of the model itself
  std::string model_role = "decoder";      // "decoder", "vision", "embedding", "encoder"
  Padding padding = Padding::right;
  std::optional<std::int64_t> opset = {};  // 21 or more; absent: the EP's highest, if all nodes can be written for it
  bool trace = false;                      // log each stage and rule at level info
  std::vector<std::string> skip = {};      // passes and rule groups to leave out, by name
  std::string print_after = {};            // a pass or rule group: `print` gets the graph's text after it
  std::function<void(std::string_view name, std::string_view text)> print = {};
};

// Warnings go to the log and into the report. Errors invalid_argument: an unknown EP or step (`skip`, `print_after`), with the known ones; unsupported: the EP
// can't run an operator, and it has no function body in this form.
OptimizeReport optimize_model(ir::Model& model, const OptimizeOptions& options = {});

// The rule groups of stages 2 and 3, in their order.
std::vector<rewrite::RuleGroup> fusions();
std::vector<rewrite::RuleGroup> lowerings();

// What `skip` and `print_after` may name: all passes and rule groups, in the order in which they run.
std::vector<std::string> optimization_steps();

}  // namespace mobius
