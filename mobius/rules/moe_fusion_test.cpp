#include "mobius/rules/rule_test.hpp"

namespace mobius::rules {
namespace {

// Four experts of width 16 for tokens of 8, two of them chosen for each token, piece by piece.
struct Mixture {
  std::string type = "float";
  std::string scores = "p = Softmax(logits) top, ids = TopK(p, two) sum = ReduceSum(top, last) w = Div(top, sum)";
  std::string repeated = "a = Unsqueeze(x, one) b = Expand(a, times) rows = Reshape(b, flat)";
  std::string chosen = "ids1 = Reshape(ids, last) at = Unsqueeze(ids1, last)";
  std::string first = "m1 = GatherND(w1, at) c1 = Unsqueeze(rows, last) d1 = MatMul(m1, c1) h = Squeeze(d1, last)";
  std::string gates = "g, u = Split<axis = 1, num_outputs = 2>(h) o = Sigmoid(g) s = Mul(g, o) act = Mul(s, u)";
  std::string second = "m2 = GatherND(w2, at) c2 = Unsqueeze(act, last) d2 = MatMul(m2, c2) f = Squeeze(d2, last)";
  std::string weighted = "w3 = Reshape(w, last) w4 = Unsqueeze(w3, last) v = Mul(f, w4)";
  std::string summed = "summands = Reshape(v, parts) y = ReduceSum<keepdims = 0>(summands, one)";
  std::string more_results = "";
  std::string stacks = "{0}[4,32,8] w1, {0}[4,8,16] w2";
  std::string logits = "T,4";
};

std::string graph(const Mixture& m) {
  constexpr auto head = "g ({0}[T,8] x, {0}[{1}] logits) => ({0}[T,8] y{2}) <{3}, int64[1] one = {{1}}, int64[1] zero = {{0}}, int64[1] last = {{-1}},";
  constexpr auto constants =
      " int64[1] two = {{2}}, int64[3] times = {{1, 2, 1}}, int64[2] flat = {{-1, 8}}, int64[3] parts = {{-1, 2, 8}},"
      " int64[1] end = {{9223372036854775807}}, {0} high = {{0.7}}, {0} low = {{-0.7}}, {0} factor = {{1.702}}, {0} unit = {{1.0}}>";
  const auto text = fmt::format(fmt::runtime(std::string(head) + constants), m.type, m.logits, m.more_results, fmt::format(fmt::runtime(m.stacks), m.type));
  return fmt::format("{} {{ {} {} {} {} {} {} {} {} }}", text, m.scores, m.repeated, m.chosen, m.first, m.gates, m.second, m.weighted, m.summed);
}

const std::string chosen_first = "top, ids = TopK(logits, two) w = Softmax<axis = 1>(top)";
const std::string limited =
    "g0 = Slice(h, zero, end, one, two) g = Clip(g0, \"\", high) u0 = Slice(h, one, end, one, two) u = Clip(u0, low, high)"
    " z = Mul(g, factor) o = Sigmoid(z) s = Mul(g, o) t = Add(u, unit) act = Mul(t, s)";

// As exporters write them: matrices [in, out] or [out, in], with biases or without.
Mixture mixture(bool in_out, bool biased) {
  Mixture m;
  if (in_out) {
    m.first = "m1 = GatherND(w1, at) c1 = Unsqueeze(rows, one) d1 = MatMul(c1, m1) h = Squeeze(d1, one)";
    m.second = "m2 = GatherND(w2, at) c2 = Unsqueeze(act, one) d2 = MatMul(c2, m2) f = Squeeze(d2, one)";
    m.stacks = "{0}[4,8,32] w1, {0}[4,16,8] w2";
  }
  if (biased) {
    m.first.replace(m.first.find("h ="), 1, "e1");
    m.second.replace(m.second.find("f ="), 1, "e2");
    m.first += " n1 = GatherND(b1, at) h = Add(e1, n1)";
    m.second += " n2 = GatherND(b2, at) f = Add(e2, n2)";
    m.stacks += ", {0}[4,32] b1, {0}[4,8] b2";
  }
  return m;
}
Mixture gpt_oss() {
  auto m = mixture(true, true);
  m.scores = chosen_first;
  m.gates = limited;
  return m;
}
const Mixture in_float = {.type = "float16",
                          .scores = "wide = Cast<to = 1>(logits) p = Softmax(wide) top, ids = TopK(p, two) sum = ReduceSum(top, last) w = Div(top, sum)",
                          .weighted = "w3 = Reshape(w, last) w4 = Unsqueeze(w3, last) k = Cast<to = 1>(f) v = Mul(k, w4)",
                          .summed = "summands = Reshape(v, parts) q = ReduceSum<keepdims = 0>(summands, one) y = Cast<to = 10>(q)"};

std::vector<rewrite::Example> forms() {
  auto limits = mixture(false, false);
  limits.gates = limited;
  return {{.graph = graph({})},
          {.graph = graph({.scores = "p = Softmax(logits) w, ids = TopK(p, two)"})},
          {.graph = graph(mixture(false, true))},
          {.graph = graph(mixture(true, false))},
          {.graph = graph(limits)},
          {.graph = graph(gpt_oss())}};
}
const RuleExamples examples("MoE", forms(),
                            {{"MoE 1: attribute activation_alpha left out", "1, as the gates without limits have it, is its default"},
                             {"MoE 1: attribute activation_beta left out", "0, as the gates without limits have it, is its default"},
                             {"Reshape 4: left out", "the reference reads a bias by its elements"}});

TEST(MoEFusion, TakesGatheredMatrices) {
  expect_rewrite(moe_fusion(), "cpu", graph({}), "Reshape Transpose Reshape MoE");
  const auto r = rewritten(moe_fusion(), "cpu", graph({}));
  const auto* moe = r.model.graph->outputs()[0]->producer();
  EXPECT_EQ(moe->int_attribute("k", 0), 2);
  EXPECT_EQ(moe->int_attribute("normalize_routing_weights", 0), 1);
  EXPECT_FALSE(moe->input(3));
}
TEST(MoEFusion, TakesOtherRouters) {
  const auto normalises = [](const Mixture& m) {
    const auto r = rewritten(moe_fusion(), "cpu", graph(m));
    EXPECT_EQ(r.report.applied, 1u) << r.report.nearest_miss;
    EXPECT_EQ(rewrite::difference(r.original, r.model).value_or(""), "");
    return r.report.applied ? r.model.graph->outputs()[0]->producer()->int_attribute("normalize_routing_weights", -1) : -1;
  };
  EXPECT_EQ(normalises({.scores = "p = Softmax(logits) w, ids = TopK(p, two)"}), 0);
  EXPECT_EQ(normalises({.scores = "top, ids = TopK(logits, two) w = Softmax(top)"}), 1);
  EXPECT_EQ(normalises({.scores = "p = Softmax<axis = 1>(logits) top, ids = TopK<axis = 1, sorted = 0>(p, two) sum = ReduceSum(top, one) w = Div(top, sum)"}),
            1);
}
TEST(MoEFusion, TakesOperandsTheOtherWayRound) {
  expect_rewrite(moe_fusion(), "cpu",
                 graph({.gates = "g, u = Split<axis = -1, num_outputs = 2>(h) o = Sigmoid(g) s = Mul(o, g) act = Mul(u, s)",
                        .weighted = "w3 = Reshape(w, last) w4 = Unsqueeze(w3, one) v = Mul(w4, f)"}),
                 "Reshape Transpose Reshape MoE");
  expect_rewrite(moe_fusion(), "cpu", graph({.gates = "g, u = Split<axis = 1, num_outputs = 2>(h) o = Sigmoid(g) s = Mul(u, o) act = Mul(s, g)"}),
                 "Reshape Transpose Reshape MoE");
  expect_rewrite(moe_fusion(), "cpu",
                 graph({.chosen = "ids1 = Reshape(ids, last)",
                        .first = "m1 = Gather(w1, ids1) c1 = Unsqueeze(rows, last) d1 = MatMul(m1, c1) h = Squeeze(d1, last)",
                        .second = "m2 = Gather(w2, ids1) c2 = Unsqueeze(act, last) d2 = MatMul(m2, c2) f = Squeeze(d2, last)"}),
                 "Reshape Transpose Reshape MoE");
}
TEST(MoEFusion, TakesLimitsAndBiases) { expect_rewrite(moe_fusion(), "cpu", graph(gpt_oss()), "Transpose Transpose MoE"); }
TEST(MoEFusion, TakesCastsOfHalfPrecision) {
  expect_rewrite(moe_fusion(), "cuda", graph(in_float), "Reshape Transpose Reshape MoE Cast Cast", {.dtype = ir::DataType::float16});
}

TEST(MoEFusion, NotWhereTheEpLacksIt) {
  expect_unchanged(moe_fusion(), "webgpu", graph({}), "");
  expect_unchanged(moe_fusion(), "default", graph({}), "");
  expect_unchanged(moe_fusion(), "cpu", graph({.type = "double"}), "DOUBLE of rows has no MoE kernel here");
}
TEST(MoEFusion, NotWhatOthersRead) {
  expect_unchanged(
      moe_fusion(), "cpu",
      graph({.summed = "summands = Reshape(v, parts) y = ReduceSum<keepdims = 0>(summands, one) other = Neg(f)", .more_results = ", float[N,8] other"}),
      "f has another user");
  expect_unchanged(moe_fusion(), "cpu", graph({.more_results = ", float[T,2] w"}), "w is a graph output");
}
TEST(MoEFusion, NotTokensInAnotherOrder) {
  expect_unchanged(moe_fusion(), "cpu",
                   graph({.repeated = "a = Unsqueeze(x, zero) b = Expand(a, back) rows = Reshape(b, flat)",
                          .stacks = "{0}[4,32,8] w1, {0}[4,8,16] w2, int64[3] back = {{2, 1, 1}}"}),
                   "rows does not have each token 2 times");
}
TEST(MoEFusion, NotOtherExperts) {
  expect_unchanged(moe_fusion(), "cpu", graph({.logits = "T,5"}), "logits is [T, 5], expected [tokens, 4]");
  expect_unchanged(moe_fusion(), "cpu", graph({.stacks = "{0}[4,32,8] w1, {0}[5,8,16] w2"}), "w2 is [5, 8, 16]");
  // Other ones for the second matrix.
  expect_unchanged(moe_fusion(), "cpu",
                   graph({.second = "i2 = Sub(last, at) m2 = GatherND(w2, i2) c2 = Unsqueeze(act, last) d2 = MatMul(m2, c2) f = Squeeze(d2, last)"}),
                   "m2: no Unsqueeze before it");
}
TEST(MoEFusion, NotTheSmallest) {
  expect_unchanged(moe_fusion(), "cpu", graph({.scores = "p = Softmax(logits) w, ids = TopK<largest = 0>(p, two)"}), "attribute largest is set");
  expect_unchanged(moe_fusion(), "cpu", graph({.scores = "p = Softmax<axis = 0>(logits) top, ids = TopK(p, two) sum = ReduceSum(top, last) w = Div(top, sum)"}),
                   "softmax axis is 0");
}
TEST(MoEFusion, NotWeightsThatAreNoShares) {
  expect_unchanged(moe_fusion(), "cpu", graph({.scores = "w, ids = TopK(logits, two)"}), "the graph has no Softmax");
  expect_unchanged(moe_fusion(), "cpu", graph({.scores = "top, ids = TopK(logits, two) sum = ReduceSum(top, last) w = Div(top, sum)"}),
                   "the graph has no Softmax");
  expect_unchanged(moe_fusion(), "cpu", graph({.scores = "p = Softmax(logits) top, ids = TopK(p, two) sum = ReduceSum(p, last) w = Div(top, sum)"}), "sum");
}
TEST(MoEFusion, NotOtherGates) {
  auto m = gpt_oss();
  m.gates.replace(m.gates.find("low, high"), 9, "unit, high");
  expect_unchanged(moe_fusion(), "cpu", graph(m), "limits that are alike on both sides");
  // Of below zero: the kernel can't.
  m = gpt_oss();
  m.gates.replace(m.gates.find("\"\", high"), 8, "\"\", low");
  m.gates.replace(m.gates.find("low, high"), 9, "high, low");
  expect_unchanged(moe_fusion(), "cpu", graph(m), "limits that are alike on both sides");
  expect_unchanged(moe_fusion(), "cpu", graph({.gates = "g, u = Split<axis = 1, num_outputs = 2>(h) o = Tanh(g) s = Mul(g, o) act = Mul(s, u)"}),
                   "s: no Sigmoid before it");
  expect_unchanged(moe_fusion(), "cpu", graph({.gates = "g, u = Split<axis = 1, num_outputs = 2>(h) o = Sigmoid(u) s = Mul(g, o) act = Mul(s, u)"}),
                   "o: no Split before it");
}
TEST(MoEFusion, NotSizesThatTheKernelLacks) {
  expect_unchanged(
      moe_fusion(), "cuda",
      graph({.gates = "g, u = Split<axis = 1, num_outputs = 2>(h) o = Sigmoid(g) s = Mul(g, o) act = Mul(s, u)", .stacks = "{0}[4,24,8] w1, {0}[4,8,12] w2"}),
      "the kernel takes sizes of a multiple of 8");
}

}  // namespace
}  // namespace mobius::rules
