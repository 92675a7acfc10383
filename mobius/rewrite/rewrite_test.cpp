#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mobius/base/error.hpp"
#include "mobius/ep/registry.hpp"
#include "mobius/ir/model.hpp"
#include "mobius/rewrite/matcher.hpp"

namespace mobius::rewrite {
namespace {

using ::testing::HasSubstr;

Target target() { return {get_ep("default"), ir::DataType::float32, "decoder"}; }

struct Result {
  RuleReport report;
  std::string text;
};

Result rewritten(const Rule& rule, std::string_view body) {
  auto model = ir::model_from_text(body);
  const auto report = apply(rule, *model.graph, target());
  model.opset_imports["com.microsoft"] = model.opset_imports["test"] = 1;
  EXPECT_EQ(ir::verify(model), std::vector<std::string>{});
  std::string ops;
  for (const auto* n : model.graph->nodes()) ops += (ops.empty() ? "" : " ") + std::string(n->op.type);
  return {report, ops};
}

Rule swish_rule() {
  const auto [x] = vars("x");
  return {.name = "Swish", .from = {x * sigmoid(x)}, .to = {swish(x)}};
}

TEST(Matcher, OperandsOfCommutativeOpsMatchInEitherOrder) {
  for (const auto* product : {"Mul(x, s)", "Mul(s, x)"})
    EXPECT_EQ(rewritten(swish_rule(), std::string("g (float[B,4] x) => (float[B,4] y) { s = Sigmoid(x) y = ") + product + " }").text, "Swish");
}

TEST(Matcher, AVariableUsedTwiceIsOneValue) {
  const auto r = rewritten(swish_rule(), "g (float[B,4] x, float[B,4] z) => (float[B,4] y) { s = Sigmoid(x) y = Mul(z, s) }");
  EXPECT_EQ(r.text, "Sigmoid Mul");
  // A node without a name is told by what it makes.
  EXPECT_EQ(r.report.nearest_miss, "s: 'x' is two different values");
}

TEST(Matcher, InnerValuesMayNotBeUsedElsewhere) {
  const auto other = rewritten(swish_rule(), "g (float[B,4] x) => (float[B,4] y, float[B,4] z) { s = Sigmoid(x) y = Mul(x, s) z = Relu(s) }");
  EXPECT_EQ(other.text, "Sigmoid Mul Relu");
  EXPECT_THAT(other.report.nearest_miss, HasSubstr("s has another user: z"));
  const auto output = rewritten(swish_rule(), "g (float[B,4] x) => (float[B,4] y, float[B,4] s) { s = Sigmoid(x) y = Mul(x, s) }");
  EXPECT_THAT(output.report.nearest_miss, HasSubstr("s is a graph output"));
}

TEST(Matcher, LiteralsScalarsAndAlternatives) {
  const auto [x] = vars("x");
  const auto alpha = attr<float>("alpha");
  const Rule leaky{.name = "Scale", .from = {((x * alpha) + 1.0) | ((x + 1.0) * alpha)}, .to = {relu(x)}};
  EXPECT_EQ(rewritten(leaky, "g (float[B] x) => (float[B] y) <float a = {0.5}, float one = {1}> { m = Mul(a, x) y = Add(m, one) }").text, "Relu");
  EXPECT_EQ(rewritten(leaky, "g (float[B] x) => (float[B] y) <float a = {0.5}, float one = {1}> { m = Add(x, one) y = Mul(m, a) }").text, "Relu");
  EXPECT_THAT(rewritten(leaky, "g (float[B] x) => (float[B] y) <float a = {0.5}, float one = {2}> { m = Mul(a, x) y = Add(m, one) }").report.nearest_miss,
              HasSubstr("expected the constant 1"));
}

TEST(Matcher, ANumberMayBeRoundedToItsType) {
  const auto [x] = vars("x");
  const Rule half_root{.name = "Root", .from = {x * 0.70710678118654752}, .to = {relu(x)}};
  EXPECT_EQ(rewritten(half_root, "g (float16[B] x) => (float16[B] y) <float16 c = {0.70703125}> { y = Mul(x, c) }").report.applied, 1u);
  EXPECT_EQ(rewritten(half_root, "g (float16[B] x) => (float16[B] y) <float16 c = {0.70751953}> { y = Mul(x, c) }").report.applied, 0u);
  EXPECT_EQ(rewritten(half_root, "g (float[B] x) => (float[B] y) <float c = {0.70703125}> { y = Mul(x, c) }").report.applied, 0u);
}

TEST(Matcher, ANumberAddsNoAxes) {
  const auto [x] = vars("x");
  const Rule twice{.name = "Twice", .from = {x * 2}, .to = {relu(x)}};
  EXPECT_EQ(rewritten(twice, "g (float[B,4] x) => (float[B,4] y) <float[1,1] c = {2}> { y = Mul(x, c) }").report.applied, 1u);
  const auto r = rewritten(twice, "g (float[4] x) => (float[1,4] y) <float[1,1] c = {2}> { y = Mul(x, c) }");
  EXPECT_EQ(r.report.applied, 0u);
  EXPECT_THAT(r.report.nearest_miss, HasSubstr("c adds axes"));
}

TEST(Matcher, WhatIsMadeOfConstantsMayHaveOtherUsers) {
  const auto [x, w] = vars("x", "w");
  const Rule rule{.name = "Transposed", .from = {matmul(x, transpose(w, {1, 0}))}, .to = {ops::one<Pat>({"test", "Linear"}, {x, w})}};
  const auto shared =
      rewritten(rule, "g (float[B,2] x) => (float[B,2] y) <float[2,2] w = {1,2,3,4}> { t = Transpose<perm = [1,0]>(w) h = MatMul(x, t) y = MatMul(h, t) }");
  EXPECT_EQ(shared.text, "Linear Linear");
  const auto kept =
      rewritten(rule, "g (float[B,2] x) => (float[B,2] y) <float[2,2] w = {1,2,3,4}> { t = Transpose<perm = [1,0]>(w) h = MatMul(x, t) y = Add(h, t) }");
  EXPECT_EQ(kept.text, "Transpose Linear Add");
  const auto computed =
      rewritten(rule, "g (float[B,2] x, float[2,2] w) => (float[B,2] y) { t = Transpose<perm = [1,0]>(w) h = MatMul(x, t) y = MatMul(h, t) }");
  EXPECT_EQ(computed.report.applied, 0u);
}

TEST(Matcher, AnAttributeThatIsNotListedMustHaveItsDefault) {
  const auto [x] = vars("x");
  const Rule rule{.name = "Gelu", .from = {gelu(x)}, .to = {relu(x)}};
  EXPECT_EQ(rewritten(rule, "g (float[B] x) => (float[B] y) { y = Gelu(x) }").text, "Relu");
  EXPECT_EQ(rewritten(rule, "g (float[B] x) => (float[B] y) { y = Gelu<approximate = \"none\">(x) }").text, "Relu");
  const auto r = rewritten(rule, "g (float[B] x) => (float[B] y) { y = Gelu<approximate = \"tanh\">(x) }");
  EXPECT_EQ(r.text, "Gelu");
}

TEST(Matcher, ATransposeWithoutPermReversesTheAxes) {
  const auto [x] = vars("x");
  const Rule rule{.name = "Transpose", .from = {transpose(x, {1, 0})}, .to = {ops::one<Pat>({"test", "T"}, {x})}};
  EXPECT_EQ(rewritten(rule, "g (float[B,2] x) => (float[2,B] y) { y = Transpose(x) }").text, "T");
  EXPECT_EQ(rewritten(rule, "g (float[B,2,3] x) => (float[3,2,B] y) { y = Transpose(x) }").text, "Transpose");
}

TEST(Matcher, OperandsThatAreNotListedMustBeAbsent) {
  const auto [x] = vars("x");
  const Rule rule{.name = "Clip", .from = {ops::one<Pat>({"", "Clip"}, {x})}, .to = {identity(x)}};
  EXPECT_EQ(rewritten(rule, "g (float[B] x) => (float[B] y) { y = Clip(x) }").report.applied, 1u);
  EXPECT_EQ(rewritten(rule, "g (float[B] x) => (float[B] y) <float z = {0}> { y = Clip(x, z) }").report.applied, 0u);
}

// s = x + z, y = Relu(s), with s read elsewhere: both results move to the new node.
Rule two_results() {
  const auto [x, z] = vars("x", "z");
  const auto sum = x + z;
  const auto made = ops::many<2, Pat>({"test", "AddRelu"}, {x, z});
  return {.name = "Two", .from = {relu(sum), sum}, .to = {made[0], made[1]}};
}

TEST(Driver, AReaderBeforeTheRootGetsTheReplacementBeforeIt) {
  const auto r = rewritten(two_results(), "g (float[B] x, float[B] z) => (float[B] y, float[B] w) { s = Add(x, z) w = Neg(s) y = Relu(s) }");
  EXPECT_EQ(r.text, "AddRelu Neg");
}

TEST(Driver, ReadersMoveBehindOperandsThatComeLate) {
  const auto [x, z, k] = vars("x", "z", "k");
  const auto sum = x + z;
  const auto made = ops::many<2, Pat>({"test", "AddMul"}, {x, z, k});
  const Rule rule{.name = "Late", .from = {sum * k, sum}, .to = {made[0], made[1]}};
  // k is defined after a reader of s.
  const auto r = rewritten(rule, "g (float[B] x, float[B] z) => (float[B] y, float[B] w) { s = Add(x, z) w = Neg(s) k = Relu(x) y = Mul(s, k) }");
  EXPECT_EQ(r.text, "Relu AddMul Neg");
  // k depends on the reader: there is no place.
  const auto cyclic = rewritten(rule, "g (float[B] x, float[B] z) => (float[B] y) { s = Add(x, z) w = Neg(s) k = Relu(w) y = Mul(s, k) }");
  EXPECT_EQ(cyclic.report.applied, 0u);
  EXPECT_THAT(cyclic.report.nearest_miss, HasSubstr("depends on a reader of the result"));
}

TEST(Driver, KeepsTheInterfaceWhenTheResultIsAnInput) {
  const auto [x] = vars("x");
  const Rule rule{.name = "Double", .from = {-(-x)}, .to = {x}};
  const auto r = rewritten(rule, "g (float[B] x) => (float[B] y) { n = Neg(x) y = Neg(n) }");
  EXPECT_EQ(r.text, "Identity");
}

// Else the Shape would still count as a user of x.
TEST(Driver, WhatOnlyTheMatchNeededGoesToo) {
  const auto [x, shape] = vars("x", "shape");
  const Rule rule{.name = "Unshaped", .from = {reshape(x, shape)}, .to = {relu(x)}};
  const auto r = rewritten(rule,
                           "g (float[B,4] x) => (float[B,4] y, int64[1] z) <int64[1] four = {4}> {"
                           " b = Shape<start = 0, end = 1>(x) s = Concat<axis = 0>(b, four) z = Neg(b) y = Reshape(x, s) }");
  EXPECT_EQ(r.text, "Shape Neg Relu");
  EXPECT_EQ(r.report.removed, 2u);
  EXPECT_EQ(r.report.change_per_op, (std::map<std::string, std::int64_t>{{"Concat", -1}, {"Relu", 1}, {"Reshape", -1}}));
  // The node before the root goes as well, and the walk goes on behind it.
  EXPECT_EQ(rewritten(rule, "g (float[B,4] x, int64[2] a) => (float[B,4] y) { s = Neg(a) m = Reshape(x, s) t = Neg(s) u = Neg(t) y = Reshape(m, u) }").text,
            "Relu Relu");
}

TEST(Driver, ARuleThatNeverEndsIsADefect) {
  const auto [x] = vars("x");
  const Rule rule{.name = "Again", .from = {relu(x)}, .to = {relu(x)}};
  EXPECT_THROW(rewritten(rule, "g (float[B] x) => (float[B] y) { y = Relu(x) }"), Error);
}

TEST(Driver, TellsWhatAGraphLacksForARule) {
  const auto text = "g (float[B,4] x) => (float[B,4] y) { s = Tanh(x) y = Mul(x, s) }";
  EXPECT_EQ(rewritten(swish_rule(), text).report.nearest_miss, "the graph has no Sigmoid");
  // One of the alternatives is enough.
  const auto [x] = vars("x");
  const Rule rule{.name = "Either", .from = {x * (sigmoid(x) | tanh(x))}, .to = {relu(x)}};
  EXPECT_EQ(rewritten(rule, text).text, "Relu");
  // Subgraphs count.
  const auto nested =
      "g (bool c, float[B,4] x) => (float[B,4] y) { y = If(c) <then_branch = a () => (float[B,4] p) { s = Sigmoid(x) p = Mul(s, x) },"
      " else_branch = b () => (float[B,4] q) { q = Neg(x) }> }";
  EXPECT_EQ(rewritten(swish_rule(), nested).report.applied, 1u);
}

TEST(Driver, CountsWhatItDid) {
  const auto r = rewritten(swish_rule(), "g (float[B,4] x) => (float[B,4] y) { s = Sigmoid(x) m = Mul(x, s) t = Sigmoid(m) y = Mul(t, m) }");
  EXPECT_EQ(r.report.applied, 2u);
  EXPECT_EQ(r.report.added, 2u);
  EXPECT_EQ(r.report.removed, 4u);
  EXPECT_EQ(r.report.change_per_op, (std::map<std::string, std::int64_t>{{"Mul", -2}, {"Sigmoid", -2}, {"Swish", 2}}));
}

}  // namespace
}  // namespace mobius::rewrite
