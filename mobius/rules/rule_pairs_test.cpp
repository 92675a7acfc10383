// The rules' examples before and after, as ONNX files for other runtimes (tests/test_rules_on_runtime.py).
#include <fmt/format.h>

#include <set>

#include "mobius/base/error.hpp"
#include "mobius/base/json.hpp"
#include "mobius/formats/gguf_test_writer.hpp"
#include "mobius/formats/onnx_writer.hpp"
#include "mobius/ops/array_json_test.hpp"
#include "mobius/passes/passes.hpp"
#include "mobius/rules/all_rules_test.hpp"

namespace mobius::rules {
namespace {

// The float type that a graph is in: that of its first float input or weight.
ir::DataType float_type_of(const ir::Model& model) {
  for (const auto* list : {&model.graph->inputs(), &model.graph->initializers()})
    for (const auto* v : *list)
      if (ir::is_floating_point(v->dtype())) return v->dtype();
  return ir::DataType::float32;
}

class Pairs {
 public:
  explicit Pairs(fs::path folder) : folder_(std::move(folder)) { fs::create_directories(folder_); }

  void add(const Variants& variants, ir::DataType dtype) {
    std::set<std::string> seen;
    int count = 0;
    for (const auto& rule : variants.rules)
      for (const auto& example : RuleExamples::all()[variants.name].examples)
        if (auto pair = made(rule, example, dtype); pair && seen.insert(ir::to_text(pair->after)).second)
          write(variants.name, fmt::format("{}-{}-{}", variants.name, ++count, ir::text_name(dtype)), *pair);
  }
  void finish() const { write_text_file(folder_ / "pairs.json", Json(entries_).dump()); }
  bool empty() const { return entries_.empty(); }

 private:
  struct Pair {
    ir::Model before, after;
    std::string ep;
    Json::Array rounds;
  };

  // The first graph of the example, for the first EP on which the rule matches it; nullopt: it is an example of another variant, or of
  // another float type.
  static std::optional<Pair> made(const rewrite::Rule& rule, const rewrite::Example& example, ir::DataType dtype) {
    try {
      rewrite::Choices choices;
      const auto model = rewrite::example_model(rule, example, choices, dtype);
      if (float_type_of(model) != dtype) return std::nullopt;
      auto pair = rewritten(rule, example, dtype, ir::to_text(model));
      if (pair) pair->rounds = rounds(*pair, example);
      return pair;
    } catch (const Error&) {
      return std::nullopt;
    }
  }

  static std::optional<Pair> rewritten(const rewrite::Rule& rule, const rewrite::Example& example, ir::DataType dtype, const std::string& text) {
    for (const auto& target : rewrite::targets_of(rule)) {
      if (target.dtype != dtype || (example.padding && *example.padding != target.padding)) continue;
      Pair pair{ir::model_from_text(text), ir::model_from_text(text), target.ep.name, {}};
      ops::TypeInference().infer(*pair.after.graph);
      if (rewrite::apply(rule, *pair.after.graph, target).applied == 0) continue;
      for (auto* m : {&pair.before, &pair.after}) {
        passes::make_node_names_unique(*m->graph);
        passes::attach_function_bodies(*m, m->opset_imports.at(""));
      }
      return pair;
    }
    return std::nullopt;
  }

  // Inputs and what the reference makes of them; weights hold what the last round gave them. Error: the graph can't be evaluated.
  static Json::Array rounds(const Pair& pair, const rewrite::Example& example) {
    std::vector<std::map<std::string, ops::Array>> inputs;
    if (example.on_runtime.empty())
      for (const int round : {0, 2}) inputs.push_back(rewrite::random_inputs({&pair.before, &pair.after}, example.trials, round));
    for (const auto& more : example.on_runtime) {
      auto trials = example.trials;
      for (const auto& [what, word] : more) trials.contents[what] = word;
      inputs.push_back(rewrite::random_inputs({&pair.before, &pair.after}, trials, 2));
    }
    Json::Array out;
    for (const auto& arrays : inputs) {
      Json given = Json::Object{}, wanted = Json::Object{};
      for (const auto& [input, array] : arrays) given.set(input, ops::json_of(array));
      const auto results = ops::interpret(*pair.before.graph, arrays);
      for (const auto* o : pair.before.graph->outputs()) wanted.set(o->name, ops::json_of(results.at(o->name)));
      out.push_back(Json::Object{{"inputs", std::move(given)}, {"outputs", std::move(wanted)}});
    }
    return out;
  }

  void write(const std::string& rule, const std::string& name, const Pair& pair) {
    write_text_file(folder_ / (name + ".original.onnx"), formats::serialize_onnx(pair.before));
    write_text_file(folder_ / (name + ".rewritten.onnx"), formats::serialize_onnx(pair.after));
    entries_.push_back(Json::Object{{"rule", rule}, {"name", name}, {"ep", pair.ep}, {"rounds", pair.rounds}});
  }

  fs::path folder_;
  Json::Array entries_;
};

TEST(RulePairs, WritesModels) {
  const formats::TempFolder own;
  Pairs pairs(environment("MOBIUS_RULE_PAIRS").value_or(own.path().string()));
  for (const auto& variants : all_rules())
    for (const auto dtype : {ir::DataType::float32, ir::DataType::float16, ir::DataType::bfloat16}) pairs.add(variants, dtype);
  pairs.finish();
  EXPECT_FALSE(pairs.empty());
}

}  // namespace
}  // namespace mobius::rules
