//   Reshape(Gemm(Reshape(x), w, b))   ⟶   MatMul(x, w) + b          also w as [out, in]; b may be absent
//
// Exporters that have only a product of matrices flatten the rows of x and restore them behind it. What looks for the product of a
// Linear and its bias, packed projections and activations with a bias, wants them in one form. A Gemm between matrices stays.
#include <fmt/core.h>

#include <algorithm>

#include "mobius/rules/conditions.hpp"
#include "mobius/rules/rules.hpp"

namespace mobius::rules {
using namespace rewrite;

namespace {

Pat reshaped(const Pat& x, const std::string& name) {
  const auto [shape] = vars(name);
  return ops::one<Pat>({"", "Reshape"}, {x, shape}, {{"allowzero", attr<std::int64_t>("allowzero of " + name)}});
}

// y is x with another last axis; rows is x with all axes but the last as one.
Condition restores_rows(const Pat& x, const Pat& rows, const Pat& y) {
  return {[=](const Match& m, const Target&) -> std::optional<std::string> {
    const auto &whole = m[x]->shape(), &flat = m[rows]->shape(), &result = m[y]->shape();
    const bool known = whole && flat && result && !whole->empty() && flat->size() == 2 && whole->size() == result->size();
    if (known && (*flat)[1] == whole->back() && std::equal(whole->begin(), whole->end() - 1, result->begin())) return std::nullopt;
    return fmt::format("{} becomes {} and then {}", shape_text(m[x]), shape_text(m[rows]), shape_text(m[y]));
  }};
}

Rule rule(const char* name, bool transposed, bool has_bias) {
  const auto [x, w, b] = vars("x", "w", "b");
  const auto rows = reshaped(x, "flat");
  const auto y = reshaped(gemm(rows, w, has_bias ? Pat::Arg(b) : Pat::Arg(), {{"transB", transposed ? 1 : 0}}), "full");
  const auto product = matmul(x, transposed ? transpose(w, {1, 0}) : w);
  Rule rule{.name = name, .from = {y}, .to = {has_bias ? product + b : product}, .where = {restores_rows(x, rows, y)}};
  if (transposed) rule.where.push_back(is_constant(w));  // then the Transpose becomes part of the product or of the weight
  if (has_bias) rule.where.push_back(is_channel_vector(b, y));
  return rule;
}

}  // namespace

RuleGroup linear() {
  return {"Linear",
          {rule("Linear", false, true), rule("LinearNoBias", false, false), rule("LinearTransposed", true, true), rule("LinearTransposedNoBias", true, false)}};
}

}  // namespace mobius::rules
