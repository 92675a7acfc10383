#include "mobius/rules/rule_test.hpp"

namespace mobius::rules {
namespace {

rewrite::Example norm_of(const char* x, const char* skip, const char* gamma = "8") {
  return {.variables = {{"x", x}, {"skip", skip}, {"gamma", gamma}, {"beta", gamma}, {"bias", "8"}}};
}
const std::vector<rewrite::Example> norms = {norm_of("B,S,8", "B,S,8"), norm_of("T,8", "T,8", "constant 8"), norm_of("B,S,8", "S,8"),
                                             norm_of("B,S,8", "1,S,8")};
const RuleExamples examples[] = {{"SkipLayerNorm", norms}, {"SkipLayerNormNoBeta", norms}, {"SkipLayerNormBias", norms}, {"SkipLayerNormBiasNoBeta", norms}};

// s = a + b over [B, S, 8], its norm with or without beta, and another reader of s.
std::string graph(const char* r, const char* nodes) {
  return fmt::format(
      "g (float[B,S,8] x, {} r) => (float[B,S,8] y, float[B,S,8] z) <float[8] gamma, float[8] beta, float[8] bias, float[1] one>"
      " {{ {} z = Neg(s) }}",
      r, nodes);
}
std::string expected(const char* r, const char* operands) {
  return graph(r, fmt::format("y, \"\", \"\", s = com.microsoft.SkipLayerNormalization<epsilon = 0.1>({})", operands).c_str());
}

TEST(SkipLayerNorm, TakesTheResidualAlong) {
  for (const auto* sum : {"x, r", "r, x"})
    expect_rewrite(skip_layer_norm(), "default",
                   graph("float[B,S,8]", fmt::format("s = Add({}) y = LayerNormalization<epsilon = 0.1>(s, gamma, beta)", sum).c_str()),
                   expected("float[B,S,8]", fmt::format("{}, gamma, beta", sum).c_str()));
}
TEST(SkipLayerNorm, WritesEpsilonAlways) {
  expect_rewrite(
      skip_layer_norm(), "cpu",
      "g (float[T,8] x, float[T,8] r, float[8] w, float[8] b) => (float[T,8] y, float[T,8] s) { s = Add(x, r) y = LayerNormalization<axis = 1>(s, w, b) }",
      "g (float[T,8] x, float[T,8] r, float[8] w, float[8] b) => (float[T,8] y, float[T,8] s) {"
      " y, \"\", \"\", s = com.microsoft.SkipLayerNormalization<epsilon = 0.00001>(x, r, w, b) }");
}
TEST(SkipLayerNorm, TakesABias) {
  for (const auto* sums : {"a = Add(x, bias) s = Add(a, r)", "a = Add(bias, x) s = Add(a, r)", "a = Add(x, bias) s = Add(r, a)"})
    expect_rewrite(skip_layer_norm(), "webgpu", graph("float[B,S,8]", fmt::format("{} y = LayerNormalization<epsilon = 0.1>(s, gamma, beta)", sums).c_str()),
                   expected("float[B,S,8]", "x, r, gamma, beta, bias"));
  expect_rewrite(skip_layer_norm(), "cpu", graph("float[B,S,8]", "a = Add(x, bias) s = Add(a, r) y = LayerNormalization<epsilon = 0.1>(s, gamma)"),
                 expected("float[B,S,8]", "x, r, gamma, \"\", bias"));
  expect_rewrite(skip_layer_norm(), "default", graph("float[B,S,8]", "a = Add(x, bias) s = Add(a, r) y = LayerNormalization(s, gamma, beta)"),
                 "Add SkipLayerNormalization Neg");
}
TEST(SkipLayerNorm, TakesNoBeta) {
  const auto text = graph("float[B,S,8]", "s = Add(x, r) y = LayerNormalization<epsilon = 0.1>(s, gamma)");
  expect_rewrite(skip_layer_norm(), "cpu", text, expected("float[B,S,8]", "x, r, gamma"));
  expect_unchanged(skip_layer_norm(), "default", text, "an operand is missing");
}
TEST(SkipLayerNorm, TakesASkipThatTheBatchShares) {
  for (const auto* r : {"float[1,S,8]", "float[S,8]"})
    for (const auto* sum : {"x, r", "r, x"}) {
      const auto text = graph(r, fmt::format("s = Add({}) y = LayerNormalization<epsilon = 0.1>(s, gamma, beta)", sum).c_str());
      expect_rewrite(skip_layer_norm(), "cpu", text, expected(r, "x, r, gamma, beta"));
      expect_unchanged(skip_layer_norm(), "dml", text, "which the kernel here does not broadcast");
    }
}
TEST(SkipLayerNorm, NotAnotherBroadcast) {
  for (const auto* r : {"float[8]", "float[1,1,8]", "float[B,1,8]", "float[1]"})
    expect_unchanged(skip_layer_norm(), "cpu", graph(r, "s = Add(x, r) y = LayerNormalization(s, gamma, beta)"), "operands have shapes [B, S, 8] and [");
}
TEST(SkipLayerNorm, NotWhereTheEpLacksIt) {
  expect_unchanged(skip_layer_norm(), "trt-rtx", graph("float[B,S,8]", "s = Add(x, r) y = LayerNormalization(s, gamma, beta)"), "");
}
TEST(SkipLayerNorm, NotOtherNorms) {
  const auto unchanged = [](const char* nodes, const char* reason) { expect_unchanged(skip_layer_norm(), "cpu", graph("float[B,S,8]", nodes), reason); };
  unchanged("s = Add(x, r) y = LayerNormalization<axis = 0>(s, x, r)", "axis 0 is not the last of [B, S, 8]");
  unchanged("s = Add(x, r) y = LayerNormalization<stash_type = 16>(s, gamma, beta)", "attribute stash_type is set");
  unchanged("s = Add(x, r) y = LayerNormalization(s, gamma, one)", "one is [1], not a vector for the last axis of [B, S, 8]");
  unchanged("s = Sub(x, r) y = LayerNormalization(s, gamma, beta)", "the graph has no Add");
}
TEST(SkipLayerNorm, NotWithStatistics) {
  expect_unchanged(skip_layer_norm(), "cpu",
                   "g (float[B,S,8] x, float[B,S,8] r, float[8] w, float[8] b) => (float[B,S,8] y, float[B,S,1] mean) {"
                   " s = Add(x, r) y, mean = LayerNormalization(s, w, b) }",
                   "mean is a graph output");
}

}  // namespace
}  // namespace mobius::rules
