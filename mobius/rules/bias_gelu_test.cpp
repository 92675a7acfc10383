#include "mobius/rules/rule_test.hpp"

namespace mobius::rules {
namespace {

const std::vector<rewrite::Example> biased = {{.variables = {{"x", "B,S,8"}, {"bias", "8"}}}, {.variables = {{"x", "8"}, {"bias", "constant 8"}}}};
const RuleExamples examples[] = {{"BiasGelu", biased, {{"BiasGelu 1: operands 0 and 1 swapped", "a sum"}}},
                                 {"FastGeluBias", biased, {{"FastGelu 1: operands 0 and 1 swapped", "a sum"}}},
                                 {"FastGelu", {{.variables = {{"x", "B,S,8"}}}}}};

std::string graph(const char* nodes) { return std::string("g (float[B,S,8] x) => (float[B,S,8] y) <float[8] b, float[1] one> { ") + nodes + " }"; }

TEST(BiasGelu, TakesTheErfForm) {
  for (const auto* sum : {"Add(x, b)", "Add(b, x)"})
    for (const auto* g : {"Gelu(s)", "Gelu<approximate = \"none\">(s)"})
      expect_rewrite(bias_gelu(), "cpu", graph(fmt::format("s = {} y = {}", sum, g).c_str()), graph("y = com.microsoft.BiasGelu(x, b)"));
}
TEST(BiasGelu, NotTheTanhForm) {
  expect_unchanged(bias_gelu(), "cpu", graph("s = Add(x, b) y = Gelu<approximate = \"tanh\">(s)"), "attribute approximate is set");
}
TEST(BiasGelu, NotWhereTheEpLacksIt) {
  for (const auto* ep : {"default", "onnx-standard", "trt-rtx", "mlx"}) expect_unchanged(bias_gelu(), ep, graph("s = Add(x, b) y = Gelu(s)"), "");
}
TEST(BiasGelu, NotAnotherSum) {
  const auto unchanged = [](const char* inputs, const char* nodes, const char* reason) {
    expect_unchanged(bias_gelu(), "cpu", fmt::format("g ({}) {{ {} }}", inputs, nodes), reason);
  };
  unchanged("float[B,8] x, float[B,8] r) => (float[B,8] y", "s = Add(x, r) y = Gelu(s)", "r is [B, 8], not a vector for the last axis of [B, 8]");
  unchanged("float[B,8] x, float[1] r) => (float[B,8] y", "s = Add(x, r) y = Gelu(s)", "r is [1], not a vector for the last axis of [B, 8]");
  unchanged("float[B,8] x, float[8] r) => (float[B,8] y, float[B,8] s", "s = Add(x, r) y = Gelu(s)", "s is a graph output");
  unchanged("float[B,8] x, float[8] r) => (float[B,8] y, float[B,8] z", "s = Add(x, r) y = Gelu(s) z = Neg(s)", "s has another user");
}

TEST(FastGelu, TakesTheTanhForm) {
  for (const auto* sum : {"Add(x, b)", "Add(b, x)"})
    expect_rewrite(fast_gelu(), "cuda", graph(fmt::format("s = {} y = Gelu<approximate = \"tanh\">(s)", sum).c_str()),
                   graph("y = com.microsoft.FastGelu(x, b)"));
}
TEST(FastGelu, TakesNoBias) {
  expect_rewrite(fast_gelu(), "cuda", graph("y = Gelu<approximate = \"tanh\">(x)"), graph("y = com.microsoft.FastGelu(x)"));
  expect_rewrite(fast_gelu(), "cuda", graph("s = Add(x, one) y = Gelu<approximate = \"tanh\">(s)"), graph("s = Add(x, one) y = com.microsoft.FastGelu(s)"));
}
TEST(FastGelu, NotTheErfForm) { expect_unchanged(fast_gelu(), "cuda", graph("s = Add(x, b) y = Gelu(s)"), "attribute approximate has another value"); }
TEST(FastGelu, NotWhereTheEpLacksIt) {
  for (const auto* ep : {"default", "onnx-standard", "trt-rtx", "mlx"}) expect_unchanged(fast_gelu(), ep, graph("y = Gelu<approximate = \"tanh\">(x)"), "");
}
TEST(FastGelu, NotOtherTypes) {
  const EpCapabilities half_only{.name = "half-only", .supports_bias_gelu = true, .supports_fast_gelu = true, .gelu_dtypes = {ir::DataType::float16}};
  const rewrite::Target target{half_only, ir::DataType::float32, "decoder"};
  auto model = ir::model_from_text(graph("s = Add(x, b) e = Gelu(s) y = Gelu<approximate = \"tanh\">(e)"));
  ops::TypeInference().infer(*model.graph);
  EXPECT_THAT(rewrite::apply(bias_gelu(), *model.graph, target).nearest_miss, testing::HasSubstr("FLOAT of x has no BiasGelu kernel here"));
  EXPECT_THAT(rewrite::apply(fast_gelu(), *model.graph, target).nearest_miss, testing::HasSubstr("FLOAT of e has no FastGelu kernel here"));
}

}  // namespace
}  // namespace mobius::rules
