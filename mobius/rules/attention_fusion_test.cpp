#include "mobius/rules/rule_test.hpp"

namespace mobius::rules {
namespace {

// softmax(...) v of q [B, 2, S, 8], k transposed [B, 2, 8, T]: `nodes` make `scores` and `weights` from them.
std::string graph(const std::string& nodes, const std::string& mask = "float[B,1,S,T] m", const std::string& type = "float") {
  return fmt::format(
      "g ({0}[B,2,S,8] q, {0}[B,2,8,T] k, {0}[B,2,T,4] v, {1}) => ({0}[B,2,S,4] y)"
      " <{0} half = {{0.5}}, {0}[1] third = {{0.333}}, {0} root = {{4.0}}, {0} cap = {{20.0}}, {0} zero = {{0.0}}, {0} low = {{-60000.0}}, {0} weak = "
      "{{-10.0}}, {0} none = {{-inf}},"
      " {0}[1,1,1,1,1] five = {{0.5}}>"
      " {{ p = MatMul(q, k) {2} y = MatMul(weights, v) }}",
      type, mask, nodes);
}

const std::string plain_mask = "float[B,1,S,T] m", yes_or_no = "bool[B,1,S,T] m";
// Runtimes see masks at random, and one in which no query sees anything.
const std::vector<rewrite::Contents> some_hidden_or_all = {{{"T", "2..6"}}, {{"T", "2..6"}, {"m", "1"}}},
                                     some_shown_or_none = {{{"T", "2..6"}}, {{"T", "2..6"}, {"m", "0"}}};
const RuleExamples examples("AttentionFusion",
                            {{.graph = graph("weights = Softmax(p)")},
                             {.graph = graph("s = Mul(p, half) a = Add(s, m) weights = Softmax(a)")},
                             {.graph = graph("s = Div(p, root) a = Add(s, m) w = Softmax(a) n = IsNaN(w) weights = Where(n, zero, w)")},
                             {.graph = graph("s = Mul(p, half) d = Div(s, cap) t = Tanh(d) c = Mul(t, cap) a = Add(c, m) f = Cast<to = 1>(a) w = Softmax(f)"
                                             " weights = Cast<to = 1>(w)")},
                             {.graph = graph("a = Where(m, low, p) weights = Softmax(a)", yes_or_no), .on_runtime = some_hidden_or_all},
                             {.graph = graph("s = Mul(p, half) a = Where(m, s, low) weights = Softmax(a)", yes_or_no), .on_runtime = some_shown_or_none},
                             {.graph = graph("a = Where(m, p, none) w = Softmax(a) n = IsNaN(w) weights = Where(n, zero, w)", yes_or_no),
                              .on_runtime = some_shown_or_none},
                             {.graph = graph("a = Add(p, m) weights = Softmax(a)", "float[B,1,1,T] m")}},
                            {{"Where 1: constant operand 1 changed", "any very low score hides a key"},
                             {"Where 1: constant operand 2 changed", "any very low score hides a key"},
                             {"Expand 1: left out", "the reference broadcasts rows; runtimes don't"},
                             {"Shape 1: attribute start changed", "a mask that is expanded to more axes says the same"},
                             {"Shape 1: attribute start left out", "a mask that is expanded to more axes says the same"}});

std::string attention_of(const std::string& nodes, const std::string& mask = "float[B,1,S,T] m") {
  const auto r = rewritten(attention_fusion(), "cpu", graph(nodes, mask));
  EXPECT_EQ(rewrite::difference(r.original, r.model).value_or(""), "") << ir::to_text(r.model);
  std::string text;
  for (const auto* n : r.model.graph->nodes()) {
    if (!n->is("Attention")) continue;
    for (const auto& [name, value] : n->attributes)
      if (const auto* number = std::get_if<float>(&value)) text += fmt::format("{}={:.4g} ", name, *number);
    text += n->input(3) ? ir::to_string(n->input(3)->type) : "";
  }
  return text.empty() ? r.report.nearest_miss : text;
}

TEST(AttentionFusion, TakesTheScaleOfTheScores) {
  EXPECT_EQ(attention_of("weights = Softmax(p)"), "scale=1 ");
  EXPECT_EQ(attention_of("s = Mul(p, half) weights = Softmax(s)"), "scale=0.5 ");
  EXPECT_EQ(attention_of("s = Mul(third, p) weights = Softmax<axis = 3>(s)"), "scale=0.333 ");
  EXPECT_EQ(attention_of("s = Div(p, root) weights = Softmax(s)"), "scale=0.25 ");
}

TEST(AttentionFusion, TakesAMask) {
  EXPECT_EQ(attention_of("s = Mul(p, half) a = Add(s, m) weights = Softmax(a)"), "scale=0.5 float[B,1,S,T]");
  EXPECT_EQ(attention_of("a = Add(m, p) weights = Softmax(a)", "float[S,T] m"), "scale=1 float[S,T]");
  EXPECT_EQ(attention_of("a = Where(m, low, p) weights = Softmax(a)", "bool[B,1,S,T] m"), "scale=1 float[B,1,S,T]");
  EXPECT_EQ(attention_of("s = Div(p, root) a = Where(m, s, low) weights = Softmax(a)", "bool[B,2,S,T] m"), "scale=0.25 float[B,2,S,T]");
}

// Runtimes want a row per query.
TEST(AttentionFusion, GivesTheMaskItsRows) {
  EXPECT_EQ(attention_of("a = Add(p, m) weights = Softmax(a)", "float[B,1,1,T] m"), "scale=1 float[B,1,S,T]");
  EXPECT_EQ(attention_of("a = Add(p, m) weights = Softmax(a)", "float[T] m"), "scale=1 float[S,T]");
  EXPECT_EQ(attention_of("a = Where(m, p, low) weights = Softmax(a)", "bool[B,1,S,1] m"), "scale=1 float[B,1,S,T]");
}

TEST(AttentionFusion, TakesASoftcapAndTheGuardAgainstNan) {
  EXPECT_EQ(attention_of("s = Mul(p, half) d = Div(s, cap) t = Tanh(d) c = Mul(t, cap) a = Add(c, m) weights = Softmax(a)"),
            "scale=0.5 softcap=20 float[B,1,S,T]");
  EXPECT_EQ(attention_of("a = Add(p, m) w = Softmax(a) n = IsNaN(w) weights = Where(n, zero, w)"), "scale=1 float[B,1,S,T]");
}

// Rows that see nothing at all: zeros by the guard, zeros by Attention.
TEST(AttentionFusion, RowsThatSeeNothingAreZeros) {
  const std::string text =
      "g (float[B,2,S,8] q, float[B,2,8,T] k, float[B,2,T,4] v, bool[B,1,S,T] m) => (float[B,2,S,4] y) <float zero = {0}, float[1] none = {-inf}> {"
      " p = MatMul(q, k) b = Where(m, zero, none) a = Add(p, b) w = Softmax(a) n = IsNaN(w) weights = Where(n, zero, w) y = MatMul(weights, v) }";
  expect_rewrite(attention_fusion(), "cpu", text, "Where Transpose Attention", {.trials = {.contents = {{"m", "0"}}}});
  expect_rewrite(attention_fusion(), "cpu", text, "Where Transpose Attention");
}

TEST(AttentionFusion, InHalfPrecisionWithASoftmaxInFloat) {
  const auto wide = graph("a = Add(p, m) f = Cast<to = 1>(a) s = Softmax(f) weights = Cast<to = 10>(s)", "float16[B,1,S,T] m", "float16");
  const auto r = rewritten(attention_fusion(), "cuda", wide, {.dtype = ir::DataType::float16});
  EXPECT_EQ(ops_of(*r.model.graph), "Transpose Attention");
  EXPECT_EQ(r.model.graph->last()->int_attribute("softmax_precision", 0), 1);
  EXPECT_EQ(rewrite::difference(r.original, r.model).value_or(""), "");
}

// ── near misses ──

TEST(AttentionFusion, NotInFloat16WithAFiniteScore) {
  const auto chosen = [](const std::string& score) { return graph("a = Where(m, p, " + score + ") weights = Softmax(a)", yes_or_no, "float16"); };
  expect_unchanged(attention_fusion(), "cuda", chosen("low"), "in float16, scores show beside any finite number for queries that see nothing",
                   {.dtype = ir::DataType::float16});
  EXPECT_EQ(ops_of(*rewritten(attention_fusion(), "cuda", chosen("none"), {.dtype = ir::DataType::float16}).model.graph), "Transpose Where Attention");
}

TEST(AttentionFusion, NotWithScalesThatRuntimesRefuse) {
  const std::string reason = "the scale is not a positive number";
  const auto with = [](const std::string& number) {
    auto text = graph("s = Mul(p, odd) weights = Softmax(s)");
    text.insert(text.find("float zero"), "float odd = {" + number + "}, ");
    return text;
  };
  expect_unchanged(attention_fusion(), "cpu", with("-0.35"), reason);
  expect_unchanged(attention_fusion(), "cpu", with("0"), reason);
  for (const auto& number : {"-2", "inf"}) {
    auto text = with(number);
    text.replace(text.find("Mul(p"), 3, "Div");
    expect_unchanged(attention_fusion(), "cpu", text, reason);
  }
  auto capped = with("-3");
  capped.replace(capped.find("s = Mul(p, odd)"), 15, "d = Div(p, odd) t = Tanh(d) s = Mul(t, odd)");
  expect_unchanged(attention_fusion(), "cpu", capped, reason);
}

TEST(AttentionFusion, NotOverAnotherAxis) {
  expect_unchanged(attention_fusion(), "cpu", graph("weights = Softmax<axis = 2>(p)"), "axis 2 is not the last of [B, 2, S, T]");
}
TEST(AttentionFusion, NotWhereWeightsHaveOtherReaders) {
  expect_unchanged(attention_fusion(), "cpu",
                   "g (float[B,2,S,8] q, float[B,2,8,T] k, float[B,2,T,4] v) => (float[B,2,S,4] y, float[B,2,S,T] w)"
                   " { p = MatMul(q, k) w = Softmax(p) y = MatMul(w, v) }",
                   "w is a graph output");
}
TEST(AttentionFusion, NotWithAMaskThatAddsToTheShape) {
  for (const auto* mask : {"float[B,1,R,T] m", "float[C,1,S,T] m", "float[1,B,2,S,T] m"})
    expect_unchanged(attention_fusion(), "cpu",
                     fmt::format("g (float[1,2,1,8] q, float[1,2,8,T] k, float[1,2,T,4] v, {}) => (y)"
                                 " {{ p = MatMul(q, k) a = Add(p, m) w = Softmax(a) y = MatMul(w, v) }}",
                                 mask),
                     "the mask m is [");
}
TEST(AttentionFusion, NotWhereHiddenKeysStillCount) {
  expect_unchanged(attention_fusion(), "cpu", graph("a = Where(m, p, weak) weights = Softmax(a)", "bool[B,1,S,T] m"), "what hides a key is no low score");
}
TEST(AttentionFusion, NotWithOtherNumbersOfHeads) {
  expect_unchanged(attention_fusion(), "cpu",
                   "g (float[B,2,S,8] q, float[B,1,8,T] k, float[B,2,T,4] v) => (float[B,2,S,4] y) { p = MatMul(q, k) w = Softmax(p) y = MatMul(w, v) }",
                   "q and k are [B, 2, S, 8] and [B, 1, 8, T]");
  expect_unchanged(attention_fusion(), "cpu",
                   "g (float[B,S,8] q, float[B,8,T] k, float[B,T,4] v) => (float[B,S,4] y) { p = MatMul(q, k) w = Softmax(p) y = MatMul(w, v) }",
                   "q is [B, S, 8], expected [batch, heads, length, size]");
}
TEST(AttentionFusion, NotWithAScaleThatAddsAxesOrIsNone) {
  expect_unchanged(attention_fusion(), "cpu",
                   "g (float[B,2,S,8] q, float[B,2,8,T] k, float[B,2,T,4] v) => (y) <float[1,1,1,1,1] five = {0.5}>"
                   " { p = MatMul(q, k) s = Mul(p, five) w = Softmax(s) y = MatMul(w, v) }",
                   "five adds axes");
  expect_unchanged(attention_fusion(), "cpu", graph("s = Mul(p, zero) weights = Softmax(s)"), "the scale is not a positive number");
}
TEST(AttentionFusion, NotBelowOpset23NorWithoutTheOperator) {
  expect_unchanged(attention_fusion(), "default", graph("weights = Softmax(p)"), "", {.opset = 22});
  expect_unchanged(attention_fusion(), "cpu", graph("weights = Softmax(p)"), "", {.role = "encoder", .opset = 22});
  expect_unchanged(attention_fusion(), "qnn", graph("weights = Softmax(p)"), "");
}
TEST(AttentionFusion, OnTheWayToGroupQueryAttentionFromTheLowestOpsetOn) {
  expect_rewrite(attention_fusion(), "cpu", graph("weights = Softmax(p)"), "Transpose Attention", {.opset = 21});
  expect_unchanged(attention_fusion(), "cpu", graph("weights = Softmax(p)"), "", {.opset = 20});
}

}  // namespace
}  // namespace mobius::rules
