// TensorScatterToScatterND, ConstantRange, Rank3RMSNorm.
#include "mobius/base/error.hpp"
#include "mobius/rules/rule_test.hpp"

namespace mobius::rules {
namespace {

rewrite::Example range_of(const char* numbers, const char* operands, const char* weights, std::map<std::string, std::string> contents) {
  return {.graph = fmt::format("g ({}) => (int64[R] y) <{}> {{ y = Range({}) }}", numbers, weights, operands),
          .trials = {.contents = std::move(contents), .rounds = 8}};
}
const RuleExamples examples[] = {
    {"TensorScatterToScatterND",
     {{.graph = "g (float[1,2,9,4] c, float[1,2,S,4] u, int64[1] w) => (float[1,2,9,4] y) { y = TensorScatter(c, u, w) }",
       .trials = {.contents = {{"w", "0..3"}, {"S", "1..4"}}}},
      {.graph = "g (float[B,2,5,4] c, float[B,2,S,4] u, int64[B] w) => (float[B,2,5,4] y) { y = TensorScatter<mode = \"circular\">(c, u, w) }",
       .trials = {.contents = {{"w", "0..5"}, {"S", "1..4"}}}},
      {.graph = "g (float[B,2,5,4] c, float[B,2,S,4] u) => (float[B,2,5,4] y) { y = TensorScatter(c, u) }"}},
     {{"Squeeze 1: left out", "the reference reads the one element of a list"},
      {"Squeeze 1: operand 1 left out", "there is one axis only"},
      {"Squeeze 2: left out", "the reference reads the one element of a list"},
      {"Squeeze 2: operand 1 left out", "there is one axis only"}}},
    {"ConstantRange",
     {{.graph = "g (float[B,S] x) => (int64[S] y) <int64 a = {0}, int64 d = {1}> { s = Shape<start = 1, end = 2>(x) n = Squeeze(s) y = Range(a, n, d) }"},
      range_of("int64 n", "a, n, d", "int64 a = {0}, int64 d = {1}", {{"n", "0..9"}}),
      range_of("int64 a, int64 n", "a, n, d", "int64 d = {1}", {{"a", "0..6"}, {"n", "0..9"}}),
      range_of("int64 a, int64 n", "a, n, d", "int64 d = {3}", {{"a", "0..6"}, {"n", "0..9"}}),
      range_of("int64 a, int64 n", "n, a, d", "int64 d = {-2}", {{"a", "0..6"}, {"n", "0..9"}}),
      {.graph = "g (int32 n) => (int32[R] y) <int32 a = {2}, int32 d = {1}> { y = Range(a, n, d) }", .trials = {.contents = {{"n", "0..9"}}, .rounds = 8}}},
     {{"Cast 1: left out", "the reference computes with any integers"},
      {"Cast 2: left out", "the reference computes with any integers"},
      {"Reshape 1: left out", "the reference reads one element as a list"},
      {"Reshape 2: left out", "it changes nothing but for ranges that are longer than the constant"},
      {"Slice 1: operand 3 left out", "there is one axis only"}}},
    {"Rank3RMSNorm",
     {{.graph = "g (float[B,S,2,8] x, float[8] w) => (float[B,S,2,8] y) { y = RMSNormalization<epsilon = 0.1>(x, w) }"},
      {.graph = "g (float[B,2,S,8] x, float[8] w) => (float[B,2,S,8] y) { y = RMSNormalization<axis = 3>(x, w) }"},
      {.graph = "g (float[B,S,2,8] x, float[8] w) => (float[B,S,2,8] y) { y = SimplifiedLayerNormalization<axis = 3>(x, w) }"}}}};

// ── TensorScatter ────────────────────────────────────────────────────────────────────────────────────────────────────────

const Setup scatter{.trials = {.contents = {{"w", "0..3"}, {"S", "1..4"}}}};

TEST(ScatterND, OneRow) {
  expect_rewrite(scatter_nd(), "qnn", "g (float[1,2,9,4] c, float[1,2,S,4] u, int64[1] w) => (float[1,2,9,4] y) { y = TensorScatter(c, u, w) }",
                 "Shape Squeeze Range Unsqueeze Add Reshape Transpose Transpose ScatterND Transpose", scatter);
}

TEST(ScatterND, SeveralRowsAndAround) {
  expect_rewrite(scatter_nd(), "qnn",
                 "g (float[B,2,5,4] c, float[B,2,S,4] u, int64[B] w) => (float[B,2,5,4] y) { y = TensorScatter<mode = \"circular\">(c, u, w) }",
                 "Shape Squeeze Range Unsqueeze Add Shape Mod Shape Shape Concat Squeeze Range Unsqueeze Expand Unsqueeze Expand Unsqueeze Concat Transpose "
                 "Transpose ScatterND Transpose",
                 scatter);
}

TEST(ScatterND, NotWhereTheEpHasIt) {
  expect_unchanged(scatter_nd(), "cpu", "g (float[1,9,4] c, float[1,S,4] u, int64[1] w) => (float[1,9,4] y) { y = TensorScatter(c, u, w) }", "");
}

// ── Range ────────────────────────────────────────────────────────────────────────────────────────────────────────────────

TEST(ConstantRange, OfASize) {
  expect_rewrite(constant_range(), "qnn",
                 "g (float[B,S] x) => (int64[S] y) <int64 a = {0}, int64 d = {1}> { s = Shape<start = 1, end = 2>(x) n = Squeeze(s) y = Range(a, n, d) }",
                 "Shape Slice Reshape");
}

const Setup up_to{.trials = {.contents = {{"n", "0..9"}}, .rounds = 8}};
const Setup between{.trials = {.contents = {{"a", "0..6"}, {"n", "0..9"}}, .rounds = 8}};

TEST(ConstantRange, OfAnyNumbers) {
  expect_rewrite(constant_range(), "qnn", "g (int64 n) => (int64[R] y) <int64 a = {0}, int64 d = {1}> { y = Range(a, n, d) }", "Max Reshape Slice Reshape",
                 up_to);
  expect_rewrite(constant_range(), "qnn", "g (int64 a, int64 n) => (int64[R] y) <int64 d = {1}> { y = Range(a, n, d) }", "Sub Max Reshape Slice Reshape Add",
                 between);
  expect_rewrite(constant_range(), "qnn", "g (int64 a, int64 n) => (int64[R] y) <int64 d = {3}> { y = Range(a, n, d) }",
                 "Sub Add Div Max Reshape Slice Reshape Mul Add", between);
  expect_rewrite(constant_range(), "qnn", "g (int64 a, int64 n) => (int64[R] y) <int64 d = {-2}> { y = Range(n, a, d) }",
                 "Sub Add Div Max Reshape Slice Reshape Mul Add", between);
}

TEST(ConstantRange, OfInt32) {
  expect_rewrite(constant_range(), "qnn", "g (int32 n) => (int32[R] y) <int32 a = {0}, int32 d = {1}> { y = Range(a, n, d) }",
                 "Cast Max Reshape Slice Reshape Cast", up_to);
}

// A Slice would be cut off where the constant ends: as many numbers as there should be don't fit into it then.
TEST(ConstantRange, BeyondTheConstantIsAnErrorOfTheRuntime) {
  const auto r = rewritten(constant_range(), "qnn", "g (int64 n) => (int64[R] y) <int64 a = {0}, int64 d = {1}> { y = Range(a, n, d) }");
  const auto length = [&](const ir::Model& model, double n) {
    return ops::interpret(*model.graph, {{"n", {ir::DataType::int64, {}, {n}}}}).at("y").values.size();
  };
  EXPECT_EQ(length(r.model, 131072), 131072u);
  EXPECT_EQ(length(r.original, 131073), 131073u);
  EXPECT_THROW(length(r.model, 131073), Error);
}

TEST(ConstantRange, OfConstantsIsOne) {
  const auto r =
      rewritten(constant_range(), "qnn",
                "g (float[B,3] x) => (float[B,3] y) <int64 a = {1}, int64 n = {7}, int64 d = {2}> { r = Range(a, n, d) f = Cast<to = 1>(r) y = Mul(x, f) }");
  EXPECT_EQ(ops_of(*r.model.graph), "Cast Mul");
  EXPECT_EQ(*ir::as_integers(*r.model.graph->first()->input(0)->data()), (std::vector<std::int64_t>{1, 3, 5}));
}

TEST(ConstantRange, NearMisses) {
  expect_unchanged(constant_range(), "qnn", "g (float n) => (float[R] y) <float a = {0}, float d = {1}> { y = Range(a, n, d) }", "it is of float");
  expect_unchanged(constant_range(), "qnn", "g (int64 d) => (int64[R] y) <int64 a = {0}, int64 n = {3}> { y = Range(a, n, d) }", "delta is not a constant");
  expect_unchanged(constant_range(), "qnn",
                   "g (int64[R] x) => (int64[R] y) <int64 a = {0}, int64 n = {1000000}, int64 d = {1}> { r = Range(a, n, d) y = Add(x, r) }",
                   "more than 131072 elements");
  expect_unchanged(constant_range(), "cpu", "g (int64 n) => (int64[R] y) <int64 a = {0}, int64 d = {1}> { y = Range(a, n, d) }", "");
}

// ── RMSNorm by heads ─────────────────────────────────────────────────────────────────────────────────────────────────────

TEST(Rank3RMSNorm, HeadsJoinTheTokens) {
  const auto r = rewritten(rank3_rms_norm(), "qnn", "g (float[B,S,2,8] x, float[8] w) => (float[B,S,2,8] y) { y = RMSNormalization<epsilon = 0.1>(x, w) }");
  EXPECT_EQ(ops_of(*r.model.graph), "Reshape RMSNormalization Reshape");
  EXPECT_EQ(ir::to_string(r.model.graph->first()->output()->type), "float[B,2*S,8]");
  EXPECT_EQ(rewrite::difference(r.original, r.model).value_or(""), "");
  expect_rewrite(rank3_rms_norm(), "qnn", "g (float[B,S,2,8] x, float[8] w) => (float[B,S,2,8] y) { y = SimplifiedLayerNormalization<axis = 3>(x, w) }",
                 "Reshape SimplifiedLayerNormalization Reshape");
  expect_rewrite(rank3_rms_norm(), "qnn", "g (float[B,2,S,8] x, float[8] w) => (float[B,2,S,8] y) { y = RMSNormalization(x, w) }",
                 "Reshape RMSNormalization Shape Reshape");
}

TEST(Rank3RMSNorm, NearMisses) {
  expect_unchanged(rank3_rms_norm(), "qnn", "g (float[B,S,8] x, float[8] w) => (float[B,S,8] y) { y = RMSNormalization(x, w) }", "expected rank 4");
  expect_unchanged(rank3_rms_norm(), "qnn", "g (float[B,S,2,8] x, float[2,8] w) => (float[B,S,2,8] y) { y = RMSNormalization<axis = 2>(x, w) }", "axis is 2");
  expect_unchanged(rank3_rms_norm(), "qnn", "g (float[B,S,2,D] x, float[D] w) => (float[B,S,2,D] y) { y = RMSNormalization(x, w) }", "no known size");
  expect_unchanged(rank3_rms_norm(), "qnn",
                   "g (float[B,S,2,8] x, float[8] w) => (float[B,S,2,8] y, float[B,S,2,1] i) { y, i = SimplifiedLayerNormalization(x, w) }",
                   "deviation is used");
  expect_unchanged(rank3_rms_norm(), "cpu", "g (float[B,S,2,8] x, float[8] w) => (float[B,S,2,8] y) { y = RMSNormalization(x, w) }", "");
}

}  // namespace
}  // namespace mobius::rules
