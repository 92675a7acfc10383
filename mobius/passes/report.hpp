// OptimizeReport: what the pipeline did, step by step. The trace prints it, tools read it as JSON.
//
//   const OptimizeReport report = optimize_model(model, {.ep = "cuda"});
//   report.find("GQAFusion")->rule.applied           // how often it fired
//   for (const auto& line : summary_table(report)) logging::info("{}", line);
#pragma once
#include <cstddef>
#include <string>
#include <vector>

#include "mobius/base/json.hpp"
#include "mobius/rewrite/rule.hpp"

namespace mobius {

struct StepReport {
  std::string stage;  // "Cleanup", "Fusion", "InlinePass", "Lowering", "Fold"
  std::string name;   // of the pass or rule group
  std::size_t nodes_before = 0, nodes_after = 0;
  double seconds = 0;
  bool is_rule = false;  // then `rule` says what it matched
  rewrite::RuleReport rule = {};
};

struct OptimizeReport {
  std::string ep, role;
  ir::DataType dtype = ir::DataType::float32;
  std::vector<StepReport> steps;  // in the order they ran; those whose rules are not for this target are left out
  std::vector<std::string> warnings;

  const StepReport* find(std::string_view name) const;
};

// "+2 GroupQueryAttention, -2 Attention", or "no matches (0 nodes affected)" with the nearest miss.
std::string describe_change(const rewrite::RuleReport& report);

// The summary table of the trace: Rule | Matched | +Nodes | -Nodes.
std::vector<std::string> summary_table(const OptimizeReport& report);

// One JSON object with all of it.
Json to_json(const OptimizeReport& report);

}  // namespace mobius
