#include "mobius/rules/rule_test.hpp"

namespace mobius::rules {
namespace {

rewrite::Example norm_of(const char* x, const char* gamma) { return {.variables = {{"x", x}, {"skip", x}, {"gamma", gamma}, {"bias", "8"}}}; }
const std::vector<rewrite::Example> norms = {norm_of("B,S,8", "8"), norm_of("T,8", "constant 8")};
const std::map<std::string, std::string> symmetric = {{"SkipSimplifiedLayerNormalization 1: operands 0 and 1 swapped", "a sum"}};
const RuleExamples examples[] = {{"SkipNorm", norms, symmetric}, {"SkipNormBias", norms, symmetric}};

constexpr auto residual =
    "g (float[B,S,8] x, float[B,S,8] r, float[8] w) => (float[B,S,8] y, float[B,S,8] z) { s = Add(x, r) y = RMSNormalization<epsilon = 0.1>(s, w) z = Neg(s) }";

TEST(SkipNorm, TakesTheResidualAlong) {
  expect_rewrite(skip_norm(), "default", residual,
                 "g (float[B,S,8] x, float[B,S,8] r, float[8] w) => (float[B,S,8] y, float[B,S,8] z) {"
                 " y, \"\", \"\", s = com.microsoft.SkipSimplifiedLayerNormalization<epsilon = 0.1>(x, r, w) z = Neg(s) }");
}
// Runtimes' own default for the skip operator is 1e-12.
TEST(SkipNorm, WritesEpsilonAlways) {
  expect_rewrite(skip_norm(), "default",
                 "g (float[T,8] x, float[T,8] r, float[8] w) => (float[T,8] y, float[T,8] z) { s = Add(x, r) y = RMSNormalization<axis = 1>(s, w) z = Neg(s) }",
                 "g (float[T,8] x, float[T,8] r, float[8] w) => (float[T,8] y, float[T,8] z) {"
                 " y, \"\", \"\", s = com.microsoft.SkipSimplifiedLayerNormalization<epsilon = 0.00001>(x, r, w) z = Neg(s) }");
}
TEST(SkipNorm, NotWhereTheEpLacksIt) { expect_unchanged(skip_norm(), "trt-rtx", residual, ""); }
TEST(SkipNorm, NotABroadcastSum) {
  for (const auto* r : {"float[8]", "float[1,S,8]", "float[S,8]", "float[B,1,8]"})
    expect_unchanged(skip_norm(), "cpu",
                     fmt::format("g (float[B,S,8] x, {} r, float[8] w) => (float[B,S,8] y) {{ s = Add(x, r) y = RMSNormalization(s, w) }}", r),
                     "operands have shapes [B, S, 8] and [");
}
TEST(SkipNorm, NotOverAnotherAxis) {
  expect_unchanged(skip_norm(), "default",
                   "g (float[B,S,8] x, float[B,S,8] r, float[S,8] w) => (float[B,S,8] y) { s = Add(x, r) y = RMSNormalization<axis = 1>(s, w) }",
                   "axis 1 is not the last of [B, S, 8]");
}
TEST(SkipNorm, NotAnotherStashType) {
  expect_unchanged(skip_norm(), "default",
                   "g (float[B,S,8] x, float[B,S,8] r, float[8] w) => (float[B,S,8] y) { s = Add(x, r) y = RMSNormalization<stash_type = 16>(s, w) }",
                   "attribute stash_type is set");
}
TEST(SkipNorm, NotOtherRanksAndTypes) {
  expect_unchanged(skip_norm(), "default",
                   "g (float[B,S,2,8] x, float[B,S,2,8] r, float[8] w) => (float[B,S,2,8] y) { s = Add(x, r) y = RMSNormalization(s, w) }",
                   "x is [B, S, 2, 8], expected rank 2 to 3");
  expect_unchanged(skip_norm(), "default",
                   "g (float16[B,S,8] x, float16[B,S,8] r, float[8] w) => (float[B,S,8] y) { s = Add(x, r) y = RMSNormalization(s, w) }",
                   "w is FLOAT, x is FLOAT16");
  expect_unchanged(skip_norm(), "default", "g (float[B,S,8] x, float[B,S,8] r, float[1] w) => (float[B,S,8] y) { s = Add(x, r) y = RMSNormalization(s, w) }",
                   "w is [1], not a vector for the last axis of [B, S, 8]");
}
TEST(SkipNorm, ASumThatIsAnOutputStaysOne) {
  expect_rewrite(skip_norm(), "default",
                 "g (float[B,S,8] x, float[B,S,8] r, float[8] w) => (float[B,S,8] y, float[B,S,8] s) { s = Add(x, r) y = RMSNormalization(s, w) }",
                 "SkipSimplifiedLayerNormalization");
}

std::string biased(const char* inner, const char* outer) {
  return fmt::format(
      "g (float[B,S,8] x, float[B,S,8] r) => (float[B,S,8] y, float[B,S,8] z) <float[8] w, float[8] b>"
      " {{ a = Add({}) s = Add({}) y = RMSNormalization(s, w) z = Neg(s) }}",
      inner, outer);
}

TEST(SkipNorm, TakesABias) {
  for (const auto* inner : {"x, b", "b, x"})
    for (const auto* outer : {"a, r", "r, a"})
      expect_rewrite(skip_norm(), "cpu", biased(inner, outer),
                     "g (float[B,S,8] x, float[B,S,8] r) => (float[B,S,8] y, float[B,S,8] z) <float[8] w, float[8] b> {"
                     " y, \"\", \"\", s = com.microsoft.SkipSimplifiedLayerNormalization<epsilon = 0.00001>(x, r, w, b) z = Neg(s) }");
}
TEST(SkipNorm, LeavesABiasThatTheKernelOrTheBodyIsNotFor) {
  for (const auto* ep : {"default", "webgpu"}) expect_rewrite(skip_norm(), ep, biased("x, b", "r, a"), "Add SkipSimplifiedLayerNormalization Neg");
}
TEST(SkipNorm, LeavesABiasedSumThatOthersRead) {
  expect_rewrite(skip_norm(), "cpu",
                 "g (float[B,S,8] x, float[B,S,8] r) => (float[B,S,8] y, float[B,S,8] a) <float[8] w, float[8] b>"
                 " { a = Add(x, b) s = Add(a, r) y = RMSNormalization(s, w) }",
                 "Add SkipSimplifiedLayerNormalization");
}

}  // namespace
}  // namespace mobius::rules
