// The judge itself: it finds wrong rules, gaps in examples, and slips in what inputs are said to hold.
#include "mobius/rewrite/disprove.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "mobius/base/error.hpp"

namespace mobius::rewrite {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string difference_of(std::string_view a, std::string_view b, const Trials& trials = {}) {
  return difference(ir::model_from_text(a), ir::model_from_text(b), trials).value_or("");
}

// ── two graphs ───────────────────────────────────────────────────────────────────────────────────────────────────────────

TEST(Difference, IsFoundInNumbersShapesTypesAndNames) {
  EXPECT_EQ(difference_of("g (float[B] x) => (y) { y = Neg(x) }", "g (float[B] x) => (y) <float m = {-1}> { y = Mul(m, x) }"), "");
  EXPECT_THAT(difference_of("g (float[B] x) => (y) { y = Neg(x) }", "g (float[B] x) => (y) { y = Abs(x) }"), HasSubstr("y element "));
  EXPECT_THAT(difference_of("g (float[B] x) => (y) { y = Neg(x) }", "g (float[B] x) => (y) <float[1,1] m = {-1}> { y = Mul(m, x) }"),
              HasSubstr("y has shape [1, 2], expected [2] (inputs x [2])"));
  EXPECT_THAT(difference_of("g (float[B] x) => (y) { y = Neg(x) }", "g (float[B] x) => (y) { n = Neg(x) y = Cast<to = 11>(n) }"),
              HasSubstr("y is double, expected float"));
  EXPECT_EQ(difference_of("g (float[B] x) => (y) { y = Neg(x) }", "g (float[B] x) => (z) { z = Neg(x) }"), "output y is gone");
}
TEST(Difference, IsFoundWhereOnlySomeShapesShowIt) {
  // Equal for a batch of one.
  EXPECT_THAT(
      difference_of("g (float[B,S] x) => (y) <int64[1] a = {1}> { y = ReduceSum(x, a) }",
                    "g (float[B,S] x) => (y) <int64[2] a = {0, 1}> { s = ReduceSum<keepdims = 1>(x, a) z = Sub(x, x) m = ReduceMax<keepdims = 1>(z) y = "
                    "Add(s, m) }"),
      HasSubstr("y has shape"));
}
TEST(Difference, IsFoundInWeightsWithoutData) {
  EXPECT_EQ(difference_of("g (float[B,2] x) => (y) <float[2,2] w> { y = MatMul(x, w) }", "g (float[B,2] x) => (y) <float[2,2] w> { y = MatMul(x, w) }"), "");
  EXPECT_THAT(difference_of("g (float[B,2] x) => (y) <float[2,2] w> { y = MatMul(x, w) }",
                            "g (float[B,2] x) => (y) <float[2,2] w> { t = Transpose<perm = [1, 0]>(w) y = MatMul(x, t) }"),
              HasSubstr("y element"));
}

// ── inputs ───────────────────────────────────────────────────────────────────────────────────────────────────────────────

std::map<std::string, ops::Array> inputs_of(const char* declaration, Contents contents, int round = 0) {
  const auto model = ir::model_from_text(std::string("g (") + declaration + ") => () {}");
  return random_inputs({&model}, {.contents = std::move(contents)}, round);
}

TEST(RandomInputs, HoldWhatTheyAreSaidTo) {
  const auto inputs = inputs_of("int64[B,S] p, int32[B] n, int64 t, int64[6] list, float[B,S] r, int64[B,\"P + S\"] m, float[B,1,P,4] past",
                                {{"P", "3..4"}, {"p", "P.."}, {"n", "P + S - 1"}, {"t", "2 * P"}, {"list", "0, 5"}, {"r", "0.5~0.75"}, {"m", "right padded"}});
  EXPECT_THAT(inputs.at("p").dims, ElementsAre(2, 3));
  EXPECT_THAT(inputs.at("p").values, ElementsAre(3, 4, 5, 3, 4, 5));
  EXPECT_THAT(inputs.at("n").values, ElementsAre(5, 5));
  EXPECT_THAT(inputs.at("t").values, ElementsAre(6));
  EXPECT_THAT(inputs.at("list").values, ElementsAre(0, 5, 0, 5, 0, 5));
  EXPECT_THAT(inputs.at("r").values, testing::Each(testing::AllOf(testing::Ge(0.5), testing::Le(0.75))));
  for (int row = 0; row < 2; ++row) {
    const std::vector<double> mask(inputs.at("m").values.begin() + row * 6, inputs.at("m").values.begin() + row * 6 + 6);
    EXPECT_EQ(mask[0], 1);
    EXPECT_TRUE(std::ranges::is_sorted(mask, std::greater()));
  }
}
TEST(RandomInputs, TakeTheSmallestSizesOnce) { EXPECT_THAT(inputs_of("float[B,P] x", {{"P", "0..4"}}, 1).at("x").dims, ElementsAre(1, 0)); }
TEST(RandomInputs, RefuseWordsForWhatIsNotThere) {
  EXPECT_THROW(inputs_of("float[B] x", {{"y", "1"}}), Error);
  EXPECT_THROW(inputs_of("float[B] x", {{"B", "7"}}), Error);
}

// ── examples ─────────────────────────────────────────────────────────────────────────────────────────────────────────────

TEST(Choices, DifferInOneDecisionThenInTwo) {
  Choices choices;
  std::set<std::vector<std::size_t>> seen;
  do seen.insert({choices.pick(2), choices.pick(2), choices.pick(3)});
  while (choices.next());
  EXPECT_EQ(seen.size(), 10u);  // of 12: not those with three
  EXPECT_TRUE(seen.contains({1, 0, 2}));
  EXPECT_FALSE(seen.contains({1, 1, 1}));
}

Rule swish_rule(bool wrong = false) {
  const auto [x] = vars("x");
  return {.name = "Swish", .from = {x * sigmoid(x)}, .to = {wrong ? swish(-x) : swish(x)}};
}
const Example vector_x = {.variables = {{"x", "B,4"}}};
const Example graph_x = {.graph = "g (float[B] x) => (y) { s = Sigmoid(x) y = Mul(s, x) }"};

TEST(Disprove, FindsAWrongRule) {
  EXPECT_EQ(disprove({swish_rule()}, {vector_x, graph_x}), std::nullopt);
  EXPECT_THAT(disprove({swish_rule(true)}, {vector_x}).value_or(""), HasSubstr("result0 element 0 is"));
  EXPECT_THAT(disprove({swish_rule(true)}, {graph_x}).value_or(""), HasSubstr("y element 0 is"));
}
TEST(Disprove, WantsExamplesThatFit) {
  EXPECT_THAT(disprove({swish_rule()}, {}).value_or(""), HasSubstr("no example is one of this rule"));
  EXPECT_THAT(disprove({swish_rule()}, {vector_x, {.graph = "g (float[B] x) => (y) { s = Sigmoid(x) y = Sub(s, x) }"}}).value_or(""),
              HasSubstr("example 1 is none of the rule: the rule does not match"));
  EXPECT_THAT(disprove({swish_rule()}, {{.variables = {{"z", "4"}}}}).value_or(""), HasSubstr("no shape for variable 'x'"));
  const auto [x] = vars("x");
  const Rule turned{.name = "Turned", .from = {ops::one<Pat>({"", "Transpose"}, {x}, {{"perm", attr<std::vector<std::int64_t>>("perm")}})}, .to = {x}};
  for (const char* text : {"[1, 0]", "1, 0 2", "one", ""})
    EXPECT_NE(disprove({turned}, {{.variables = {{"x", "A,B"}}, .attributes = {{"perm", text}}}}), std::nullopt) << text;
  EXPECT_THAT(disprove({turned}, {{.variables = {{"x", "A,B"}}, .attributes = {{"perm", "[1, 0]"}}}}).value_or(""),
              HasSubstr("the example says '[1' for 'perm', expected a number, or numbers: 4, 2, 2"));
  EXPECT_EQ(disprove({turned}, {{.variables = {{"x", "A,B"}}, .attributes = {{"perm", "0, 1"}}}}), std::nullopt);
}
TEST(Disprove, TriesAlternativesOrdersAndTensorForms) {
  const auto [x] = vars("x");
  // Each is wrong in one form only: the second alternative, the other order, a number as a tensor.
  const Rule alternative{.name = "Alternative", .from = {-relu(x) | -abs(x)}, .to = {relu(x) * -1.0}};
  EXPECT_THAT(disprove({alternative}, {vector_x}).value_or(""), HasSubstr("Abs (x)"));
  const Rule one_order{.name = "Order",
                       .from = {x * sigmoid(x)},
                       .where = {require("other order", [=](const Match& m) { return m[x]->uses().size() == 2 && m[x]->uses().back().index == 0; })},
                       .make = [=](Inserter& at, const Match& m, const Target&) {
                         return at.add({"", "Swish"}, {m[x]});
                       }};
  EXPECT_THAT(disprove({one_order}, {vector_x}).value_or(""), HasSubstr("the rule does not match"));
  const Rule scalar_only{
      .name = "Scalar",
      .from = {x * 2},
      .where = {require("a tensor",
                        [=](const Match& m) { return m[x]->uses()[0].node->input(1)->rank() == 0u || m[x]->uses()[0].node->input(0)->rank() == 0u; })},
      .make = [=](Inserter& at, const Match& m, const Target&) {
        return at.add({"", "Add"}, {m[x], m[x]});
      }};
  EXPECT_THAT(disprove({scalar_only}, {vector_x}).value_or(""), HasSubstr("a tensor"));
}
TEST(Disprove, NamesAlternativesWithoutExample) {
  const auto [x] = vars("x");
  const Rule swapped{.name = "Swap", .from = {-transpose(x, {1, 0}) | -transpose(x, {0, 2, 1})}, .make = [=](Inserter& at, const Match& m, const Target&) {
                       const auto perm = m[x]->rank() == 2u ? std::vector<std::int64_t>{1, 0} : std::vector<std::int64_t>{0, 2, 1};
                       return at.add({"", "Transpose"}, {at.add({"", "Neg"}, {m[x]})[0]}, {{"perm", perm}});
                     }};
  EXPECT_EQ(disprove({swapped}, {{.variables = {{"x", "B,4"}}}}).value_or(""), "no example has alternative 1 of a choice of 2");
  EXPECT_EQ(disprove({swapped}, {{.variables = {{"x", "B,4"}}}, {.variables = {{"x", "N,B,4"}}}}), std::nullopt);
}

// ── mutants ──────────────────────────────────────────────────────────────────────────────────────────────────────────────

TEST(Mutants, OfANodeAreAllWaysToGetItWrong) {
  auto model = ir::model_from_text(
      "g (float[B,8] x, float[4,8] w) => (y) <float two = {2}> { p = com.microsoft.FusedMatMul<transB = 1, alpha = 0.5>(x, w) y = Sub(p, two) }");
  std::vector<ir::Node*> nodes;
  for (auto* n : model.graph->nodes()) nodes.push_back(n);
  std::vector<std::string> what;
  for (const auto& m : mutations_of(*model.graph, nodes)) what.push_back(m.what);
  EXPECT_THAT(what, ElementsAre("FusedMatMul 1: attribute alpha changed", "FusedMatMul 1: attribute alpha left out", "FusedMatMul 1: attribute transB changed",
                                "FusedMatMul 1: attribute transB left out", "FusedMatMul 1: attribute transA set", "FusedMatMul 1: operands 0 and 1 swapped",
                                "FusedMatMul 1: operand 1 left out", "FusedMatMul 1: left out", "Sub 1: operands 0 and 1 swapped", "Sub 1: operand 1 left out",
                                "Sub 1: constant operand 1 changed", "Sub 1: left out", "Sub 1: is Add"));
}
TEST(Mutants, AreToldFromTheRule) {
  const auto mutations = mutations_of(swish_rule(), {vector_x});
  EXPECT_THAT(mutations, ElementsAre("Swish 1: attribute alpha set", "Swish 1: left out"));
  for (const auto& what : mutations) EXPECT_TRUE(is_noticed(mutant(swish_rule(), what), {vector_x})) << what;
  EXPECT_FALSE(is_noticed(mutant(swish_rule(), "no such change"), {vector_x}));
}

}  // namespace
}  // namespace mobius::rewrite
