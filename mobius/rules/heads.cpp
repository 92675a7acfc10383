// Heads found by layouts.
#include "mobius/rules/heads.hpp"

#include "mobius/rules/elementwise.hpp"

namespace mobius::rules {

using ops::History;
using ops::Layout;

namespace {

// The product of all scaling between ancestor i and the value.
double factor_since(const History& h, std::size_t i) {
  double factor = 1;
  while (i-- > 0)
    if (scaled_operand(*h.node(i))) factor *= factor_of(*h.node(i));
  return factor;
}

// [B, heads, L, D] of a value in this form, each head `repeats` times.
std::optional<Layout> by_head(const ir::Value& v, HeadForm form, std::int64_t heads, std::int64_t size, std::int64_t repeats) {
  const auto& s = *v.shape();
  std::optional<Layout> layout = Layout(s);
  if (form == HeadForm::flat) layout = layout->reshaped({s[0], s[1], heads, size});
  if (layout && form != HeadForm::by_head) layout = layout->transposed({0, 2, 1, 3});
  if (!layout || repeats == 1) return layout;
  const auto& length = form == HeadForm::by_head ? s[2] : s[1];
  layout = layout->with_axes({2});
  if (layout) layout = layout->expanded({s[0], heads, repeats, length, size});
  return layout ? layout->reshaped({s[0], heads * repeats, length, size}) : layout;
}

}  // namespace

std::optional<HeadSource> as_source(const History& h, std::size_t i, HeadForm form, const HeadsWanted& wanted) {
  auto* v = h[i];
  if (v->rank() != (form == HeadForm::flat ? 3u : 4u)) return std::nullopt;
  const auto& s = *v->shape();
  const auto& own = form == HeadForm::by_head ? s[1] : s[2];
  auto heads = own.as_static().value_or(0);
  if (form == HeadForm::flat) heads = heads % wanted.size == 0 ? heads / wanted.size : 0;
  if (heads <= 0 || wanted.heads % heads != 0 || (!wanted.grouped && heads != wanted.heads)) return std::nullopt;
  const auto layout = by_head(*v, form, heads, wanted.size, wanted.heads / heads);
  if (!layout || h.layout(i) != layout) return std::nullopt;
  return HeadSource{v, form, heads, wanted.size, factor_since(h, i)};
}

std::optional<HeadSource> find_source(ir::Value* value, const HeadsWanted& wanted) {
  const History h(value, wanted.scaled ? scaled_operand : History::Through{});
  for (std::size_t i = h.size(); i-- > 0;)
    for (const auto form : {HeadForm::flat, HeadForm::by_token, HeadForm::by_head})
      if (auto source = as_source(h, i, form, wanted)) return source;
  return std::nullopt;
}

// ── nodes ────────────────────────────────────────────────────────────────────────────────────────────────────────────────

namespace {
ir::Attributes swapped() { return {{"perm", std::vector<std::int64_t>{0, 2, 1, 3}}}; }
}  // namespace

ir::Value* flat(rewrite::Inserter& at, const HeadSource& s) {
  auto* v = s.value;
  if (s.form == HeadForm::flat) return v;
  if (s.form == HeadForm::by_head) v = at.shared({"", "Transpose"}, {v}, swapped());
  return at.shared({"", "Reshape"}, {v, at.integers({0, 0, s.heads * s.size})});
}

ir::Value* by_head(rewrite::Inserter& at, ir::Value* flat, std::int64_t heads, std::int64_t size) {
  auto* cut = at.add({"", "Reshape"}, {flat, at.integers({0, 0, heads, size})})[0];
  return at.add({"", "Transpose"}, {cut}, swapped())[0];
}

}  // namespace mobius::rules
