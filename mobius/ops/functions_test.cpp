// Function bodies against the operators they stand for: on the fixtures, and in forms that no kernel runs.
#include "mobius/ops/functions.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "mobius/base/error.hpp"
#include "mobius/formats/gguf_test_writer.hpp"
#include "mobius/ops/fixtures.hpp"
#include "mobius/ops/infer.hpp"

namespace mobius::ops {
namespace {

using ir::DataType;

// The first version of ai.onnx that has an operator, where that is above 17.
std::int64_t since(std::string_view type) {
  static const std::map<std::string, std::int64_t, std::less<>> versions{
      {"Attention", 23}, {"RMSNormalization", 23}, {"RotaryEmbedding", 23}, {"Swish", 24}, {"Gelu", 20}};
  auto found = versions.find(type);
  return found == versions.end() ? 17 : found->second;
}

void expect_plain(const ir::Graph& body, std::int64_t opset) {
  for (const ir::Node* node : body.nodes()) {
    EXPECT_EQ(node->op.domain, "");
    EXPECT_LE(since(node->op.type), opset) << node->op.type;
    for (const ir::Graph* graph : node->subgraphs()) expect_plain(*graph, opset);
  }
}

// The node of a one-node model, typed.
ir::Node* typed_node(ir::Model& model) {
  TypeInference().infer(*model.graph);
  return model.graph->last();
}

class FunctionTopic : public testing::TestWithParam<std::string> {};

TEST_P(FunctionTopic, bodies_give_the_operators_results) {
  std::size_t bodies = 0;
  for (const auto& c : fixtures::read(GetParam())) {
    for (std::int64_t opset : {24, 22, 18, 17}) {
      SCOPED_TRACE(c.name + " at opset " + std::to_string(opset));
      try {
        auto model = ir::model_from_text(c.model);
        auto function = function_body(*typed_node(model), opset);
        if (!function) continue;
        ++bodies;
        expect_plain(*function->body, opset);
        EXPECT_EQ(function->opset_imports.at(""), opset);
        model.functions.push_back(std::move(*function));
        EXPECT_THAT(ir::verify(model), testing::IsEmpty());
        auto results = interpret(*model.graph, c.inputs, &model.functions, true);
        for (const auto& [name, want] : c.outputs) {
          if (!want) continue;
          ASSERT_TRUE(results.contains(name)) << name;
          EXPECT_EQ(fixtures::difference(results.at(name), *want, 1e-5, c.rows), "") << name;
        }
      } catch (const Error& error) {
        ADD_FAILURE() << error.what();
      }
    }
  }
  EXPECT_GT(bodies, 0U);
}

const std::vector<std::string>& topics_with_bodies() {
  static const std::vector<std::string> names{"math", "linear", "norms", "attention", "gqa", "mha", "experts", "index"};
  return names;
}

INSTANTIATE_TEST_SUITE_P(Fixtures, FunctionTopic, testing::ValuesIn(topics_with_bodies()), [](const auto& topic) { return topic.param; });

// ── forms that no kernel here runs: against the operator's own reference ─────────────────────────────────────────────────────

Array some(ir::Dims dims, int seed) {
  Array a{DataType::float32, std::move(dims), {}};
  auto n = ir::element_count(a.dims);
  for (std::int64_t i = 0; i < n; ++i) a.values.push_back(static_cast<double>((i * 37 + seed * 11) % 29 - 14) / 8);
  return a;
}

// Runs a graph text with and without its node's body; inputs not given are made up from their declared shapes.
void expect_same(const std::string& graph, std::map<std::string, Array> inputs = {}) {
  SCOPED_TRACE(graph);
  for (std::int64_t opset : {24, 18, 17}) {
    auto model = ir::model_from_text("<ir_version: 11, opset_import: [\"\" : 24, \"com.microsoft\" : 1]>\n" + graph);
    auto function = function_body(*typed_node(model), opset);
    ASSERT_TRUE(function.has_value());
    expect_plain(*function->body, opset);
    int seed = 0;
    for (const ir::Value* input : model.graph->inputs()) inputs.try_emplace(input->name, some(*ir::static_shape(*input->shape()), ++seed));
    auto want = interpret(*model.graph, inputs);
    model.functions.push_back(std::move(*function));
    auto found = interpret(*model.graph, inputs, &model.functions, true);
    for (const auto& [name, array] : want) EXPECT_EQ(fixtures::difference(found.at(name), array, 1e-9), "") << name;
  }
}

TEST(FunctionForms, packed_attention_is_block_diagonal) {
  std::map<std::string, Array> lengths{{"offset", {DataType::int32, {2, 3}, {0, 1, 3, 4, 5, 2}}}, {"ends", {DataType::int32, {3}, {0, 2, 5}}}};
  expect_same(
      "g (float[5, 8] q, float[5, 8] k, float[5, 4] v, int32[2, 3] offset, int32[3] ends) => (y) {"
      " y = com.microsoft.PackedMultiHeadAttention <num_heads = 2> (q, k, v, \"\", offset, ends) }",
      lengths);
  expect_same(
      "g (float[5, 8] q, float[5, 8] k, float[5, 8] v, float[24] b, int32[2, 3] offset, int32[3] ends) => (y) {"
      " y = com.microsoft.PackedMultiHeadAttention <num_heads = 2, scale = 0.5> (q, k, v, b, offset, ends) }",
      lengths);
  expect_same(
      "g (float[5, 2, 3, 4] qkv, int32[2, 3] offset, int32[3] ends) => (y) {"
      " y = com.microsoft.PackedMultiHeadAttention <num_heads = 2> (qkv, \"\", \"\", \"\", offset, ends) }",
      lengths);
}

TEST(FunctionForms, multi_head_attention_takes_packed_operands) {
  expect_same("g (float[2, 3, 2, 3, 4] qkv) => (y, k, v) { y, k, v = com.microsoft.MultiHeadAttention <num_heads = 2> (qkv) }");
  expect_same("g (float[2, 3, 8] q, float[2, 5, 2, 2, 4] kv) => (y) { y = com.microsoft.MultiHeadAttention <num_heads = 2> (q, kv) }");
}

TEST(FunctionForms, shared_buffers_keep_their_length) {
  std::map<std::string, Array> state{{"l", {DataType::int32, {2}, {3, 2}}}, {"t", {DataType::int32, {}, {4}}}};
  expect_same(
      "g (float[2, 1, 16] q, float[2, 1, 8] k, float[2, 1, 8] v, float[2, 1, 6, 8] pk, float[2, 1, 6, 8] pv, int32[2] l, int32 t) => (y, a, c) {"
      " y, a, c = com.microsoft.GroupQueryAttention <num_heads = 2, kv_num_heads = 1, local_window_size = 2> (q, k, v, pk, pv, l, t) }",
      state);
  expect_same(
      "g (float[2, 1, 16] q, float[2, 1, 8] k, float[2, 1, 8] v, float[2, 1, 6, 8] pk, float[2, 1, 6, 8] pv, int32[2] l, int32 t, float[1, 2, 1, 4] bias) => "
      "(y, a, c)"
      " { y, a, c = com.microsoft.GroupQueryAttention <num_heads = 2, kv_num_heads = 1> (q, k, v, pk, pv, l, t, \"\", \"\", \"\", bias) }",
      state);
}

TEST(FunctionForms, tensors_scattered_into_one_row_or_several) {
  const std::map<std::string, Array> one{{"w", {DataType::int64, {1}, {2}}}}, two{{"w", {DataType::int64, {2}, {3, 1}}}};
  expect_same("g (float[1,2,5,3] p, float[1,2,2,3] u, int64[1] w) => (y) { y = TensorScatter(p, u, w) }", one);
  expect_same("g (float[1,5,3] p, float[1,2,3] u) => (y) { y = TensorScatter(p, u) }");
  expect_same("g (float[2,5,3] p, float[2,2,3] u) => (y) { y = TensorScatter(p, u) }");
  expect_same("g (float[2,3,5] p, float[2,3,2] u, int64[2] w) => (y) { y = TensorScatter<axis = -1>(p, u, w) }", two);
  expect_same("g (float[2,4,3,2] p, float[2,2,3,2] u, int64[2] w) => (y) { y = TensorScatter<axis = 1, mode = \"circular\">(p, u, w) }", two);
}

TEST(FunctionForms, query_and_key_norms) {
  expect_same(
      "g (float[1, 2, 16] q, float[1, 2, 8] k, float[1, 2, 8] v, int32[1] l, int32 t, float[8] qn, float[8] kn) => (y, a, c) {"
      " y, a, c = com.microsoft.GroupQueryAttention <num_heads = 2, kv_num_heads = 1> (q, k, v, \"\", \"\", l, t, \"\", \"\", \"\", \"\", \"\", \"\", \"\","
      " qn, kn) }",
      {{"l", {DataType::int32, {1}, {1}}}, {"t", {DataType::int32, {}, {2}}}});
}

TEST(FunctionForms, experts_with_a_third_matrix) {
  expect_same(
      "g (float[3, 4] x, float[3, 3] r, float[3, 2, 4] a, float[3, 4, 2] b, float[3, 2, 4] c) => (y) {"
      " y = com.microsoft.MoE <k = 2, activation_type = \"silu\", normalize_routing_weights = 1> (x, r, a, \"\", b, \"\", c) }");
  expect_same(
      "g (float[3, 4] x, float[3, 3] r, float[3, 4, 4] a, float[3, 4, 2] b) => (y) {"
      " y = com.microsoft.MoE <k = 1, activation_type = \"swiglu\", swiglu_fusion = 2> (x, r, a, \"\", b) }");
  expect_same(
      "g (float[3, 4] x, float[3, 3] r, float[3, 2, 4] a, float[3, 4, 2] b, float[3, 2, 4] c) => (y) {"
      " y = com.microsoft.MoE <k = 1, activation_type = \"swiglu\"> (x, r, a, \"\", b, \"\", c) }");
}

TEST(FunctionForms, linear_attention_with_more_states_than_queries) {
  expect_same(
      "g (float[2, 3, 4] q, float[2, 3, 12] k, float[2, 3, 18] v) => (y, s) {"
      " y, s = com.microsoft.LinearAttention <q_num_heads = 2, kv_num_heads = 6, update_rule = \"linear\"> (q, k, v) }");
}

TEST(FunctionForms, statistics_are_given_where_they_are_wanted) {
  expect_same("g (float[2, 3] x, float[2, 3] s, float[3] w, float[3] b) => (y, m, i, t) { y, m, i, t = com.microsoft.SkipLayerNormalization(x, s, w, b) }");
  expect_same("g (float[2, 3] x, float[2, 3] s, float[3] w) => (y, i, t) { y, \"\", i, t = com.microsoft.SkipSimplifiedLayerNormalization(x, s, w) }");
}

TEST(FunctionForms, what_plain_operators_can_not_say_has_no_body) {
  auto body_of = [](const std::string& graph) {
    auto model = ir::model_from_text("<ir_version: 11, opset_import: [\"\" : 24, \"com.microsoft\" : 1]>\n" + graph);
    return function_body(*typed_node(model), 24).has_value();
  };
  EXPECT_FALSE(
      body_of("g (float[1, 2, 16] q, float[1, 2, 8] k, float[1, 2, 8] v, int32[1] l, int32 t) => (y) {"
              " y = com.microsoft.GroupQueryAttention <num_heads = 2, kv_num_heads = 1, k_quant_type = \"PER_TENSOR\"> (q, k, v, \"\", \"\", l, t) }"));
  EXPECT_FALSE(body_of("g (float[2] x) => (y) { y = Relu(x) }"));
}

TEST(FunctionForms, damaged_nodes_have_no_body) {
  auto untyped = [](const std::string& graph) {
    auto model = ir::model_from_text("<ir_version: 11, opset_import: [\"\" : 24, \"com.microsoft\" : 1]>\n" + graph);
    return function_body(*model.graph->last(), 24).has_value();
  };
  EXPECT_FALSE(untyped("g (float[2] x) => (y) { y = com.microsoft.FusedMatMul(x) }"));
  EXPECT_FALSE(untyped("g (float[2] x) => (y) { y = com.microsoft.BiasGelu(\"\", x) }"));
  EXPECT_FALSE(untyped("g (float[2] x) => (y, z) { y, z = com.microsoft.FusedMatMul(x, x) }"));
  EXPECT_FALSE(untyped("g (float[1, 2, 16] x) => (y) { y = com.microsoft.GroupQueryAttention <num_heads = 2, kv_num_heads = 1> (x) }"));
  EXPECT_FALSE(untyped("g (float[2] x) => (y) { y = Swish() }"));
  EXPECT_FALSE(untyped("g (float[2] x) => (y) { y = my.domain.Thing(x) }"));
}

// ── keys ─────────────────────────────────────────────────────────────────────────────────────────────────────────────────

std::string form_of(const std::string& graph) {
  auto model = ir::model_from_text("<ir_version: 11, opset_import: [\"\" : 24, \"com.microsoft\" : 1]>\n" + graph);
  return function_form(*typed_node(model));
}

TEST(FunctionForms, equal_keys_share_a_body) {
  auto skip = [](const char* attributes, const char* outputs, const char* inputs) {
    return form_of(std::string("g (float[2, 3] x, float[3] w) => (y) { ") + outputs + " = com.microsoft.SkipSimplifiedLayerNormalization" + attributes +
                   inputs + " }");
  };
  EXPECT_EQ(skip(" <epsilon = 0.25> ", "y", "(x, x, w)"), skip(" <epsilon = 0.5> ", "y", "(x, x, w)")) << "a number stays an attribute";
  EXPECT_NE(skip("", "y", "(x, x, w)"), skip("", "y, \"\", \"\", s", "(x, x, w)"));
  EXPECT_NE(skip("", "y", "(x, x, w)"), skip("", "y", "(x, x, w, w)"));
  EXPECT_NE(skip("", "y", "(x, x, w)"), skip(" <epsilon = 0.5> ", "y", "(x, x, w)")) << "its default is written into the body";

  auto product = [](const char* attributes, const char* a) {
    return form_of(std::string("g (float[") + a + "] x, float[4, 3] w) => (y) { y = com.microsoft.FusedMatMul" + attributes + "(x, w) }");
  };
  EXPECT_EQ(product(" <transB = 1> ", "2, 3"), product(" <transB = 1, transA = 0, alpha = 1.0> ", "5, 2, 3")) << "the rank of x does not matter";
  EXPECT_NE(product(" <transA = 1> ", "4, 3"), product(" <transA = 1> ", "2, 4, 3"));
}

// ── for other runtimes ───────────────────────────────────────────────────────────────────────────────────────────────────

// Writes the fixtures' models with their bodies to the file that MOBIUS_DUMP_BODIES names, for testdata/ops/check_bodies.py.
TEST(FunctionDump, writes_models_with_bodies) {
  const formats::TempFolder own;
  const fs::path path = environment("MOBIUS_DUMP_BODIES").value_or((own.path() / "bodies.json").string());
  Json::Array models;
  for (const auto& topic : topics_with_bodies()) {
    for (const auto& c : fixtures::read(topic)) {
      for (std::int64_t opset : {24, 21}) {
        auto model = ir::model_from_text(c.model);
        auto function = function_body(*typed_node(model), opset);
        if (!function) continue;
        auto version = std::max<std::int64_t>(opset, model.opset_imports.at(""));
        function->opset_imports[""] = version;
        model.functions.push_back(std::move(*function));
        models.push_back(Json::Object{{"topic", topic}, {"name", c.name}, {"opset", opset}, {"model", ir::to_text(model)}});
      }
    }
  }
  EXPECT_FALSE(models.empty());
  write_text_file(path, Json(std::move(models)).dump());
}

}  // namespace
}  // namespace mobius::ops
