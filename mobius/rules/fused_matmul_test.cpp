#include "mobius/rules/rule_test.hpp"

namespace mobius::rules {
namespace {

const std::vector<rewrite::Example> products = {
    {.variables = {{"a", "B,S,8"}, {"b", "8,4"}}, .attributes = {{"transA", "0"}, {"transB", "0"}}},
    {.variables = {{"a", "8,8"}, {"b", "4,8"}}, .attributes = {{"transA", "1"}, {"transB", "1"}}},
};
const RuleExamples examples[] = {
    {"FusedMatMul", {{.variables = {{"x", "B,S,8"}, {"w", "constant 4,8"}}}, {.variables = {{"x", "S,8"}, {"w", "4,8"}}}}},
    {"FusedMatMulTransB",
     {{.variables = {{"a", "B,S,8"}, {"b", "4,8"}}}, {.variables = {{"a", "B,S,8"}, {"b", "B,4,8"}}}, {.variables = {{"a", "B,N,S,8"}, {"b", "B,N,4,8"}}}}},
    {"FusedMatMulTransA",
     {{.variables = {{"a", "8,S"}, {"b", "B,8,4"}}}, {.variables = {{"a", "B,8,S"}, {"b", "B,8,4"}}}, {.variables = {{"a", "B,N,8,S"}, {"b", "B,N,8,4"}}}}},
    {"FusedMatMulAlsoTransB",
     {{.variables = {{"a", "8,8"}, {"b", "4,8"}}, .attributes = {{"transA", "1"}}},
      {.variables = {{"a", "B,8,8"}, {"b", "B,4,8"}}, .attributes = {{"transA", "1"}}},
      {.variables = {{"a", "B,N,S,8"}, {"b", "B,N,4,8"}}, .attributes = {{"transA", "0"}}}}},
    {"FusedMatMulAlsoTransA",
     {{.variables = {{"a", "8,4"}, {"b", "8,8"}}, .attributes = {{"transB", "1"}}},
      {.variables = {{"a", "B,8,S"}, {"b", "B,8,8"}}, .attributes = {{"transB", "1"}}},
      {.variables = {{"a", "B,N,8,S"}, {"b", "B,N,8,4"}}, .attributes = {{"transB", "0"}}}}},
    {"FusedMatMulScale", products},
    {"FusedMatMulScaledA", products},
    {"FusedMatMulScaledB", products},
};

constexpr auto linear = "g (float[B,S,8] x) => (float[B,S,4] y) <float[4,8] w> { t = Transpose<perm = [1, 0]>(w) y = MatMul(x, t) }";

TEST(FusedMatMul, TakesATransposedWeight) {
  expect_rewrite(fused_matmul(), "default", linear,
                 "g (float[B,S,8] x) => (float[B,S,4] y) <float[4,8] w> { y = com.microsoft.FusedMatMul<transB = 1>(x, w) }");
}
TEST(FusedMatMul, TakesAWeightThatSeveralProductsTranspose) {
  expect_rewrite(fused_matmul(), "default",
                 "g (float[B,8] x) => (float[B,8] y) <float[8,8] w> { t = Transpose<perm = [1, 0]>(w) h = MatMul(x, t) y = MatMul(h, t) }",
                 "FusedMatMul FusedMatMul");
}
TEST(FusedMatMul, NotWhereTheEpLacksIt) { expect_unchanged(fused_matmul(), "onnx-standard", linear, ""); }
TEST(FusedMatMul, NotAnotherPermutation) {
  expect_unchanged(fused_matmul(), "default", "g (float[B,S,8] x, float[8,4] w) => (float[B,S,4] y) { t = Transpose<perm = [0, 1]>(w) y = MatMul(x, t) }",
                   "attribute perm has another value");
  expect_unchanged(fused_matmul(), "cpu", "g (float[2,4,8] x, float[8,2,4] w) => (float[2,4,4] y) { t = Transpose<perm = [1, 0, 2]>(w) y = MatMul(x, t) }",
                   "attribute perm has another value");
}
TEST(FusedMatMul, NotATransposeThatOthersRead) {
  expect_unchanged(fused_matmul(), "cpu",
                   "g (float[4,8] x, float[4,8] w) => (float[4,4] y, float[8,4] z) { t = Transpose<perm = [1, 0]>(w) y = MatMul(x, t) z = Neg(t) }",
                   "t has another user");
  expect_unchanged(fused_matmul(), "cpu", "g (float[4,8] x, float[4,8] w) => (float[4,4] y, float[8,4] t) { t = Transpose<perm = [1, 0]>(w) y = MatMul(x, t) }",
                   "t is a graph output");
}
TEST(FusedMatMul, NotOtherTypesAndRanks) {
  expect_unchanged(fused_matmul(), "cpu", "g (int32[4,8] x, int32[4,8] w) => (int32[4,4] y) { t = Transpose<perm = [1, 0]>(w) y = MatMul(x, t) }",
                   "INT32 of x has no FusedMatMul kernel here");
  expect_unchanged(fused_matmul(), "cpu", "g (float[8] x, float[4,8] w) => (float[4] y) { t = Transpose<perm = [1, 0]>(w) y = MatMul(x, t) }",
                   "x is [8], expected rank 2 to 4");
}

// ── forms that a function body is not for ────────────────────────────────────────────────────────────────────────────────────

constexpr auto scores = "g (float[B,2,S,4] q, float[B,2,T,4] k) => (float[B,2,S,T] y) { t = Transpose<perm = [0, 1, 3, 2]>(k) y = MatMul(q, t) }";

TEST(FusedMatMul, TransposesStacksOfMatrices) {
  expect_rewrite(fused_matmul(), "cpu", scores,
                 "g (float[B,2,S,4] q, float[B,2,T,4] k) => (float[B,2,S,T] y) { y = com.microsoft.FusedMatMul<transB = 1>(q, k) }");
  expect_rewrite(fused_matmul(), "cpu", "g (float[B,8,S] x, float[8,4] w) => (float[B,S,4] y) { t = Transpose<perm = [0, 2, 1]>(x) y = MatMul(t, w) }",
                 "g (float[B,8,S] x, float[8,4] w) => (float[B,S,4] y) { y = com.microsoft.FusedMatMul<transA = 1>(x, w) }");
}
TEST(FusedMatMul, TransposesBothOperands) {
  expect_rewrite(fused_matmul(), "cpu",
                 "g (float[B,8,S] x, float[4,8] w) => (float[B,S,4] y) { s = Transpose<perm = [0, 2, 1]>(x) t = Transpose<perm = [1, 0]>(w) y = MatMul(s, t) }",
                 "g (float[B,8,S] x, float[4,8] w) => (float[B,S,4] y) { y = com.microsoft.FusedMatMul<transA = 1, transB = 1>(x, w) }");
}
TEST(FusedMatMul, GoesOnWithWhatIsFusedAlready) {
  expect_rewrite(
      fused_matmul(), "cpu",
      "g (float[8,S] x, float[4,8] w) => (float[S,4] y) { s = Transpose<perm = [1, 0]>(x) y = com.microsoft.FusedMatMul<alpha = 0.5, transB = 1>(s, w) }",
      "g (float[8,S] x, float[4,8] w) => (float[S,4] y) { y = com.microsoft.FusedMatMul<alpha = 0.5, transA = 1, transB = 1>(x, w) }");
  expect_rewrite(
      fused_matmul(), "cpu",
      "g (float[8,S] x, float[4,8] w) => (float[S,4] y) { t = Transpose<perm = [1, 0]>(w) y = com.microsoft.FusedMatMul<alpha = 0.5, transA = 1>(x, t) }",
      "g (float[8,S] x, float[4,8] w) => (float[S,4] y) { y = com.microsoft.FusedMatMul<alpha = 0.5, transA = 1, transB = 1>(x, w) }");
}
TEST(FusedMatMul, NotTransposedTwice) {
  expect_unchanged(fused_matmul(), "cpu",
                   "g (float[S,8] x, float[8,4] w) => (float[S,4] y) { t = Transpose<perm = [1, 0]>(w) y = com.microsoft.FusedMatMul<transB = 1>(x, t) }",
                   "before it");
}
TEST(FusedMatMul, OneFormWhereFunctionBodiesStandIn) { expect_unchanged(fused_matmul(), "default", scores, "attribute perm has another value"); }

TEST(FusedMatMul, TakesAScaleBehind) {
  const std::string expected = "g (float[S,8] x, float[8,4] w) => (float[S,4] y) { y = com.microsoft.FusedMatMul<alpha = 0.25>(x, w) }";
  for (const auto* y : {"Mul(p, c)", "Mul(c, p)", "Div(p, d)"})
    expect_rewrite(fused_matmul(), "cpu",
                   std::string("g (float[S,8] x, float[8,4] w) => (float[S,4] y) <float c = {0.25}, float d = {4}> { p = MatMul(x, w) y = ") + y + " }",
                   expected);
}
TEST(FusedMatMul, TakesAScaleBefore) {
  const std::string expected = "g (float[S,8] x, float[8,4] w) => (float[S,4] y) { y = com.microsoft.FusedMatMul<alpha = 0.25>(x, w) }";
  for (const auto* p :
       {"Mul(x, c) y = MatMul(p, w)", "Mul(c, x) y = MatMul(p, w)", "Div(x, d) y = MatMul(p, w)", "Mul(w, c) y = MatMul(x, p)", "Div(w, d) y = MatMul(x, p)"})
    expect_rewrite(fused_matmul(), "cpu", std::string("g (float[S,8] x, float[8,4] w) => (float[S,4] y) <float c = {0.25}, float d = {4}> { p = ") + p + " }",
                   expected);
}
TEST(FusedMatMul, MultipliesScales) {
  expect_rewrite(fused_matmul(), "cpu",
                 "g (float[S,8] x, float[4,8] w) => (float[S,4] y) <float[1] c = {0.5}, float[1,1] d = {4}>"
                 " { a = Mul(x, c) t = Transpose<perm = [1, 0]>(w) p = MatMul(a, t) y = Div(p, d) }",
                 "g (float[S,8] x, float[4,8] w) => (float[S,4] y) { y = com.microsoft.FusedMatMul<alpha = 0.125, transB = 1>(x, w) }");
}
TEST(FusedMatMul, NotAScaleThatIsNone) {
  const auto with = [](const char* weights, const char* nodes) {
    return fmt::format("g (float[S,4] x, float[4,4] w, float[4] v) => (float[S,4] y, float[S,4] z) <{}> {{ {} }}", weights, nodes);
  };
  const auto unchanged = [&](const std::string& text, const char* reason) { expect_unchanged(fused_matmul(), "cpu", text, reason); };
  unchanged(with("float c = {2}", "p = MatMul(x, w) y = Mul(p, c) z = Neg(p)"), "p has another user");
  unchanged(with("float[2] c = {2, 3}", "p = MatMul(x, w) y = Mul(p, v) z = Neg(x)"), "'c' is not a scalar constant");
  unchanged(with("float c = {0}", "p = MatMul(x, w) y = Div(p, c) z = Neg(x)"), "the scale is zero or not a number");
  unchanged(with("float c = {2}", "p = MatMul(x, w) y = Div(c, p) z = Neg(x)"), "before it");
  unchanged("g (float[S,4] x, float[4,4] w) => (float[1,S,4] y) <float[1,1,1] c = {2}> { p = MatMul(x, w) y = Mul(p, c) }", "c adds axes");
  unchanged("g (float[S,4] x, float[4,4] w) => (float[S,4] y, float[S,4] p) <float c = {2}> { p = MatMul(x, w) y = Mul(p, c) }", "p is a graph output");
}

}  // namespace
}  // namespace mobius::rules
