// How a report reads: the lines of the trace, and JSON.
#include "mobius/passes/report.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace mobius {

const StepReport* OptimizeReport::find(std::string_view name) const {
  const auto it = std::ranges::find(steps, name, &StepReport::name);
  return it == steps.end() ? nullptr : &*it;
}

std::string describe_change(const rewrite::RuleReport& report) {
  if (report.applied == 0) {
    return "no matches (0 nodes affected)" + (report.nearest_miss.empty() ? "" : "; nearest: " + report.nearest_miss);
  }
  std::string text;
  for (const bool more : {true, false}) {
    for (const auto& [op, change] : report.change_per_op) {
      if ((change > 0) == more) text += fmt::format("{}{:+} {}", text.empty() ? "" : ", ", change, op);
    }
  }
  return text.empty() ? "no change in node counts" : text;
}

std::vector<std::string> summary_table(const OptimizeReport& report) {
  std::vector<std::string> lines = {fmt::format("{:<26}| Matched | +Nodes | -Nodes", "Rule"), "-------------------------+--------+-------+-------"};
  for (const auto& step : report.steps) {
    if (!step.is_rule) continue;
    lines.push_back(fmt::format("{:<26}| {:>7} | {:>6} | {:>6}", step.name, step.rule.applied, step.rule.added, step.rule.removed));
  }
  return lines;
}

Json to_json(const OptimizeReport& report) {
  Json steps = Json::Array{};
  for (const auto& step : report.steps) {
    Json entry = Json::Object{
        {"stage", step.stage}, {"name", step.name}, {"nodes_before", step.nodes_before}, {"nodes_after", step.nodes_after}, {"seconds", step.seconds}};
    if (step.is_rule) {
      Json changes = Json::Object{};
      for (const auto& [op, change] : step.rule.change_per_op) changes.set(op, Json(change));
      entry.set("matched", Json(step.rule.applied));
      entry.set("added", Json(step.rule.added));
      entry.set("removed", Json(step.rule.removed));
      entry.set("changes", std::move(changes));
      if (!step.rule.nearest_miss.empty()) entry.set("nearest_miss", Json(step.rule.nearest_miss));
    }
    steps.push_back(std::move(entry));
  }
  Json warnings = Json::Array{};
  for (const auto& w : report.warnings) warnings.push_back(Json(w));
  return Json::Object{{"ep", report.ep},
                      {"dtype", std::string(ir::onnx_name(report.dtype))},
                      {"role", report.role},
                      {"steps", std::move(steps)},
                      {"warnings", std::move(warnings)}};
}

}  // namespace mobius
