//   x · ½(1 + erf(x/√2))                           ⟶   Gelu(x)
//   x · ½(1 + tanh(√(2/π)·(x + 0.044715·x³)))      ⟶   Gelu(x; approximate = tanh)
//
// In the orders that exporters and people write: the half before, behind or inside; the cube as a power or a product; x taken out of it.
// x · σ(1.702·x) is neither: it stays, and runtimes that have a QuickGelu make it themselves.
#include "mobius/rules/conditions.hpp"
#include "mobius/rules/rules.hpp"

namespace mobius::rules {
using namespace rewrite;

namespace {

constexpr double root_of_two = 1.4142135623730951, root_of_two_over_pi = 0.7978845608028654, cubic = 0.044715;

bool has_op(const Target& t) { return t.opset >= 20; }

// x · ½ · (1 + f)
Pat half_of_product(const Pat& x, const Pat& f) {
  const auto twice = f + 1;
  return (x * twice) * 0.5 | (x * twice) / 2 | (x * 0.5) * twice | (x / 2) * twice | x * (twice * 0.5) | x * (twice / 2) | x * (f * 0.5 + 0.5);
}

Rule erf_form() {
  const auto [x] = vars("x");
  const auto scaled = x / root_of_two | x * (1 / root_of_two);
  return {.name = "Gelu", .from = {half_of_product(x, erf(scaled))}, .to = {gelu(x)}, .where = {is_one_of(x, any_float)}, .when = has_op};
}

Rule tanh_form() {
  const auto [x] = vars("x");
  const auto square = pow(x, 2) | x * x;
  const auto cube = pow(x, 3) | square * x;
  const auto cubic_term = cube * cubic | (square * cubic) * x | ((x * cubic) * x) * x | (x * cubic) * square;
  // x taken out: 1 + 0.044715·x²
  const auto factor = (square * cubic | (x * cubic) * x) + 1;
  const auto scaled =
      (x + cubic_term) * root_of_two_over_pi | (x * root_of_two_over_pi) * factor | (x * factor) * root_of_two_over_pi | x * (factor * root_of_two_over_pi);
  return {.name = "GeluTanh", .from = {half_of_product(x, tanh(scaled))}, .to = {gelu_tanh(x)}, .where = {is_one_of(x, any_float)}, .when = has_op};
}

}  // namespace

RuleGroup gelu_fusion() { return {"GeluFusion", {erf_form(), tanh_form()}}; }

}  // namespace mobius::rules
