// Two graphs side by side on the same inputs; and a rule on all graphs of its examples and all targets.
#include "mobius/rewrite/disprove.hpp"

#include <algorithm>
#include <cmath>
#include <set>

#include "mobius/base/error.hpp"
#include "mobius/ep/registry.hpp"
#include "mobius/ops/infer.hpp"

namespace mobius::rewrite {
namespace {

using ops::Array;

std::string text(const ir::Dims& dims) {
  std::string t;
  for (const auto d : dims) t += (t.empty() ? "" : ", ") + std::to_string(d);
  return "[" + t + "]";
}

std::optional<std::string> compare(const Array& found, const Array& want, double tolerance) {
  if (found.dtype != want.dtype) return fmt::format("is {}, expected {}", ir::text_name(found.dtype), ir::text_name(want.dtype));
  if (found.dims != want.dims) return fmt::format("has shape {}, expected {}", text(found.dims), text(want.dims));
  double largest = 1;
  for (const auto v : want.values)
    if (std::isfinite(v)) largest = std::max(largest, std::abs(v));
  for (std::size_t i = 0; i < want.values.size(); ++i) {
    const auto a = found.values[i], b = want.values[i];
    const bool equal = a == b || (std::isnan(a) && std::isnan(b)) || std::abs(a - b) <= tolerance * largest;
    if (!equal) return fmt::format("element {} is {}, expected {}", i, a, b);
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> difference(const ir::Model& original, const ir::Model& rewritten, const Trials& trials) {
  for (int round = 0; round < trials.rounds; ++round) {
    const auto inputs = random_inputs({&original, &rewritten}, trials, round);
    const auto want = ops::interpret(*original.graph, inputs, &original.functions);
    const auto found = ops::interpret(*rewritten.graph, inputs, &rewritten.functions, trials.prefer_functions);
    std::string on;
    for (const auto& [name, a] : inputs) on += (on.empty() ? "" : ", ") + name + " " + text(a.dims);
    if (found.size() != want.size()) return fmt::format("there are {} outputs, expected {}", found.size(), want.size());
    for (const auto& [name, a] : want) {
      const auto it = found.find(name);
      if (it == found.end()) return "output " + name + " is gone";
      if (const auto why = compare(it->second, a, trials.tolerance)) return fmt::format("{} {} (inputs {})", name, *why, on);
    }
  }
  return std::nullopt;
}

std::vector<Target> targets_of(const Rule& rule) {
  for (const auto* role : {"decoder", "encoder", "vision", "embedding"}) {
    std::vector<Target> targets;
    for (const auto& name : ep_registry().names())
      for (const auto dtype : {ir::DataType::float32, ir::DataType::float16, ir::DataType::bfloat16})
        for (const auto padding : {Padding::right, Padding::any}) {
          const auto& ep = get_ep(name);
          Target target{ep, dtype, role, ep.max_opset, padding};
          if (ep.dtypes.contains(dtype) && (!rule.when || rule.when(target))) targets.push_back(std::move(target));
        }
    if (!targets.empty()) return targets;
  }
  return {};
}

namespace {

// Beyond this many graphs of one example, the rest is left to chance: patterns with many sums have thousands.
constexpr int most_graphs = 64;

class Judge {
 public:
  Judge(const Rule& rule, const Example& example) : rule_(rule), example_(example), targets_(targets_of(rule)) {}

  std::optional<std::string> run() {
    if (targets_.empty()) return "the rule is for no target";
    Choices choices;
    for (int i = 0; i < most_graphs; ++i) {
      if (auto why = graph(ir::to_text(example_model(rule_, example_, choices)))) return why;
      if (!choices.next()) break;
    }
    return std::nullopt;
  }

 private:
  // One graph on all targets; those on which the rewrite is the same are judged once.
  std::optional<std::string> graph(const std::string& before) {
    std::set<std::string> seen;
    std::string nearest;
    for (const auto& target : targets_) {
      const auto original = ir::model_from_text(before);
      auto model = ir::model_from_text(before);
      const auto report = apply(rule_, *model.graph, target);
      if (report.applied == 0) {
        if (nearest.empty()) nearest = report.nearest_miss;
        continue;
      }
      model.opset_imports["com.microsoft"] = 1;
      auto after = ir::to_text(model);
      if (!seen.insert(after).second) continue;
      if (const auto findings = ir::verify(model); !findings.empty()) return findings.front() + in(before, after);
      if (const auto why = difference(original, model, example_.trials)) return *why + in(before, after);
    }
    if (seen.empty()) return "the rule does not match (nearest: " + nearest + ")" + in(before, "");
    return std::nullopt;
  }

  static std::string in(const std::string& before, const std::string& after) { return "\n" + before + (after.empty() ? "" : "⟶\n" + after); }

  const Rule& rule_;
  const Example& example_;
  std::vector<Target> targets_;
};

}  // namespace

std::optional<std::string> disprove(const Rule& rule, const std::vector<Example>& examples) {
  if (examples.empty()) return "there is no example to try the rule on";
  for (const auto& example : examples) try {
      if (auto why = Judge(rule, example).run()) return why;
    } catch (const Error& e) {
      return std::string(e.what()) + "\n" + example.graph;
    }
  return std::nullopt;
}

}  // namespace mobius::rewrite
