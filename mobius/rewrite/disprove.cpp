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

// Beyond this many graphs of one example the rest is left out: patterns with many sums have thousands.
constexpr int most_graphs = 200;

class Judge {
 public:
  explicit Judge(const Rule& rule) : rule_(rule), targets_(targets_of(rule)) {}

  // Whether the example is one of this rule; `problem` is what is wrong then.
  bool fits(const Example& e, std::optional<std::string>& problem) {
    Choices choices;
    bool matched = false;
    usual_targets_.clear();
    for (int i = 0; i < most_graphs; ++i) {
      try {
        const auto model = example_model(rule_, e, choices);
        const auto before = ir::to_text(model);                                  // before its weights are bound to data
        difference(model, model, {.contents = e.trials.contents, .rounds = 1});  // an error when it can't be evaluated
        if (graph(e, before, problem)) {
          matched = true;
          tried_.insert(choices.taken.begin(), choices.taken.end());
          if (problem) return true;
          if (!unmatched_.empty()) problem = unmatched_;
        } else {
          unmatched_ = "the rule does not match (nearest: " + nearest_ + ")\n" + before;
          if (matched) problem = unmatched_;
        }
        if (problem) return true;
      } catch (const Error& error) {
        if (error.kind() != ErrorKind::invalid_argument || !e.graph.empty()) throw;
        if (unmatched_.empty()) misfit_ = error.what();
      }
      if (!choices.next()) break;
    }
    if (!matched) why_not = unmatched_.empty() ? misfit_ : unmatched_;
    unmatched_.clear();
    matched_ |= matched;
    patterns_ |= matched && e.graph.empty();
    return matched;
  }

  // What the examples leave open.
  std::optional<std::string> gap() const {
    if (targets_.empty()) return "the rule is for no target";
    if (!matched_) return "no example is one of this rule (rules/rule_test.hpp: RuleExamples)" + (why_not.empty() ? "" : ": " + why_not);
    for (const auto& p : rule_.from)
      if (auto why = patterns_ ? untried(p.get()) : std::nullopt) return why;
    return std::nullopt;
  }

  std::string why_not;  // of the last example that did not fit

 private:
  // One graph on all targets; those on which the rewrite is the same are judged once, and stand for each other in the example's other
  // graphs. False: the rule matches on none.
  bool graph(const Example& e, const std::string& before, std::optional<std::string>& problem) {
    bool matched = false;
    if (!usual_targets_.empty())
      for (const auto* target : usual_targets_) matched |= on_target(e, before, *target, problem) != "";
    if (matched) return true;
    std::set<std::string> seen;
    std::vector<const Target*> different;
    for (const auto& target : targets_) {
      if (e.padding && *e.padding != target.padding) continue;
      auto after = on_target(e, before, target, problem);
      if (problem) return true;
      if (!after.empty() && seen.insert(std::move(after)).second) different.push_back(&target);
    }
    if (usual_targets_.empty()) usual_targets_ = different;
    return !seen.empty();
  }

  // The rewritten graph; "" when the rule does not match.
  std::string on_target(const Example& e, const std::string& before, const Target& target, std::optional<std::string>& problem) {
    auto model = ir::model_from_text(before);
    ops::TypeInference().infer(*model.graph);
    const auto report = apply(rule_, *model.graph, target);
    if (report.applied == 0) {
      nearest_ = report.nearest_miss;
      return "";
    }
    model.opset_imports["com.microsoft"] = 1;
    auto after = ir::to_text(model);
    if (judged_.first == before && judged_.second.contains(after)) return after;
    if (judged_.first != before) judged_ = {before, {}};
    judged_.second.insert(after);
    const auto findings = ir::verify(model);
    problem = findings.empty() ? changed(e, before, model) : std::optional(findings.front());
    if (problem) *problem += "\n" + before + "⟶\n" + after;
    return after;
  }

  static std::optional<std::string> changed(const Example& e, const std::string& before, const ir::Model& after) {
    try {
      return difference(ir::model_from_text(before), after, e.trials);
    } catch (const Error& error) {
      return error.what();
    }
  }

  std::optional<std::string> untried(const PatNode* p) const {
    if (!p) return std::nullopt;
    for (std::size_t i = 0; i < p->args.size(); ++i) {
      if (p->kind == PatNode::Kind::either && !tried_.contains({p, i}))
        return fmt::format("no example has alternative {} of a choice of {}", i, p->args.size());
      if (auto why = untried(p->args[i].node.get())) return why;
    }
    return std::nullopt;
  }

  const Rule& rule_;
  std::vector<Target> targets_;
  std::set<std::pair<const PatNode*, std::size_t>> tried_;  // looked up only
  bool matched_ = false, patterns_ = false;
  std::vector<const Target*> usual_targets_;                   // of the example at hand
  std::pair<std::string, std::set<std::string>> judged_ = {};  // a graph, and what became of it
  std::string nearest_, unmatched_, misfit_;
};

std::optional<std::string> judge(const std::vector<Rule>& rules, const std::vector<Example>& examples) {
  std::vector<bool> used(examples.size());
  std::vector<std::string> why_not(examples.size());
  for (const auto& rule : rules) {
    Judge judge(rule);
    for (std::size_t i = 0; i < examples.size(); ++i) {
      std::optional<std::string> problem;
      if (judge.fits(examples[i], problem)) used[i] = true;
      else why_not[i] = judge.why_not;
      if (problem) return problem;
    }
    if (auto why = judge.gap()) return why;
  }
  for (std::size_t i = 0; i < examples.size(); ++i)
    if (!used[i]) return fmt::format("example {} is none of the rule: {}", i, why_not[i]);
  return std::nullopt;
}

}  // namespace

bool is_noticed(const Rule& mutant, const std::vector<Example>& examples) {
  try {
    Judge judge(mutant);
    std::optional<std::string> problem;
    for (const auto& e : examples)
      if (judge.fits(e, problem); problem) return true;
    return false;
  } catch (const Error&) {
    return true;  // it can't even be applied
  }
}

std::optional<std::string> disprove(const std::vector<Rule>& rules, const std::vector<Example>& examples) {
  try {
    return judge(rules, examples);
  } catch (const Error& error) {
    return error.what();
  }
}

}  // namespace mobius::rewrite
