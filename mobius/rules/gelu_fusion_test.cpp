#include "mobius/rules/rule_test.hpp"

namespace mobius::rules {
namespace {

// In double the roots are what they are; in float a constant is off by a rounding.
const std::vector<rewrite::Example> any_values = {{.variables = {{"x", "double[B,S,8]"}}}, {.variables = {{"x", "B"}}, .trials = {.tolerance = 1e-6}}};
const RuleExamples examples[] = {{"Gelu", any_values}, {"GeluTanh", any_values}};

std::string graph(const std::string& nodes) {
  return "g (float[B,S,8] x) => (float[B,S,8] y) <float r = {1.4142135}, float i = {0.70710677}, float one = {1}, float half = {0.5}, float[1] two = {2}, "
         "float three = {3},"
         " float k = {0.7978845608}, float c = {0.044715}, float t = {1.702}> { " +
         nodes + " }";
}
const std::string erf_form = graph("y = Gelu(x)"), tanh_form = graph("y = Gelu<approximate = \"tanh\">(x)");

// What float32 makes of the constants.
const rules::Setup rounded{.trials = {.tolerance = 1e-6}};

// From f, the error function or tangent, to y.
const std::vector<std::string>& endings() {
  static const std::vector<std::string> list = {
      "a = Add(f, one) h = Mul(half, a) y = Mul(x, h)",  // torch.onnx
      "a = Add(f, one) o = Mul(x, a) y = Mul(o, half)",  // TorchScript
      "a = Add(f, one) h = Mul(x, half) y = Mul(h, a)",  // by hand
      "a = Add(one, f) o = Mul(a, x) y = Mul(half, o)", "a = Add(one, f) h = Mul(half, x) y = Mul(a, h)", "a = Add(one, f) h = Div(x, two) y = Mul(h, a)",
      "a = Add(one, f) o = Mul(x, a) y = Div(o, two)",  "a = Add(one, f) h = Div(a, two) y = Mul(x, h)",  "a = Mul(f, half) h = Add(a, half) y = Mul(x, h)",
  };
  return list;
}

TEST(GeluFusion, TakesTheErrorFunctionInAllOrders) {
  for (const auto* scaled : {"Div(x, r)", "Mul(x, i)", "Mul(i, x)"})
    for (const auto& ending : endings())
      expect_rewrite(gelu_fusion(), "default", graph(fmt::format("s = {} f = Erf(s) {}", scaled, ending)), erf_form, rounded);
}
TEST(GeluFusion, TakesTheTangentInAllOrders) {
  for (const auto* inner :
       {"q = Pow(x, three) m = Mul(c, q) n = Add(x, m) s = Mul(k, n)",            // torch.onnx, gelu_new
        "q = Pow(x, three) m = Mul(q, c) n = Add(x, m) s = Mul(n, k)",            // by hand
        "p = Mul(x, x) q = Mul(x, p) m = Mul(c, q) n = Add(x, m) s = Mul(k, n)",  // TorchScript
        "p = Mul(x, x) q = Mul(p, x) m = Mul(c, q) n = Add(m, x) s = Mul(k, n)", "p = Mul(x, c) q = Mul(p, x) m = Mul(q, x) n = Add(x, m) s = Mul(n, k)",
        "p = Mul(x, x) q = Mul(c, p) m = Mul(q, x) n = Add(x, m) s = Mul(n, k)",
        "u = Mul(x, k) p = Mul(x, c) q = Mul(p, x) n = Add(q, one) s = Mul(u, n)",  // gelu_fast
        "u = Mul(x, k) p = Mul(x, x) q = Mul(p, c) n = Add(one, q) s = Mul(n, u)", "p = Pow(x, two) q = Mul(c, p) n = Add(one, q) u = Mul(x, n) s = Mul(k, u)",
        "p = Mul(x, x) q = Mul(c, p) n = Add(one, q) u = Mul(k, n) s = Mul(x, u)"})
    for (const auto& ending : endings()) expect_rewrite(gelu_fusion(), "default", graph(fmt::format("{} f = Tanh(s) {}", inner, ending)), tanh_form, rounded);
}
// The constants as half precision holds them.
TEST(GeluFusion, TakesHalfPrecision) {
  expect_rewrite(gelu_fusion(), "cuda",
                 "g (float16[B,8] x) => (float16[B,8] y) <float16 r = {1.4140625}, float16 one = {1.0}, float16 half = {0.5}>"
                 " { s = Div(x, r) f = Erf(s) a = Add(f, one) p = Mul(x, a) y = Mul(p, half) }",
                 "Gelu", {.trials = {.tolerance = 1e-3}});
}

TEST(GeluFusion, NotBelowTheOperatorsOpset) {
  expect_unchanged(gelu_fusion(), "default", graph("s = Div(x, r) f = Erf(s) " + endings()[0]), "", {.opset = 19});
}
TEST(GeluFusion, NotOtherConstants) {
  const auto unchanged = [](const std::string& nodes, const char* reason) { expect_unchanged(gelu_fusion(), "default", graph(nodes), reason); };
  unchanged("s = Div(x, two) f = Erf(s) a = Add(f, one) p = Mul(x, a) y = Mul(p, half)", "expected the constant 1.414");
  unchanged("s = Div(x, r) f = Erf(s) a = Add(f, half) p = Mul(x, a) y = Mul(p, half)", "expected the constant 1");
  unchanged("s = Div(x, r) f = Erf(s) a = Add(f, one) p = Mul(x, a) y = Mul(p, two)", "expected the constant 0.5");
  unchanged("q = Pow(x, two) m = Mul(c, q) n = Add(x, m) s = Mul(k, n) f = Tanh(s) a = Add(f, one) p = Mul(x, a) y = Mul(p, half)", "expected the constant 3");
}
TEST(GeluFusion, NotOfAnotherValue) {
  expect_unchanged(gelu_fusion(), "default",
                   "g (float[B,8] x, float[B,8] z) => (float[B,8] y) <float r = {1.4142135}, float one = {1}, float half = {0.5}>"
                   " { s = Div(z, r) f = Erf(s) a = Add(f, one) p = Mul(x, a) y = Mul(p, half) }",
                   "'x' is two different values");
}
TEST(GeluFusion, NotPartsThatOthersRead) {
  const std::string nodes =
      "<float r = {1.4142135}, float one = {1}, float half = {0.5}> { s = Div(x, r) f = Erf(s) a = Add(f, one) p = Mul(x, a) y = Mul(p, half)";
  expect_unchanged(gelu_fusion(), "default", "g (float[B,8] x) => (float[B,8] y, float[B,8] z)" + nodes + " z = Neg(f) }", "f has another user");
  expect_unchanged(gelu_fusion(), "default", "g (float[B,8] x) => (float[B,8] y, float[B,8] p)" + nodes + " }", "p is a graph output");
}
TEST(GeluFusion, NotQuickGelu) { expect_unchanged(gelu_fusion(), "cpu", graph("s = Mul(x, t) f = Sigmoid(s) y = Mul(x, f)"), "Erf"); }

}  // namespace
}  // namespace mobius::rules
