#include "mobius/rules/rule_test.hpp"

namespace mobius::rules {
namespace {

std::string graph(const std::string& nodes, const char* weights = "float[16,8] w") {
  return fmt::format("g (int64[B,S] ids) => (float[B,S,16] y) <{}> {{ {} }}", weights, nodes);
}
const std::string tied = graph("x = Gather(w, ids) h = Relu(x) t = Transpose<perm = [1, 0]>(w) y = MatMul(h, t)");

const rewrite::Trials any_ids{.contents = {{"ids", "0..16"}}};
const std::string of_one_row = "g (int64[B] ids) => (float[B,16] y) <float[16,8] w> { x = Gather(w, ids) t = Transpose(w) y = MatMul(x, t) }";
const RuleExamples examples[] = {{"TiedHead", {{.graph = tied, .trials = any_ids}, {.graph = of_one_row, .trials = any_ids}}},
                                 {"TiedEmbedding", {{.graph = tied, .trials = any_ids}, {.graph = of_one_row, .trials = any_ids}}}};

TEST(TiedHead, ReadsTheEmbeddingAsItIs) {
  for (const auto* ep : {"onnx-standard", "qnn"})
    expect_rewrite(tied_head(), ep, tied,
                   graph("x = Gather(w, ids) h = Relu(x) rows = Reshape(h, flat) p = Gemm<transB = 1>(rows, w) bs = Shape<start = 0, end = 2>(h)"
                         " full = Concat<axis = 0>(bs, out) y = Reshape(p, full)",
                         "float[16,8] w, int64[2] flat = {-1, 8}, int64[1] out = {16}"),
                   {.trials = {.contents = {{"ids", "0..16"}}}});
}
TEST(TiedHead, MultipliesMatricesAtOnce) {
  expect_rewrite(tied_head(), "qnn", "g (int64[B] ids) => (float[B,16] y) <float[16,8] w> { x = Gather(w, ids) t = Transpose(w) y = MatMul(x, t) }",
                 "g (int64[B] ids) => (float[B,16] y) <float[16,8] w> { x = Gather(w, ids) y = Gemm<transB = 1>(x, w) }",
                 {.trials = {.contents = {{"ids", "0..16"}}}});
}
TEST(TiedHead, NotWhereFusedMatMulDoesIt) { expect_unchanged(tied_head(), "cpu", tied, ""); }
TEST(TiedHead, NotAWeightOfItsOwn) {
  expect_unchanged(tied_head(), "qnn", graph("x = Gather(e, ids) t = Transpose<perm = [1, 0]>(w) y = MatMul(x, t)", "float[16,8] w, float[16,8] e"),
                   "the weight has no other reader: its Transpose is folded into it");
}
TEST(TiedHead, NotAComputedWeight) {
  expect_unchanged(tied_head(), "qnn",
                   "g (float[B,8] x, float[16,8] w) => (float[B,16] y, float[16,8] z) { t = Transpose<perm = [1, 0]>(w) y = MatMul(x, t) z = Neg(w) }",
                   "w is not a constant");
}
TEST(TiedHead, NotAnotherPermutation) {
  expect_unchanged(tied_head(), "qnn",
                   "g (int64[B] ids) => (float[B,8] y) <float[8,8] w> { x = Gather(w, ids) t = Transpose<perm = [0, 1]>(w) y = MatMul(x, t) }",
                   "attribute perm has another value");
}

// WebGPU leaves Shape to the CPU, so a graph with one can't be captured.
TEST(TiedEmbedding, GathersColumnsWhereShapesMustNotBeComputed) {
  expect_rewrite(tied_head(), "webgpu", tied,
                 graph("t = Transpose<perm = [1, 0]>(w) c = Gather<axis = 1>(t, ids) x = Transpose<perm = [1, 2, 0]>(c) h = Relu(x) y = MatMul(h, t)"),
                 {.trials = {.contents = {{"ids", "0..16"}}}});
}
TEST(TiedEmbedding, GathersSeveralTimes) {
  expect_rewrite(tied_head(), "webgpu",
                 "g (int64[B] ids, int64 one) => (float[B,16] y) <float[16,8] w> { a = Gather<axis = 0>(w, ids) t = Transpose(w) p = MatMul(a, t) b = "
                 "Gather(w, ids) q = MatMul(b, t)"
                 " y = Add(p, q) }",
                 "Transpose Gather Transpose MatMul Gather Transpose MatMul Add", {.trials = {.contents = {{"ids", "0..16"}}}});
}
// Then the product is a Gemm after all.
TEST(TiedEmbedding, NotWithOtherReaders) {
  expect_rewrite(tied_head(), "webgpu",
                 "g (int64[B,S] ids, float[B,S,8] z) => (float[B,S,16] y, float[16,8] s) <float[16,8] w> { x = Gather(w, ids) t = Transpose(w) y = MatMul(x, "
                 "t) s = Neg(w) }",
                 "Gather Reshape Gemm Shape Concat Reshape Neg", {.trials = {.contents = {{"ids", "0..16"}}}});
  expect_unchanged(tied_head(), "webgpu",
                   "g (int64[B] ids) => (float[B,16] y, float[8,16] t) <float[16,8] w> { x = Gather(w, ids) t = Transpose(w) y = MatMul(x, t) }",
                   "t is a graph output");
}
TEST(TiedEmbedding, NotOnAnotherAxisOrUntied) {
  const char* reason = "the weight is not one of an embedding and a product alone";
  expect_unchanged(tied_head(), "webgpu", "g (int64[B] ids) => (float[B,8] y) <float[16,8] w> { y = Gather(w, ids) }", reason);
  expect_unchanged(tied_head(), "webgpu", "g (int64[B] ids) => (float[8,16] y) <float[16,8] w> { y = Transpose(w) z = Gather(w, ids) }", reason);
  expect_unchanged(tied_head(), "webgpu", "g (int64[B] ids) => (float[8,B] y) <float[8,8] w> { y = Gather<axis = 1>(w, ids) }",
                   "attribute axis has another value");
}

}  // namespace
}  // namespace mobius::rules
