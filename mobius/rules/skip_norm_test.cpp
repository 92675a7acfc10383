#include "mobius/rules/rule_test.hpp"

namespace mobius::rules {
namespace {

constexpr auto residual =
    "g (float[B,S,8] x, float[B,S,8] r, float[8] w) => (float[B,S,8] y, float[B,S,8] z) { s = Add(x, r) y = RMSNormalization<epsilon = 0.1>(s, w) z = Neg(s) }";

TEST(SkipNorm, TakesTheResidualAlong) {
  expect_rewrite(skip_norm(), "default", residual,
                 "g (float[B,S,8] x, float[B,S,8] r, float[8] w) => (float[B,S,8] y, float[B,S,8] z) {"
                 " y, \"\", \"\", s = com.microsoft.SkipSimplifiedLayerNormalization<epsilon = 0.1>(x, r, w) z = Neg(s) }");
}
TEST(SkipNorm, NotWhereTheEpLacksIt) { expect_unchanged(skip_norm(), "trt-rtx", residual, ""); }
TEST(SkipNorm, NotABroadcastSum) {
  expect_unchanged(skip_norm(), "default", "g (float[B,S,8] x, float[8] r, float[8] w) => (float[B,S,8] y) { s = Add(x, r) y = RMSNormalization(s, w) }",
                   "operands have shapes [B, S, 8] and [8]");
}
TEST(SkipNorm, NotOverAnotherAxis) {
  expect_unchanged(skip_norm(), "default",
                   "g (float[B,S,8] x, float[B,S,8] r, float[S,8] w) => (float[B,S,8] y) { s = Add(x, r) y = RMSNormalization<axis = 1>(s, w) }",
                   "attribute axis is set");
}
TEST(SkipNorm, ASumThatIsAnOutputStaysOne) {
  expect_rewrite(skip_norm(), "default",
                 "g (float[B,S,8] x, float[B,S,8] r, float[8] w) => (float[B,S,8] y, float[B,S,8] s) { s = Add(x, r) y = RMSNormalization(s, w) }",
                 "SkipSimplifiedLayerNormalization");
}

}  // namespace
}  // namespace mobius::rules
