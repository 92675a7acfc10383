#include "mobius/rules/rule_test.hpp"

namespace mobius::rules {
namespace {

std::string graph(const std::string& nodes, const char* out = "float[B,S,4]") {
  return fmt::format(
      "g (float[B,S,8] x) => ({} y) <float[8,4] w, float[4,8] t, float[4] b, int64[2] flat = {{-1, 8}}, int64[1] four = {{4}}, int64[2] merged = {{-1, 4}}> {{ "
      "{} }}",
      out, nodes);
}
// The shape of x with its last axis made 4, as torch.onnx writes it.
const std::string shape = "bs = Shape<start = 0, end = 2>(x) full = Concat<axis = 0>(bs, four) ";

const RuleExamples examples[] = {
    {"Linear",
     {{.graph = graph(shape + "r = Reshape(x, flat) g = Gemm(r, w, b) y = Reshape(g, full)")},
      {.graph = graph(shape + "r = Reshape<allowzero = 1>(x, flat) g = Gemm(r, w) y = Reshape<allowzero = 1>(g, full)")},
      {.graph = graph(shape + "r = Reshape(x, flat) g = Gemm<transB = 1>(r, t, b) y = Reshape(g, full)")},
      {.graph = graph(shape + "r = Reshape(x, flat) g = Gemm<transB = 1>(r, t) y = Reshape(g, full)")},
      {.graph = "g (float[B,S,2,4] x) => (float[B,S,4] y) <float[8,4] w, float[4] b, int64[2] flat = {-1, 8}, int64[1] four = {4}> {"
                " bs = Shape<start = 0, end = 2>(x) full = Concat<axis = 0>(bs, four) r = Reshape(x, flat) g = Gemm(r, w, b) y = Reshape(g, full) }"}}}};

TEST(Linear, TakesAGemmOfFlattenedRows) {
  expect_rewrite(linear(), "default",
                 graph(shape + "r = Reshape(x, flat) g = Gemm<alpha = 1., beta = 1., transA = 0, transB = 0>(r, w, b) y = Reshape<allowzero = 1>(g, full)"),
                 graph("p = MatMul(x, w) y = Add(p, b)"));
  expect_rewrite(linear(), "default", graph(shape + "r = Reshape(x, flat) g = Gemm(r, w) y = Reshape(g, full)"), graph("y = MatMul(x, w)"));
}
TEST(Linear, TakesATransposedWeight) {
  expect_rewrite(linear(), "default", graph(shape + "r = Reshape(x, flat) g = Gemm<transB = 1>(r, t, b) y = Reshape(g, full)"),
                 graph("s = Transpose<perm = [1, 0]>(t) p = MatMul(x, s) y = Add(p, b)"));
  expect_rewrite(linear(), "default", graph(shape + "r = Reshape(x, flat) g = Gemm<transB = 1>(r, t) y = Reshape(g, full)"),
                 graph("s = Transpose<perm = [1, 0]>(t) y = MatMul(x, s)"));
}
// The output projection of GPT-2's attention: heads are joined and rows flattened in one step.
TEST(Linear, JoinsAxesFirst) {
  const auto heads = [](const char* weight, const std::string& nodes) {
    return fmt::format(
        "g (float[B,S,2,4] x) => (float[B,S,4] y) <{}, float[4] b, int64[2] flat = {{-1, 8}}, int64[1] four = {{4}}, int64[3] joined = {{0, 0, 8}}> {{"
        " {} }}",
        weight, nodes);
  };
  expect_rewrite(linear(), "default", heads("float[8,4] w", shape + "r = Reshape(x, flat) g = Gemm(r, w, b) y = Reshape(g, full)"),
                 heads("float[8,4] w", "j = Reshape(x, joined) p = MatMul(j, w) y = Add(p, b)"));
  expect_rewrite(linear(), "default", heads("float[4,8] w", shape + "r = Reshape(x, flat) g = Gemm<transB = 1>(r, w) y = Reshape(g, full)"),
                 heads("float[4,8] w", "j = Reshape(x, joined) t = Transpose<perm = [1, 0]>(w) y = MatMul(j, t)"));
  expect_unchanged(linear(), "default",
                   "g (float[2,3,2,4] x) => (float[3,2,4] y) <float[8,4] w, int64[2] flat = {-1, 8}, int64[3] full = {3, 2, 4}>"
                   " { r = Reshape(x, flat) g = Gemm(r, w) y = Reshape(g, full) }",
                   "[2, 3, 2, 4] becomes [6, 8] and then [3, 2, 4]");
}

TEST(Linear, NotAScaledProduct) {
  expect_unchanged(linear(), "default", graph(shape + "r = Reshape(x, flat) g = Gemm<alpha = 2.>(r, w, b) y = Reshape(g, full)"), "attribute alpha is set");
  expect_unchanged(linear(), "default", graph(shape + "r = Reshape(x, flat) g = Gemm<beta = 0.5>(r, w, b) y = Reshape(g, full)"), "attribute beta is set");
}
TEST(Linear, NotOtherRows) {
  expect_unchanged(linear(), "default", graph("r = Reshape(x, flat) g = Gemm(r, w, b) y = Reshape(g, merged)", "float[R,4]"), "[B, S, 8] becomes [");
  expect_unchanged(linear(), "default",
                   "g (float[2,3,8] x) => (float[3,2,4] y) <float[8,4] w, int64[2] flat = {-1, 8}, int64[3] full = {3, 2, 4}>"
                   " { r = Reshape(x, flat) g = Gemm(r, w) y = Reshape(g, full) }",
                   "[2, 3, 8] becomes [6, 8] and then [3, 2, 4]");
  expect_unchanged(linear(), "default",
                   "g (float[2,3,8] x) => (float[2,3,4] y) <float[4,2] w, int64[2] flat = {-1, 4}, int64[3] full = {2, 3, 4}>"
                   " { r = Reshape(x, flat) g = Gemm(r, w) y = Reshape(g, full) }",
                   "[2, 3, 8] becomes [12, 4] and then [2, 3, 4]");
}
TEST(Linear, NotAnotherBias) {
  expect_unchanged(linear(), "default",
                   "g (float[2,3,8] x, float[6,4] b) => (float[2,3,4] y) <float[8,4] w, int64[2] flat = {-1, 8}, int64[3] full = {2, 3, 4}>"
                   " { r = Reshape(x, flat) g = Gemm(r, w, b) y = Reshape(g, full) }",
                   "b is [6, 4], not a vector for the last axis of [2, 3, 4]");
}
TEST(Linear, NotAComputedTransposedWeight) {
  expect_unchanged(linear(), "default",
                   "g (float[2,3,8] x, float[4,8] w) => (float[2,3,4] y) <int64[2] flat = {-1, 8}, int64[3] full = {2, 3, 4}>"
                   " { r = Reshape(x, flat) g = Gemm<transB = 1>(r, w) y = Reshape(g, full) }",
                   "the transposed weight is not a constant");
}
TEST(Linear, NotPartsThatOthersRead) {
  expect_unchanged(linear(), "default",
                   "g (float[2,3,8] x) => (float[2,3,4] y, float[6,4] g) <float[8,4] w, int64[2] flat = {-1, 8}, int64[3] full = {2, 3, 4}>"
                   " { r = Reshape(x, flat) g = Gemm(r, w) y = Reshape(g, full) }",
                   "g is a graph output");
  expect_unchanged(linear(), "default",
                   "g (float[2,3,8] x) => (float[2,3,4] y, float[6,8] z) <float[8,4] w, int64[2] flat = {-1, 8}, int64[3] full = {2, 3, 4}>"
                   " { r = Reshape(x, flat) g = Gemm(r, w) y = Reshape(g, full) z = Neg(r) }",
                   "r has another user");
}

}  // namespace
}  // namespace mobius::rules
