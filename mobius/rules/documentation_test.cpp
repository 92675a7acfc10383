// The rule of docs/adding_a_rule.md, word by word (tests/test_docs.py compares): it fires, and is right.
#include "mobius/ops/vocabulary.hpp"
#include "mobius/rules/rule_test.hpp"
#include "mobius/rules/rules.hpp"

//   x · Sigmoid(1.702 · x)   ⟶   QuickGelu(x)
namespace mobius::rules {
using namespace rewrite;

RuleGroup quick_gelu() {
  const auto [x] = vars("x");
  const Rule rule = {.name = "QuickGelu",
                     .from = {x * sigmoid(x * 1.702)},
                     .to = {ops::one<Pat>({ops::microsoft, "QuickGelu"}, {x}, {{"alpha", 1.702f}})},
                     .when = [](const Target& t) { return t.ep.supports_fast_gelu && t.ep.gelu_dtypes.contains(t.dtype); }};
  return {"QuickGelu", {rule}};
}

}  // namespace mobius::rules

namespace mobius::rules {
namespace {

TEST(QuickGelu, Fires) {
  expect_rewrite(quick_gelu(), "cpu", "g (float[B,4] x) => (float[B,4] y) <float a = {1.702}> { m = Mul(x, a) s = Sigmoid(m) y = Mul(s, x) }", "QuickGelu");
}
TEST(QuickGelu, NotWithAnotherFactor) {
  expect_unchanged(quick_gelu(), "cpu", "g (float[B,4] x) => (float[B,4] y) <float a = {1.5}> { m = Mul(x, a) s = Sigmoid(m) y = Mul(x, s) }",
                   "expected the constant 1.702");
}

// Not one of the pipeline, so its examples must not stay among theirs.
TEST(QuickGelu, KeepsTheNumbersAndIsToldFromWrongOnes) {
  const RuleExamples examples("QuickGelu", {{.variables = {{"x", "B,S,8"}}}});
  const auto own = RuleExamples::all().extract("QuickGelu").mapped();
  const auto rule = quick_gelu().rules.front();
  EXPECT_EQ(disprove({rule}, own.examples), std::nullopt);
  for (const auto& what : mutations_of(rule, own.examples)) EXPECT_TRUE(is_noticed(mutant(rule, what), own.examples)) << what;
}

}  // namespace
}  // namespace mobius::rules
