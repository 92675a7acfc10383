#include "mobius/rules/rule_test.hpp"

namespace mobius::rules {
namespace {

constexpr auto linear = "g (float[B,S,8] x) => (float[B,S,4] y) <float[4,8] w> { t = Transpose<perm = [1, 0]>(w) y = MatMul(x, t) }";

TEST(FusedMatMul, TakesATransposedWeight) {
  expect_rewrite(fused_matmul(), "default", linear,
                 "g (float[B,S,8] x) => (float[B,S,4] y) <float[4,8] w> { y = com.microsoft.FusedMatMul<transB = 1>(x, w) }");
}
TEST(FusedMatMul, NotWhereTheEpLacksIt) { expect_unchanged(fused_matmul(), "onnx-standard", linear, ""); }
TEST(FusedMatMul, NotAnotherPermutation) {
  expect_unchanged(fused_matmul(), "default", "g (float[B,S,8] x, float[8,4] w) => (float[B,S,4] y) { t = Transpose<perm = [0, 1]>(w) y = MatMul(x, t) }",
                   "attribute perm has another value");
}

}  // namespace
}  // namespace mobius::rules
