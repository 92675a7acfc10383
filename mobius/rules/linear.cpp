//   Reshape(Gemm(Reshape(x), w, b))   ⟶   MatMul(x, w) + b          also w as [out, in]; b may be absent
//
// Exporters that have only a product of matrices flatten the rows of x and restore them behind it. What looks for the product of a
// Linear and its bias, packed projections and activations with a bias, wants them in one form. Where the first Reshape also joins axes,
// as the heads of attention, [B, S, heads, dim] to [B·S, heads·dim], they are joined alone. A Gemm between matrices stays.
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

// The outer axes of y are x's own, and all others of x are the columns of `rows`.
bool restores_rows(const ir::Value* x, const ir::Value* rows, const ir::Value* y) {
  if (!x->shape() || !rows->shape() || !y->shape()) return false;
  const auto &whole = *x->shape(), &flat = *rows->shape(), &result = *y->shape();
  if (flat.size() != 2 || result.size() < 2 || whole.size() < result.size()) return false;
  const auto outer = static_cast<std::ptrdiff_t>(result.size()) - 1;
  ir::Dim inner = 1;
  for (auto d = whole.begin() + outer; d != whole.end(); ++d) inner = inner * *d;
  return inner == flat[1] && std::equal(whole.begin(), whole.begin() + outer, result.begin());
}

}  // namespace

RuleGroup linear() {
  const auto [x, w, b] = vars("x", "w", "b");
  const auto transposed = attr<std::int64_t>("transB");
  const auto rows = reshaped(x, "flat");
  const auto with_bias = gemm(rows, w, b, {{"transB", transposed}}), without = gemm(rows, w, {}, {{"transB", transposed}});
  const auto y = reshaped(with_bias | without, "full");

  const Condition rows_come_back = {[=](const Match& m, const Target&) -> std::optional<std::string> {
    if (restores_rows(m[x], m[rows], m[y])) return std::nullopt;
    return fmt::format("{} becomes {} and then {}", shape_text(m[x]), shape_text(m[rows]), shape_text(m[y]));
  }};
  const Condition bias_is_vector = {[=, is_vector = is_channel_vector(b, y)](const Match& m, const Target& t) -> std::optional<std::string> {
    return m.has(b) ? is_vector.why_not(m, t) : std::nullopt;
  }};
  // The Transpose of a constant becomes part of the product or of the weight.
  const auto layout_is_free = require("the transposed weight is not a constant", [=](const Match& m) { return *m.attribute(transposed) == 0 || m[w]->data(); });

  const auto make = [=](Inserter& at, const Match& m, const Target&) -> std::vector<ir::Value*> {
    auto* in = m[x];
    if (const auto rank = *m[y]->rank(); *in->rank() > rank) {
      std::vector<std::int64_t> joined(rank, 0);
      joined.back() = (*m[rows]->shape())[1].as_static().value_or(-1);  // no number is to be inferred where there are no rows
      in = at.add({"", "Reshape"}, {in, at.integers(joined)})[0];
    }
    auto* weight = m[w];
    if (*m.attribute(transposed) != 0) weight = at.add({"", "Transpose"}, {weight}, {{"perm", std::vector<std::int64_t>{1, 0}}})[0];
    const auto product = at.add({"", "MatMul"}, {in, weight});
    return m.has(b) ? at.add({"", "Add"}, {product[0], m[b]}) : product;
  };
  return {"Linear", {{.name = "Linear", .from = {y}, .where = {rows_come_back, layout_is_free, bias_is_vector}, .make = make}}};
}

}  // namespace mobius::rules
