#include "mobius/rules/rule_test.hpp"

namespace mobius::rules {
namespace {

// A rotation of x [B, 2, S, 8], cosines of angles [B, S, 4] held twice. `nodes` make `y` from x, c and s.
struct Graph {
  std::string nodes = "";
  std::string tables = "both = Concat<axis = -1>(angles, angles) c3 = Cos(both) s3 = Sin(both) c = Unsqueeze(c3, axis_1) s = Unsqueeze(s3, axis_1)";
  std::string x = "float[B,2,S,8] x", angles = "float[B,S,4] angles";
  std::string text() const {
    return fmt::format(
        "g ({}, {}) => (y) <int64[1] zero = {{0}}, int64[1] one = {{1}}, int64[1] two = {{2}}, int64[1] three = {{3}}, int64[1] four = {{4}}, int64[1] five = "
        "{{5}},"
        " int64[1] last = {{-1}}, int64[1] axis_1 = {{1}}, int64[1] axis_4 = {{4}}, int64[1] end = {{9223372036854775807}}, int64[4] whole = {{0, 0, 0, 8}},"
        " int64[5] pairs = {{1, 1, 1, 1, 2}}, int64[4] flat5 = {{0, 1, -1, 8}}, int64[3] by_tokens = {{0, 0, 8}}, int64[2] halves = {{4, 4}}, float m = "
        "{{0.5}}> {{ {} {} }}",
        x, angles, tables, nodes);
  }
};

const std::string sliced = "a = Slice(x, zero, four, three, one) b = Slice(x, four, end, last) ";
const std::string turned = sliced + "n = Neg(b) r = Concat<axis = -1>(n, a) ";
const std::string sum = turned + "u = Mul(x, c) v = Mul(r, s) y = Add(u, v)";
// Even and odd elements, and tables that hold each angle twice in turn.
const std::string in_pairs =
    "d = Unsqueeze(angles, three) e = Tile(d, pairs_4) f = Reshape(e, by_tokens) c3 = Cos(f) s3 = Sin(f) c = Unsqueeze(c3, axis_1)"
    " s = Unsqueeze(s3, axis_1)";
const std::string paired =
    "a = Slice(x, zero, end, three, two) b = Slice(x, one, end, three, two) n = Neg(b) p = Unsqueeze(n, last) q = Unsqueeze(a, last)"
    " w = Concat<axis = -1>(p, q) r = Reshape(w, whole) u = Mul(x, c) v = Mul(r, s) y = Add(u, v)";

std::string with_pairs(std::string text) { return text.insert(text.find("<int64[1] zero") + 1, "int64[4] pairs_4 = {1, 1, 1, 2}, "); }

const std::string parts =
    "a, b = Split<axis = 3>(x, halves) e = Mul(a, c) f = Mul(b, s) g1 = Sub(e, f) h = Mul(b, c) i = Mul(a, s) j = Add(h, i) y = Concat<axis = 3>(g1, j)";
const std::string single = "c3 = Cos(angles) s3 = Sin(angles) c = Unsqueeze(c3, axis_1) s = Unsqueeze(s3, axis_1)";

std::string in_part(const std::string& operands, const std::string& type) {
  return "g (float[B,2,S,8] x, float[B,S,2] cos, float[B,S,2] sin, float[9,2] cos_table, float[9,2] sin_table, int64[B,S] at) => (" + type +
         " y) <int64[1] zero = {0}, int64[1] four = {4}, int64[1] last = {-1}, int64[1] end = {9223372036854775807}> {"
         " a = Slice(x, zero, four, last) b = Slice(x, four, end, last) r = RotaryEmbedding(" +
         operands + ") y = Concat<axis = 3>(r, b) }";
}
const rewrite::Trials positions = {.contents = {{"at", "0..9"}}};

std::string by_heads(const std::string& attributes, const std::string& operands) {
  return "g (float[B,S,16] x, float[B,S,4] cos, float[B,S,4] sin, float[9,4] cos_table, float[9,4] sin_table, int64[B,S] at) => (y)"
         " <int64[4] heads = {0, 0, 2, 8}> { a = Reshape(x, heads) b = Transpose<perm = [0, 2, 1, 3]>(a) y = RotaryEmbedding<" +
         attributes + ">(b, " + operands + ") }";
}

const RuleExamples rotary_examples(
    "RotaryFusion", {{.graph = Graph{sum}.text()}, {.graph = with_pairs(Graph{paired, in_pairs}.text())}, {.graph = Graph{parts, single}.text()}},
    {{"RotaryEmbedding 1: attribute num_heads set", "heads are an axis of the operand"}});
const RuleExamples in_part_examples("RotaryInPart",
                                    {{.graph = in_part("a, cos, sin", "float[B,2,S,8]")},
                                     {.graph = in_part("a, cos_table, sin_table, at", "float[B,2,S,8]"), .trials = positions}},
                                    {{"RotaryEmbedding 1: attribute num_heads changed", "heads are an axis of the operand; runtimes want it said"},
                                     {"RotaryEmbedding 1: attribute num_heads left out", "heads are an axis of the operand; runtimes want it said"}});
const RuleExamples layout_examples("RotaryLayout", {{.graph = by_heads("interleaved = 1", "cos, sin")},
                                                    {.graph = by_heads("interleaved = 0", "cos_table, sin_table, at"), .trials = positions}});

// ONNX Runtime's operator: with a table of all positions, or with a row for each token of the batch.
std::string contrib(const std::string& nodes, const std::string& type = "float[B,S,16] x") {
  return "g (" + type +
         ", float[B,S,4] angles, float[9,4] cos_table, float[9,4] sin_table, int64[B,S] at, int64[1] offset) => (y)"
         " <int64[2] rows = {-1, 4}, int64 zero = {0}, int64 one = {1}> { " +
         nodes + " }";
}
const std::string in_order =
    "c3 = Cos(angles) s3 = Sin(angles) c = Reshape(c3, rows) s = Reshape(s3, rows) n = Size(at) all = Range(zero, n, one) shape = Shape(at) p = Reshape(all, "
    "shape)"
    " y = com.microsoft.RotaryEmbedding<num_heads = 2>(x, p, c, s)";
const RuleExamples contrib_examples("RotaryOfOnnxRuntime",
                                    {{.graph = contrib("y = com.microsoft.RotaryEmbedding<interleaved = 1>(x, at, cos_table, sin_table)"), .trials = positions},
                                     {.graph = contrib(in_order)}});

TEST(RotaryFusion, OfOnnxRuntime) {
  expect_rewrite(rotary_fusion(), "cpu", contrib(in_order), "Cos Sin RotaryEmbedding");
  expect_rewrite(rotary_fusion(), "cpu", contrib("y = com.microsoft.RotaryEmbedding(x, at, cos_table, sin_table)"), "RotaryEmbedding", {.trials = positions});
}
TEST(RotaryFusion, NotOfOnnxRuntimeInOtherForms) {
  expect_unchanged(rotary_fusion(), "cpu", contrib("y = com.microsoft.RotaryEmbedding(x, offset, cos_table, sin_table)"), "offset is [1], expected rank 2");
  expect_unchanged(rotary_fusion(), "cpu", contrib("y = com.microsoft.RotaryEmbedding<scale = 2.0>(x, at, cos_table, sin_table)"), "it is scaled, or packed");
  expect_unchanged(rotary_fusion(), "cpu", contrib("y = com.microsoft.RotaryEmbedding(x, at, cos_table, sin_table)", "float[B,S,12] x"),
                   "its heads are not known");
}

TEST(RotaryFusion, OfHalves) {
  for (const auto* y : {"u = Mul(x, c) v = Mul(r, s) y = Add(u, v)", "u = Mul(c, x) v = Mul(s, r) y = Add(v, u)"})
    expect_rewrite(rotary_fusion(), "cpu", Graph{turned + y}.text(),
                   "g (float[B,2,S,8] x, float[B,S,4] angles) => (float[B,2,S,8] y) { c = Cos(angles) s = Sin(angles) y = RotaryEmbedding(x, c, s) }");
}

TEST(RotaryFusion, OfPairs) {
  expect_rewrite(rotary_fusion(), "cpu", with_pairs(Graph{paired, in_pairs}.text()),
                 "g (float[B,2,S,8] x, float[B,S,4] angles) => (float[B,2,S,8] y) {"
                 " c = Cos(angles) s = Sin(angles) y = RotaryEmbedding<interleaved = 1>(x, c, s) }");
}

TEST(RotaryFusion, OfPartsThatAreJoined) { expect_rewrite(rotary_fusion(), "cpu", Graph{parts, single}.text(), "Cos Sin RotaryEmbedding"); }

// What was done to the cosines is done to the half of them; tables of one row serve all.
TEST(RotaryFusion, KeepsWhatIsDoneToTheTables) {
  expect_rewrite(rotary_fusion(), "cpu",
                 Graph{sum,
                       "both = Concat<axis = -1>(angles, angles) c2 = Cos(both) s2 = Sin(both) c3 = Mul(c2, m) s3 = Mul(m, s2) c = Unsqueeze(c3, axis_1)"
                       " s = Unsqueeze(s3, axis_1)"}
                     .text(),
                 "Cos Mul Sin Mul RotaryEmbedding");
  expect_rewrite(rotary_fusion(), "cpu", Graph{sum, Graph().tables, "float[B,2,S,8] x", "float[1,S,4] angles"}.text(),
                 "Cos Shape Concat Expand Sin Expand RotaryEmbedding");
  expect_rewrite(rotary_fusion(), "cpu",
                 Graph{sum, "both = Concat<axis = -1>(angles, angles) c = Cos(both) s = Sin(both)", "float[B,2,S,8] x", "float[S,4] angles"}.text(),
                 "Cos Unsqueeze Shape Concat Expand Sin Unsqueeze Expand RotaryEmbedding");
}

TEST(RotaryFusion, ByTokens) {
  const auto text =
      Graph{sum, "both = Concat<axis = -1>(angles, angles) c3 = Cos(both) s3 = Sin(both) c = Unsqueeze(c3, two) s = Unsqueeze(s3, two)", "float[B,S,2,8] x"}
          .text();
  expect_rewrite(rotary_fusion(), "cpu", text, "Cos Sin Reshape RotaryEmbedding Reshape");
}

TEST(RotaryFusion, InPart) {
  expect_rewrite(rotary_fusion(), "cpu", in_part("a, cos, sin", "float[B,2,S,8]"),
                 "g (float[B,2,S,8] x, float[B,S,2] cos, float[B,S,2] sin, float[9,2] cos_table, float[9,2] sin_table, int64[B,S] at) => (float[B,2,S,8] y) {"
                 " y = RotaryEmbedding<num_heads = 2, rotary_embedding_dim = 4>(x, cos, sin) }");
}

TEST(RotaryFusion, OnWhatTheProjectionGives) {
  expect_rewrite(rotary_fusion(), "cpu", by_heads("interleaved = 1", "cos, sin"), "RotaryEmbedding Reshape Transpose");
}

// ── near misses ──

TEST(RotaryFusion, NotOtherParts) {
  const auto other = [](const std::string& a, const std::string& b) {
    return Graph{"a = " + a + " b = " + b + " n = Neg(b) r = Concat<axis = -1>(n, a) u = Mul(x, c) v = Mul(r, s) y = Add(u, v)"}.text();
  };
  expect_unchanged(rotary_fusion(), "cpu", other("Slice(x, four, end, three)", "Slice(x, zero, four, three)"), "a and b are not the halves of one tensor");
  expect_unchanged(rotary_fusion(), "cpu", other("Slice(x, zero, three, three)", "Slice(x, three, end, three)"), "a and b are not the halves of one tensor");
  expect_unchanged(rotary_fusion(), "cpu", other("Slice(c, zero, four, three)", "Slice(c, four, end, three)"), "a and b are not the halves of one tensor");
}
TEST(RotaryFusion, NotTablesWithOtherAngles) {
  const std::string two = "float[B,S,4] angles, float[B,S,4] more";
  expect_unchanged(rotary_fusion(), "cpu",
                   Graph{sum, "both = Concat<axis = -1>(angles, more) c3 = Cos(both) s3 = Sin(both) c = Unsqueeze(c3, axis_1) s = Unsqueeze(s3, axis_1)",
                         "float[B,2,S,8] x", two}
                       .text(),
                   "are no tables with each angle twice, in halves");
  expect_unchanged(rotary_fusion(), "cpu", with_pairs(Graph{sum, in_pairs}.text()), "are no tables with each angle twice, in halves");
  expect_unchanged(rotary_fusion(), "cpu", Graph{paired}.text(), "are no tables with each angle twice, in pairs");
}
TEST(RotaryFusion, NotTablesPerHead) {
  expect_unchanged(rotary_fusion(), "cpu",
                   Graph{sum, "both = Concat<axis = -1>(angles, angles) c = Cos(both) s = Sin(both)", "float[B,2,S,8] x", "float[B,2,S,4] angles"}.text(),
                   "are no tables with each angle twice, in halves");
}
TEST(RotaryFusion, NotWithTheSignElsewhere) {
  expect_unchanged(rotary_fusion(), "cpu", Graph{sliced + "n = Neg(a) r = Concat<axis = -1>(b, n) u = Mul(x, c) v = Mul(r, s) y = Add(u, v)"}.text(),
                   "no Neg before it");
}
TEST(RotaryFusion, NotTheEndOfTheHeadInPart) {
  auto text = in_part("b, cos, sin", "float[B,2,S,8]");
  text.replace(text.find("Concat<axis = 3>(r, b)"), 22, "Concat<axis = 3>(r, a)");
  expect_unchanged(rotary_fusion(), "cpu", text, "b and a are not what one tensor begins and ends with");
}
TEST(RotaryFusion, NotBelowOpset23UnlessGroupQueryAttentionTakesIt) {
  expect_unchanged(rotary_fusion(), "default", Graph{sum}.text(), "", {.opset = 22});
  expect_rewrite(rotary_fusion(), "cpu", Graph{sum}.text(), "Cos Sin RotaryEmbedding", {.opset = 21});
}

}  // namespace
}  // namespace mobius::rules
