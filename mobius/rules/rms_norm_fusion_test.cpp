#include "mobius/rules/rule_test.hpp"

namespace mobius::rules {
namespace {

rewrite::Example over_last_axis(const char* x, const char* gamma) {
  return {.variables = {{"x", x}, {"gamma", gamma}, {"axes", "= -1"}}, .attributes = {{"axes", "-1"}, {"axis", "-1"}, {"back", "10"}}};
}
const RuleExamples examples[] = {{"RMSNorm", {over_last_axis("B,S,8", "8"), over_last_axis("8", "constant 8")}},
                                 {"RMSNormInFloat", {over_last_axis("float16[B,S,8]", "float16[8]")}},
                                 {"SimplifiedLayerNorm", {over_last_axis("B,S,8", "8")}},
                                 {"RMSNormOneType", {over_last_axis("float16[B,S,8]", "float[8]")}}};

constexpr auto expected = "g (float[B,S,8] x, float[8] w) => (float[B,S,8] y) { y = RMSNormalization<epsilon = 0.001>(x, w) }";

// Nodes over x and w, with the constants that such chains have.
std::string graph(const std::string& nodes) {
  return "g (float[B,S,8] x, float[8] w) => (float[B,S,8] y) <float two = {2}, int64 two_i = {2}, int64[1] last = {-1}, int64[1] second = {2}, int64[1] first "
         "= {1},"
         " float[1] eps = {0.001}, float one = {1}, float half = {0.5}, float neg_half = {-0.5}> { " +
         nodes + " }";
}
// `rest` from v = mean(x²) + ε.
std::string from_shifted(const std::string& rest) { return graph("q = Pow(x, two) m = ReduceMean(q, last) v = Add(m, eps) " + rest); }

TEST(RMSNormFusion, TakesWhatTorchWrites) {
  for (const auto* last : {"r = Reciprocal(s) n = Mul(x, r) y = Mul(w, n)", "r = Div(one, s) n = Mul(x, r) y = Mul(w, n)", "n = Div(x, s) y = Mul(n, w)",
                           "r = Reciprocal(s) n = Mul(r, x) y = Mul(n, w)"})
    expect_rewrite(rms_norm_fusion(), "default", from_shifted(std::string("s = Sqrt(v) ") + last), expected);
}
TEST(RMSNormFusion, TakesPowersForRoots) {
  for (const auto* rest : {"s = Pow(v, half) n = Div(x, s) y = Mul(n, w)", "s = Pow(v, neg_half) n = Mul(x, s) y = Mul(n, w)"})
    expect_rewrite(rms_norm_fusion(), "default", from_shifted(rest), expected);
}
TEST(RMSNormFusion, TakesSquaresAndAxesInAllForms) {
  for (const auto* square : {"Pow(x, two)", "Pow(x, two_i)", "Mul(x, x)"})
    for (const auto* mean :
         {"ReduceMean(q, last)", "ReduceMean<keepdims = 1>(q, second)", "ReduceMean<axes = [-1]>(q)", "ReduceMean<axes = [2], keepdims = 1>(q)"})
      for (const auto* sum : {"Add(m, eps)", "Add(eps, m)"})
        expect_rewrite(rms_norm_fusion(), "cuda", graph(fmt::format("q = {} m = {} v = {} s = Sqrt(v) n = Div(x, s) y = Mul(n, w)", square, mean, sum)),
                       expected);
}

std::string half(const std::string& nodes, const char* type = "float16", const char* out = "float16") {
  return fmt::format("g ({0}[B,S,8] x, {0}[8] w, float[8] w32) => ({1}[B,S,8] y) <float two = {{2}}, int64[1] last = {{-1}}, float eps = {{0.001}}> {{ {2} }}",
                     type, out, nodes);
}
constexpr auto in_float = "c = Cast<to = 1>(x) q = Pow(c, two) m = ReduceMean(q, last) v = Add(m, eps) s = Sqrt(v) r = Reciprocal(s) n = Mul(c, r) ";

TEST(RMSNormFusion, TakesCastsAlong) {
  expect_rewrite(rms_norm_fusion(), "cuda", half(std::string(in_float) + "h = Cast<to = 10>(n) y = Mul(w, h)"),
                 half("y = RMSNormalization<epsilon = 0.001>(x, w)"));
  expect_rewrite(rms_norm_fusion(), "cuda", half(std::string(in_float) + "h = Cast<to = 16>(n) y = Mul(h, w)", "bfloat16", "bfloat16"),
                 half("y = RMSNormalization<epsilon = 0.001>(x, w)", "bfloat16", "bfloat16"));
}
// Gemma's weight is applied before the result is rounded.
TEST(RMSNormFusion, LeavesAFloatWeightInFloat) {
  expect_rewrite(rms_norm_fusion(), "cuda", half(std::string(in_float) + "p = Mul(n, w32) y = Cast<to = 10>(p)"),
                 half("c = Cast<to = 1>(x) p = RMSNormalization<epsilon = 0.001>(c, w32) y = Cast<to = 10>(p)"));
}
TEST(RMSNormFusion, NotOtherCasts) {
  const auto unchanged = [](const std::string& nodes, const char* type, const char* out, const char* reason) {
    expect_unchanged(rms_norm_fusion(), "cuda", half(nodes, type, out), reason);
  };
  unchanged(std::string(in_float) + "h = Cast<to = 16>(n) b = Cast<to = 16>(w) y = Mul(b, h)", "float16", "bfloat16", "is BFLOAT16, x is FLOAT16");
  unchanged(
      "c = Cast<to = 11>(x) q = Mul(c, c) m = ReduceMean(q, last) e = Cast<to = 11>(eps) v = Add(m, e) s = Sqrt(v) n = Div(c, s) h = Cast<to = 10>(n) y = "
      "Mul(w, h)",
      "float16", "float16", "attribute to has another value");
}
TEST(RMSNormFusion, NotInDouble) {
  expect_unchanged(rms_norm_fusion(), "cpu",
                   "g (double[B,8] x, double[8] w) => (double[B,8] y) <int64[1] last = {-1}, double eps = {0.001}>"
                   " { q = Mul(x, x) m = ReduceMean(q, last) v = Add(m, eps) s = Sqrt(v) n = Div(x, s) y = Mul(n, w) }",
                   "x is DOUBLE");
}

TEST(RMSNormFusion, NotBelowTheOperatorsOpsetUnlessSkipsAreFused) {
  const auto norm = from_shifted("s = Sqrt(v) n = Div(x, s) y = Mul(n, w)");
  expect_unchanged(rms_norm_fusion(), "trt-rtx", norm, "", {.opset = 22});
  expect_rewrite(rms_norm_fusion(), "cpu", norm, "RMSNormalization", {.opset = 21});
  expect_unchanged(rms_norm_fusion(), "cpu", norm, "", {.opset = 20});
}
TEST(RMSNormFusion, NotAnotherMean) {
  const auto unchanged = [](const std::string& text, const char* reason) { expect_unchanged(rms_norm_fusion(), "default", text, reason); };
  unchanged(graph("q = Pow(x, two) m = ReduceMean(q, first) v = Add(m, eps) s = Sqrt(v) n = Div(x, s) y = Mul(n, w)"),
            "is not over the last axis of [B, S, 8]");
  unchanged(graph("q = Pow(x, half) m = ReduceMean(q, last) v = Add(m, eps) s = Sqrt(v) n = Div(x, s) y = Mul(n, w)"), "expected the constant 2");
  unchanged(graph("q = ReduceSum(x, last) m = Mul(q, q) v = Add(m, eps) s = Sqrt(v) n = Div(x, s) y = Mul(n, w)"), "the graph has no ReduceMean");
  unchanged(
      "g (float[4,8] x, float[8] w) => (float[4,8] y) <int64[1] last = {-1}, float eps = {0.001}>"
      " { q = Mul(x, x) m = ReduceMean<keepdims = 0>(q, last) v = Add(m, eps) s = Sqrt(v) o = Unsqueeze(s, last) n = Div(x, o) y = Mul(n, w) }",
      "before it");
}
TEST(RMSNormFusion, NotPartsThatOthersRead) {
  expect_unchanged(rms_norm_fusion(), "default",
                   "g (float[B,8] x, float[8] w) => (float[B,8] y, float[B,1] s) <int64[1] last = {-1}, float eps = {0.001}>"
                   " { q = Mul(x, x) m = ReduceMean(q, last) v = Add(m, eps) s = Sqrt(v) n = Div(x, s) y = Mul(n, w) }",
                   "s is a graph output");
  expect_unchanged(rms_norm_fusion(), "default",
                   "g (float[B,8] x, float[8] w) => (float[B,8] y, float[B,8] z) <int64[1] last = {-1}, float eps = {0.001}>"
                   " { q = Mul(x, x) m = ReduceMean(q, last) v = Add(m, eps) s = Sqrt(v) n = Div(x, s) y = Mul(n, w) z = Neg(n) }",
                   "n has another user");
}
TEST(RMSNormFusion, NotAWeightOfAnotherShape) {
  expect_unchanged(rms_norm_fusion(), "default",
                   "g (float[B,8] x, float[B,8] w) => (float[B,8] y) <int64[1] last = {-1}, float eps = {0.001}>"
                   " { q = Mul(x, x) m = ReduceMean(q, last) v = Add(m, eps) s = Sqrt(v) n = Div(x, s) y = Mul(n, w) }",
                   "w is [B, 8], not a vector for the last axis of [B, 8]");
}

TEST(RMSNormFusion, TakesSimplifiedLayerNormalization) {
  expect_rewrite(rms_norm_fusion(), "default",
                 "g (float[B,S,8] x, float[8] w) => (float[B,S,8] y) { y = SimplifiedLayerNormalization<axis = 2, epsilon = 0.001, stash_type = 1>(x, w) }",
                 "g (float[B,S,8] x, float[8] w) => (float[B,S,8] y) { y = RMSNormalization<axis = 2, epsilon = 0.001>(x, w) }");
  expect_unchanged(rms_norm_fusion(), "default",
                   "g (float[B,S,8] x, float[8] w) => (float[B,S,8] y, float[B,S,1] r) { y, r = SimplifiedLayerNormalization(x, w) }", "r is a graph output");
  expect_unchanged(rms_norm_fusion(), "default",
                   "g (float16[B,S,8] x, float16[8] w) => (float16[B,S,8] y) { y = SimplifiedLayerNormalization<stash_type = 10>(x, w) }",
                   "attribute stash_type is set");
}
TEST(RMSNormFusion, GivesKernelsOneType) {
  expect_rewrite(rms_norm_fusion(), "cuda", half("p = RMSNormalization<epsilon = 0.001>(x, w32) y = Cast<to = 10>(p)"),
                 half("c = Cast<to = 1>(x) p = RMSNormalization<epsilon = 0.001>(c, w32) y = Cast<to = 10>(p)"));
  expect_unchanged(rms_norm_fusion(), "cuda", half("y = RMSNormalization<epsilon = 0.001>(x, w)"), "w is FLOAT16");
}

}  // namespace
}  // namespace mobius::rules
