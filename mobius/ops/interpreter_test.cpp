// The reference interpreter against ONNX Runtime's values, and its own rules: scopes, functions, errors.
#include "mobius/ops/interpreter.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "mobius/base/error.hpp"
#include "mobius/ops/fixtures.hpp"

namespace mobius::ops {
namespace {

using testing::HasSubstr;

class ReferenceTopic : public testing::TestWithParam<std::string> {};

TEST_P(ReferenceTopic, agrees_with_onnx_runtime) {
  auto cases = fixtures::read(GetParam());
  EXPECT_GT(cases.size(), 5U);
  for (const auto& c : cases) {
    SCOPED_TRACE(c.name);
    try {
      auto model = ir::model_from_text(c.model);
      auto results = interpret(*model.graph, c.inputs);
      for (const auto& [name, want] : c.outputs) {
        ASSERT_TRUE(results.contains(name)) << name;
        if (want) {
          EXPECT_EQ(fixtures::difference(results.at(name), *want, 1e-5, c.rows), "") << name;
        }
      }
    } catch (const Error& error) {
      ADD_FAILURE() << error.what();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Fixtures, ReferenceTopic, testing::ValuesIn(fixtures::topics()), [](const auto& topic) { return topic.param; });

// ── rules of the interpreter itself ──────────────────────────────────────────────────────────────────────────────────────

ir::Model model_of(const std::string& text) {
  return ir::model_from_text("<ir_version: 11, opset_import: [\"\" : 24, \"com.microsoft\" : 1, \"local\" : 1]>\n" + text);
}

Array vector(std::vector<double> values, ir::DataType dtype = ir::DataType::float32) {
  return {dtype, {static_cast<std::int64_t>(values.size())}, std::move(values)};
}

std::string error_of(const std::string& text, const std::map<std::string, Array>& inputs, ErrorKind kind = ErrorKind::invalid_argument) {
  try {
    auto model = model_of(text);
    interpret(*model.graph, inputs, &model.functions);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind) << error.what();
    return error.what();
  }
  return "no error";
}

TEST(Interpreter, functions_take_attributes_and_defaults) {
  auto model = model_of(R"(g (float[2] x) => (a, b) {
    a = local.scaled <factor = 3.0> (x)
    b = local.scaled(x)
  }
  <domain: "local", opset_import: ["" : 24]>
  scaled <factor: float = 2.0> (x) => (y) {
    f = Constant <value_float: float = @factor> ()
    y = Mul(x, f)
  })");
  auto results = interpret(*model.graph, {{"x", vector({1, 2})}}, &model.functions);
  EXPECT_THAT(results.at("a").values, testing::ElementsAre(3, 6));
  EXPECT_THAT(results.at("b").values, testing::ElementsAre(2, 4));
}

TEST(Interpreter, a_function_wins_over_the_reference_only_when_preferred) {
  auto model = model_of(R"(g (float[2] x) => (y) { y = com.microsoft.QuickGelu(x) }
  <domain: "com.microsoft", opset_import: ["" : 24]>
  QuickGelu (x) => (y) { y = Neg(x) })");
  EXPECT_NEAR(interpret(*model.graph, {{"x", vector({1, 2})}}, &model.functions).at("y").values[0], 1 / (1 + std::exp(-1.702)), 1e-6);
  EXPECT_EQ(interpret(*model.graph, {{"x", vector({1, 2})}}, &model.functions, true).at("y").values[0], -1);
}

TEST(Interpreter, one_node) {
  auto model = model_of("g (float[2] x, float[1] w) => (y) { y = Mul(x, w) }");
  Array x = vector({1, 2}), w = vector({4});
  const Array* operands[] = {&x, &w};
  EXPECT_THAT(interpret(*model.graph->first(), operands).at(0).values, testing::ElementsAre(4, 8));
}

TEST(Interpreter, a_function_that_calls_itself_is_refused) {
  EXPECT_THAT(error_of(R"(g (float[1] x) => (y) { y = local.f(x) }
  <domain: "local", opset_import: ["" : 24, "local" : 1]>
  f (x) => (y) { y = local.f(x) })",
                       {{"x", vector({1})}}, ErrorKind::unsupported),
              HasSubstr("nested deeper"));
}

TEST(Interpreter, refuses_what_it_does_not_take) {
  EXPECT_THAT(error_of("g (float[1] x) => (y) { [\"n\"] y = local.unknown(x) }", {{"x", vector({1})}}, ErrorKind::unsupported),
              HasSubstr("local::unknown has no reference"));
  EXPECT_THAT(error_of("g (float[2] x, float[3] z) => (y) { [\"n\"] y = Add(x, z) }", {{"x", vector({1, 2})}, {"z", vector({1, 2, 3})}}),
              HasSubstr("n (Add): [2] and [3]"));
  EXPECT_THAT(error_of("g (float[2] x) => (y) { y = Add(x) }", {{"x", vector({1, 2})}}), HasSubstr("input 1 is missing"));
  EXPECT_THAT(error_of("g (float[2] x) => (y) { y = Relu(x) }", {}), HasSubstr("value 'x' has no data"));
  EXPECT_THAT(error_of("g (float[2] x) => (y) { y = Relu(x) }", {{"x", {ir::DataType::float32, {3}, {1, 2}}}}), HasSubstr("input 'x' has 2 values for [3]"));
  EXPECT_THAT(error_of("g (float[2] x) => (y) { y = Relu(x) }", {{"z", vector({1})}}, ErrorKind::not_found), HasSubstr("no input 'z'"));
  EXPECT_THAT(error_of("g (int64[2] s) => (y) { y = ConstantOfShape(s) }", {{"s", vector({1e9, 1e9}, ir::DataType::int64)}}, ErrorKind::unsupported),
              HasSubstr("too large"));
  EXPECT_THAT(
      error_of("g (int64[1] x, int64[1] z) => (y) { y = Div(x, z) }", {{"x", vector({1}, ir::DataType::int64)}, {"z", vector({0}, ir::DataType::int64)}}),
      HasSubstr("division by zero"));
  EXPECT_THAT(error_of("g (float[1,1,8] q, int32[1] l, int32 t, float[2] sink) => (y) {"
                       " y = com.microsoft.GroupQueryAttention <num_heads = 2, kv_num_heads = 1> (q, q, q, \"\", \"\", l, t) }",
                       {{"q", {ir::DataType::float32, {1, 1, 8}, std::vector<double>(8, 1)}},
                        {"l", vector({0}, ir::DataType::int32)},
                        {"t", {ir::DataType::int32, {}, {1}}}}),
              HasSubstr("query"));
  // An operand that is too short is found while it is read.
  EXPECT_THAT(error_of("g (float[1,2,1] x, float[2,1,1] w, float[1] b) => (y) { [\"n\"] y = Conv <group = 2> (x, w, b) }",
                       {{"x", {ir::DataType::float32, {1, 2, 1}, {1, 2}}}, {"w", {ir::DataType::float32, {2, 1, 1}, {1, 2}}}, {"b", vector({1})}}),
              "n (Conv): operands don't fit each other");
}

TEST(Interpreter, knows_what_it_knows) {
  EXPECT_TRUE(has_reference({"", "Attention"}));
  EXPECT_TRUE(has_reference({"com.microsoft", "MoE"}));
  EXPECT_FALSE(has_reference({"com.microsoft", "Relu"}));
}

}  // namespace
}  // namespace mobius::ops
