#include "mobius/rules/rule_test.hpp"

namespace mobius::rules {
namespace {

rewrite::Example over_last_axis(const char* x, const char* vector) {
  return {.variables = {{"x", x}, {"gamma", vector}, {"beta", vector}, {"axes", "= -1"}, {"axes of the variance", "= -1"}},
          .attributes = {{"axes", "-1"}, {"axes of the variance", "-1"}, {"axis", "-1"}, {"back", "10"}}};
}
const std::vector<rewrite::Example> of_floats = {over_last_axis("B,S,8", "8"), over_last_axis("8", "constant 8")};
const std::vector<rewrite::Example> of_halves = {over_last_axis("float16[B,S,8]", "float16[8]")};
const RuleExamples examples[] = {{"LayerNorm", of_floats},
                                 {"LayerNormNoBias", of_floats},
                                 {"LayerNormNoWeight", of_floats},
                                 {"LayerNormOfCentred", of_floats},
                                 {"LayerNormOfCentredNoBias", of_floats},
                                 {"LayerNormInFloat", of_halves},
                                 {"LayerNormInFloatNoBias", of_halves},
                                 {"LayerNormInFloatNoWeight", of_halves}};

std::string graph(const std::string& nodes, const char* type = "float") {
  return fmt::format(
      "g ({0}[B,S,8] x, {0}[8] w, {0}[8] b, float[8] w32, float[8] b32, {0}[B,S,8] scale) => ({0}[B,S,8] y) <float two = {{2}}, int64[1] last = {{-1}},"
      " int64[1] second = {{2}}, int64[1] first = {{1}}, float eps = {{0.001}}, float one = {{1}}, float "
      "neg_half = {{-0.5}}> {{ {1} }}",
      type, nodes);
}
const std::string quotient = "m = ReduceMean(x, last) d = Sub(x, m) q = Pow(d, two) a = ReduceMean(q, last) v = Add(a, eps) s = Sqrt(v) n = Div(d, s) ";
const std::string whole = graph("y = LayerNormalization<epsilon = 0.001>(x, w, b)");

TEST(LayerNormFusion, TakesWhatTorchWrites) {
  for (const auto* rest : {"p = Mul(n, w) y = Add(p, b)", "p = Mul(w, n) y = Add(p, b)", "p = Mul(n, w) y = Add(b, p)"})
    expect_rewrite(layer_norm_fusion(), "default", graph(quotient + rest), whole);
}
TEST(LayerNormFusion, TakesSquaresRootsAndAxesInAllForms) {
  for (const auto* square : {"q = Pow(d, two)", "q = Mul(d, d)"})
    for (const auto* root : {"s = Sqrt(v) n = Div(d, s)", "s = Sqrt(v) r = Reciprocal(s) n = Mul(d, r)", "s = Sqrt(v) r = Div(one, s) n = Mul(r, d)",
                             "r = Pow(v, neg_half) n = Mul(d, r)"})
      for (const auto* mean : {"ReduceMean(x, last)", "ReduceMean<axes = [-1]>(x)", "ReduceMean<axes = [2], keepdims = 1>(x)", "ReduceMean(x, second)"})
        expect_rewrite(
            layer_norm_fusion(), "default",
            graph(fmt::format("m = {} d = Sub(x, m) {} a = ReduceMean<axes = [-1]>(q) v = Add(a, eps) {} p = Mul(n, w) y = Add(p, b)", mean, square, root)),
            whole);
}
TEST(LayerNormFusion, TakesNoBias) {
  expect_rewrite(layer_norm_fusion(), "default", graph(quotient + "y = Mul(n, w)"), graph("y = LayerNormalization<epsilon = 0.001>(x, w)"));
  expect_rewrite(layer_norm_fusion(), "default", graph(quotient + "p = Mul(n, w) y = Add(p, scale)"),
                 graph("p = LayerNormalization<epsilon = 0.001>(x, w) y = Add(p, scale)"));
}
TEST(LayerNormFusion, TakesNoWeight) {
  expect_rewrite(layer_norm_fusion(), "default", graph(quotient + "y = Mul(n, scale)"),
                 "g (float[B,S,8] x, float[8] w, float[8] b, float[8] w32, float[8] b32, float[B,S,8] scale) => (float[B,S,8] y)"
                 " <float[8] ones = {1,1,1,1,1,1,1,1}> { n = LayerNormalization<epsilon = 0.001>(x, ones) y = Mul(n, scale) }");
}

const std::string in_float =
    "c = Cast<to = 1>(x) m = ReduceMean(c, last) d = Sub(c, m) q = Pow(d, two) a = ReduceMean(q, last) v = Add(a, eps) s = Sqrt(v) n = Div(d, s) ";

TEST(LayerNormFusion, TakesCastsAlong) {
  const rules::Setup half{.dtype = ir::DataType::float16};
  expect_rewrite(layer_norm_fusion(), "cuda", graph(in_float + "h = Cast<to = 10>(n) p = Mul(h, w) y = Add(p, b)", "float16"),
                 graph("y = LayerNormalization<epsilon = 0.001>(x, w, b)", "float16"), half);
  expect_rewrite(layer_norm_fusion(), "cuda", graph(in_float + "h = Cast<to = 10>(n) y = Mul(w, h)", "float16"),
                 graph("y = LayerNormalization<epsilon = 0.001>(x, w)", "float16"), half);
  expect_rewrite(layer_norm_fusion(), "cuda", graph(in_float + "p = Mul(n, w32) o = Add(p, b32) y = Cast<to = 10>(o)", "float16"),
                 graph("c = Cast<to = 1>(x) o = LayerNormalization<epsilon = 0.001>(c, w32, b32) y = Cast<to = 10>(o)", "float16"), half);
}
TEST(LayerNormFusion, TakesBackANormOfWhatIsCentred) {
  const std::string centred = "m = ReduceMean(x, second) d = Sub(x, m) p = RMSNormalization<epsilon = 0.001, axis = 2>(d, w) ";
  expect_rewrite(layer_norm_fusion(), "default", graph(centred + "y = Add(b, p)"), whole);
  expect_rewrite(layer_norm_fusion(), "default", graph(centred + "y = Add(p, scale)"),
                 graph("p = LayerNormalization<epsilon = 0.001>(x, w) y = Add(p, scale)"));
}

TEST(LayerNormFusion, NotBelowTheOperatorsOpset) {
  expect_unchanged(layer_norm_fusion(), "default", graph(quotient + "p = Mul(n, w) y = Add(p, b)"), "", {.opset = 16});
}
TEST(LayerNormFusion, NotOtherMeans) {
  const auto unchanged = [](const std::string& nodes, const char* reason) { expect_unchanged(layer_norm_fusion(), "default", graph(nodes), reason); };
  unchanged("m = ReduceMean(x, first) d = Sub(x, m) q = Pow(d, two) a = ReduceMean(q, last) v = Add(a, eps) s = Sqrt(v) y = Div(d, s)",
            "is not over the last axis of [B, S, 8]");
  unchanged("m = ReduceMean(x, last) d = Sub(x, m) q = Pow(d, two) a = ReduceMean(q, first) v = Add(a, eps) s = Sqrt(v) y = Div(d, s)",
            "is not over the last axis of [B, S, 8]");
  unchanged("m = ReduceMean(x, last) d = Sub(m, x) q = Pow(d, two) a = ReduceMean(q, last) v = Add(a, eps) s = Sqrt(v) y = Div(d, s)", "before it");
  unchanged("m = ReduceMean(x, last) d = Sub(x, m) q = Pow(x, two) a = ReduceMean(q, last) v = Add(a, eps) s = Sqrt(v) y = Div(d, s)", "no Sub before it");
}
TEST(LayerNormFusion, NotPartsThatOthersRead) {
  const auto with = [](const char* outputs, const char* more) {
    return fmt::format(
        "g (float[B,8] x, float[8] w) => ({}) <float two = {{2}}, int64[1] last = {{-1}}, float eps = {{0.001}}> {{ m = ReduceMean(x, last) d = Sub(x, m) q = "
        "Pow(d, two)"
        " a = ReduceMean(q, last) v = Add(a, eps) s = Sqrt(v) y = Div(d, s) {} }}",
        outputs, more);
  };
  expect_unchanged(layer_norm_fusion(), "default", with("float[B,8] y, float[B,1] m", ""), "m is a graph output");
  expect_unchanged(layer_norm_fusion(), "default", with("float[B,8] y, float[B,8] z", "z = Neg(d)"), "d has another user");
}
TEST(LayerNormFusion, NotWithoutAKnownWidthOrInDouble) {
  const std::string nodes = "{ m = ReduceMean(x, last) d = Sub(x, m) q = Mul(d, d) a = ReduceMean(q, last) v = Add(a, eps) s = Sqrt(v) y = Div(d, s) }";
  expect_unchanged(layer_norm_fusion(), "default", "g (float[B,N] x) => (float[B,N] y) <int64[1] last = {-1}, float eps = {0.001}>" + nodes,
                   "the last axis has no fixed length");
  expect_unchanged(layer_norm_fusion(), "default", "g (double[B,8] x) => (double[B,8] y) <int64[1] last = {-1}, double eps = {0.001}>" + nodes, "x is DOUBLE");
}

}  // namespace
}  // namespace mobius::rules
