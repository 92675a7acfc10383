// Function bodies against the operators they stand for on random inputs; and whether a body with one node wrong is noticed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "mobius/base/error.hpp"
#include "mobius/base/file.hpp"
#include "mobius/base/json.hpp"
#include "mobius/formats/gguf_test_writer.hpp"
#include "mobius/formats/onnx_writer.hpp"
#include "mobius/ops/array_json_test.hpp"
#include "mobius/ops/function_forms_test.hpp"
#include "mobius/ops/functions.hpp"
#include "mobius/ops/functions_body.hpp"
#include "mobius/ops/infer.hpp"
#include "mobius/rewrite/disprove.hpp"

namespace mobius::ops {
namespace {

// A form, typed; with its body for the version, where there is one.
ir::Model model_of(const Form& form, std::int64_t opset) {
  auto model = ir::model_from_text(form.text());
  TypeInference().infer(*model.graph);
  if (opset != 0)
    if (auto body = function_body(*model.graph->last(), opset)) model.functions.push_back(std::move(*body));
  return model;
}

std::string operator_of(const Form& form) { return ir::to_string(model_of(form, 0).graph->last()->op); }

constexpr std::int64_t versions[] = {24, 22, 18};

// The bodies of one operator.
class BodiesOf : public testing::TestWithParam<std::string> {
 protected:
  static const std::vector<Form>& forms() {
    static const auto by_operator = [] {
      std::map<std::string, std::vector<Form>> sorted;
      for (auto& form : all_forms()) sorted[operator_of(form)].push_back(form);
      return sorted;
    }();
    return by_operator.at(GetParam());
  }
  static rewrite::Trials trials(const Form& form, int rounds = 5) {
    return {.contents = form.contents, .tolerance = form.tolerance, .rounds = rounds, .prefer_functions = true};
  }
};

TEST_P(BodiesOf, GiveItsResults) {
  for (const auto& form : forms())
    for (const auto opset : versions) {
      const auto original = model_of(form, 0), with_body = model_of(form, opset);
      ASSERT_EQ(with_body.functions.size(), 1u) << form.text() << " at opset " << opset;
      EXPECT_THAT(ir::verify(with_body), testing::IsEmpty());
      if (const auto why = rewrite::difference(original, with_body, trials(form))) ADD_FAILURE() << form.text() << " at opset " << opset << "\n" << *why;
    }
}

// Every input is there in some form, and every attribute that the table knows has another value than its default.
TEST_P(BodiesOf, AreTriedInAllForms) {
  std::set<std::size_t> inputs;
  std::set<std::string> attributes;
  const FunctionEntry* entry = nullptr;
  for (const auto& form : forms()) {
    const auto model = model_of(form, 0);
    const auto& node = *model.graph->last();
    entry = &function_table().at({node.op.domain, node.op.type});
    for (std::size_t i = 0; i < node.inputs().size(); ++i)
      if (node.input(i)) inputs.insert(i);
    for (const auto& [name, value] : node.attributes)
      if (const auto usual = entry->defaults.find(name); usual == entry->defaults.end() || !ir::equal(usual->second, value)) attributes.insert(name);
  }
  // Inputs that no body can say: quantised caches, and biases of packed attention.
  const std::set<std::string_view> unsaid = {"k_scale", "v_scale", GetParam() == "com.microsoft::PackedMultiHeadAttention" ? "attention_bias" : ""};
  for (std::size_t i = 0; i < entry->inputs.size(); ++i) EXPECT_NE(inputs.contains(i), unsaid.contains(entry->inputs[i])) << entry->inputs[i];
  for (const auto name : entry->numbers) EXPECT_TRUE(attributes.contains(std::string(name))) << name;
  for (const auto& [name, usual] : entry->defaults) EXPECT_TRUE(attributes.contains(std::string(name))) << name;
}

// All wrong versions of a body, with one change to one node, those of its subgraphs too.
void collect_mutations(ir::Graph& graph, std::vector<rewrite::Mutation>& all) {
  std::vector<ir::Node*> nodes;
  for (auto* n : graph.nodes()) nodes.push_back(n);
  for (auto& m : rewrite::mutations_of(graph, nodes)) all.push_back(std::move(m));
  for (auto* n : nodes)
    for (auto* g : n->subgraphs()) collect_mutations(*g, all);
}
std::vector<rewrite::Mutation> mutations_of_body(ir::Graph& body) {
  std::vector<rewrite::Mutation> all;
  collect_mutations(body, all);
  return all;
}

// A body that can't be evaluated any more is as good as a difference.
bool differs(const ir::Model& original, const ir::Model& model, const rewrite::Trials& trials) {
  try {
    return rewrite::difference(original, model, trials).has_value();
  } catch (const Error&) {
    return true;
  }
}

// "Constant 7" says nothing: "9223372036854775807 as operand 2 of Slice" does.
std::map<std::string, std::string> constants_of(const ir::Graph& body) {
  std::map<std::string, std::string> names;
  int count = 0;
  for (const auto* n : body.nodes()) {
    if (!n->is("Constant")) continue;
    auto& name = names[fmt::format("Constant {}", ++count)];
    const auto elements = n->output()->data() ? ir::as_doubles(*n->output()->data()) : std::nullopt;
    for (const auto e : elements.value_or(std::vector<double>{})) name += fmt::format("{}{}", name.empty() ? "" : ", ", e);
    const auto use = n->output()->uses().front();
    name += fmt::format(" as operand {} of {}", use.index, use.node->op.type);
  }
  return names;
}

// Doubles don't show it.
bool only_sets_a_type(const std::string& node) { return node.starts_with("Cast"); }

// Constants whose change is rightly not noticed.
const std::map<std::string, std::string>& reasons() {
  static const std::map<std::string, std::string> table = {
      {"2 as operand 2 of Slice", "a slice ends where the axis does"},
      {"1, 1 as operand 0 of Concat", "a mask may be spelled out for both heads"},
      {"9.223372036854776e+18 as operand 2 of Slice", "the last token comes before the end of the last sequence"},
      {"-10000 as operand 0 of CastLike", "any low score hides a key"},
  };
  return table;
}

// One thing wrong in a body at a time. Every node must be told from some wrong version of itself: else it is not needed, or not tried.
TEST_P(BodiesOf, AreToldFromWrongOnes) {
  std::size_t mutants = 0, noticed = 0;
  std::map<std::string, std::map<std::string, bool>> bodies;  // by form of the operator: "Mul 2", whether a change of it is noticed
  for (const auto& form : forms())
    for (const auto opset : {24, 18}) {
      const auto original = model_of(form, 0);
      auto& nodes = bodies[fmt::format("{} at opset {}", function_form(*original.graph->last()), opset)];
      const auto constants = constants_of(*model_of(form, opset).functions.at(0).body);
      for (std::size_t i = 0;; ++i) {
        auto model = model_of(form, opset);
        const auto all = mutations_of_body(*model.functions.at(0).body);
        if (i == all.size()) break;
        all[i].make();
        const bool is_noticed = differs(original, model, trials(form, 3));
        ++mutants;
        noticed += is_noticed;
        const auto node = all[i].what.substr(0, all[i].what.find(':'));
        const auto constant = constants.find(node);
        nodes[constant == constants.end() ? node : constant->second] |= is_noticed;
      }
    }
  for (const auto& [body, nodes] : bodies)
    for (const auto& [node, is_noticed] : nodes)
      EXPECT_TRUE(is_noticed || only_sets_a_type(node) || reasons().contains(node)) << node << " in the body of " << body << ": no change is noticed";
  fmt::print("{}: {} wrong bodies, {} noticed\n", GetParam(), mutants, noticed);
}

std::vector<std::string> operators() {
  std::vector<std::string> names;
  for (const auto& [op, entry] : function_table()) names.push_back(ir::to_string({op.first, op.second}));
  return names;
}
INSTANTIATE_TEST_SUITE_P(Functions, BodiesOf, testing::ValuesIn(operators()), [](const auto& op) {
  auto name = op.param;
  std::erase_if(name, [](char c) { return !std::isalnum(static_cast<unsigned char>(c)); });
  return name;
});

// ── for other runtimes ───────────────────────────────────────────────────────────────────────────────────────────────────

// Writes each form with its body, inputs and the operator's results to the folder that MOBIUS_DUMP_FORMS names
// (tests/test_function_bodies_on_runtime.py).
TEST(FunctionForms, AreWrittenForOtherRuntimes) {
  const formats::TempFolder own;
  const fs::path folder = environment("MOBIUS_DUMP_FORMS").value_or(own.path().string());
  Json::Array entries;
  std::map<std::string, int> count;
  for (const auto& form : all_forms()) {
    const auto name = fmt::format("{}-{}", operator_of(form), ++count[operator_of(form)]);
    for (const auto opset : {24, 21}) {
      auto model = model_of(form, opset);
      model.functions.at(0).opset_imports[""] = 24;  // a model has one version of ai.onnx
      const auto file = fmt::format("{}.onnx", entries.size());
      write_text_file(folder / file, formats::serialize_onnx(model));
      const auto inputs = rewrite::random_inputs({&model}, {.contents = form.contents}, 2);
      Json given = Json::Object{}, wanted = Json::Object{};
      for (const auto& [input, array] : inputs) given.set(input, json_of(array));
      const auto results = interpret(*model.graph, inputs);
      for (const auto* o : model.graph->outputs()) wanted.set(o->name, json_of(results.at(o->name)));
      entries.push_back(Json::Object{
          {"name", fmt::format("{}-opset{}", name, opset)}, {"file", file}, {"node", form.node}, {"inputs", std::move(given)}, {"outputs", std::move(wanted)}});
    }
  }
  write_text_file(folder / "forms.json", Json(std::move(entries)).dump());
}

}  // namespace
}  // namespace mobius::ops
