//   softmax(c · q kᵀ + mask) v   ⟶   Attention(q, k, v, mask; scale = c)          on [batch, heads, length, size]
//
// In the forms that exporters write: the factor before or after the product, or a divisor; the scores capped; the mask added, or chosen by
// Where; the softmax in float32; NaN taken out behind it. What stands before the operands, their layout and their cache are for
// attention_layout.cpp.
//
// The guard against NaN may go: a query that sees nothing gets zeros from Attention, which is what the guard makes of it. Where the mask adds
// a finite number, such a query gets an average, with and without the guard.
//
// That average is exact where a number chosen by Where hides keys, in float32 and bfloat16: beside the lowest number every score is rounded away,
// and -∞ hides as it did. In float16 it is not: a score of 16 or more shows beside -65504, and kernels that add the mask in float32 see all of
// them. So there only -∞ is taken. A mask that was added is added as before, in the same type by the operator's definition; how much of a score
// is left beside it in float16 is up to the kernel, before and after.
#include <fmt/format.h>

#include <cmath>

#include "mobius/rules/attention_form.hpp"
#include "mobius/rules/conditions.hpp"
#include "mobius/rules/gqa.hpp"
#include "mobius/rules/rules.hpp"

namespace mobius::rules {
using namespace rewrite;

namespace {

using Why = std::optional<std::string>;

// What hides a key at least: its weight is 0 beside any score that a model computes.
constexpr double lowest_hiding = -1e4;

enum class MaskForm { none, added, hides, shows };

const AttrVar<float> factor{"factor"}, divisor{"divisor"}, cap{"cap"}, hidden{"hidden"};
const AttrVar<std::int64_t> axis{"axis"}, back{"back"};

// ── what the operator takes ──────────────────────────────────────────────────────────────────────────────────────────────

Why sizes_do_not_fit(const ir::Value* q, const ir::Value* kt, const ir::Value* v) {
  for (const auto* x : {q, kt, v})
    if (x->rank() != 4u) return fmt::format("{} is {}, expected [batch, heads, length, size]", x->name, shape_text(x));
  for (std::size_t i = 0; i < 2; ++i)
    for (const auto* x : {kt, v})
      if (!((*x->shape())[i] == (*q->shape())[i])) return fmt::format("{} and {} are {} and {}", q->name, x->name, shape_text(q), shape_text(x));
  return std::nullopt;
}

// It may be broadcast to the scores, but must not add to their shape. (More columns than keys could not be multiplied with the values.)
Why mask_does_not_fit(const ir::Value* mask, const ir::Value* q, const ir::Value* kt) {
  const ir::Shape scores{(*q->shape())[0], (*q->shape())[1], (*q->shape())[2], (*kt->shape())[3]};
  const auto& shape = mask->shape();
  bool fits = shape && shape->size() <= 4;
  for (std::size_t i = 0; fits && i + 1 < shape->size(); ++i) {
    const auto& d = (*shape)[i];
    fits = d == ir::Dim(1) || d == scores[4 - shape->size() + i];
  }
  return fits ? std::nullopt : Why(fmt::format("the mask {} is {}, the scores are {}", mask->name, shape_text(mask), ir::to_string(scores)));
}

// ── the rule ─────────────────────────────────────────────────────────────────────────────────────────────────────────────

// The mask as the operator takes it: numbers to add, and a row for each query. Where all keys of a query are hidden, their scores were all
// the same; what is added is so low that they still are.
ir::Value* mask_operand(Inserter& at, const Match& m, MaskForm form, ir::Value* mask, ir::Value* q, ir::Value* kt) {
  if (form == MaskForm::hides || form == MaskForm::shows) {
    const double score = static_cast<double>(*m.attribute(hidden));
    auto *nothing = at.number(q->dtype(), 0), *low = at.number(q->dtype(), std::isinf(score) ? score : lowest_number(q->dtype()));
    mask = form == MaskForm::hides ? at.shared({"", "Where"}, {mask, low, nothing}) : at.shared({"", "Where"}, {mask, nothing, low});
  }
  return with_query_rows(at, mask, q, 2, kt, 3);
}

Rule fuse(MaskForm form) {
  const auto [q, kt, v, mask] = vars("q", "kt", "v", "mask");
  const auto product = matmul(q, kt);
  const auto scaled = (product * factor) | (product / divisor) | product;
  const auto scores = (tanh(scaled / cap) * cap) | scaled;
  const auto masked = form == MaskForm::added   ? scores + mask
                      : form == MaskForm::hides ? where(mask, hidden, scores)
                      : form == MaskForm::shows ? where(mask, scores, hidden)
                                                : scores;
  const auto wide = cast(masked, ir::DataType::float32);
  const auto softmax = ops::one<Pat>({"", "Softmax"}, {wide | masked}, {{"axis", axis}});
  const auto weights = ops::one<Pat>({"", "Cast"}, {softmax}, {{"to", back}}) | softmax;
  const auto guarded = where(is_nan(weights), 0, weights) | weights;
  const auto y = matmul(guarded, v);

  Rule rule{.name = "AttentionFusion",
            .from = {y},
            .where = {is_last_axis(axis, softmax), same_dtype(q, v), same_dtype(y, q), {[=](const Match& m, const Target&) {
                        return sizes_do_not_fit(m[q], m[kt], m[v]);
                      }}},
            .when = writes_attention};
  if (form == MaskForm::added) rule.where.push_back(same_dtype(mask, q));
  if (form == MaskForm::hides || form == MaskForm::shows)
    rule.where.push_back(
        require("what hides a key is no low score", [](const Match& m) { return static_cast<double>(*m.attribute(hidden)) <= lowest_hiding; }));
  if (form == MaskForm::hides || form == MaskForm::shows)
    rule.where.push_back(require("in float16, scores show beside any finite number for queries that see nothing",
                                 [=](const Match& m) { return m[q]->dtype() != ir::DataType::float16 || std::isinf(*m.attribute(hidden)); }));
  if (form != MaskForm::none) rule.where.push_back({[=](const Match& m, const Target&) { return mask_does_not_fit(m[mask], m[q], m[kt]); }});
  // Runtimes take no other ones; 0 means the default.
  rule.where.push_back(require("the scale is not a positive number", [](const Match& m) {
    const auto is_usable = [](std::optional<float> x) { return !x || (*x > 0 && std::isfinite(*x) && std::isfinite(1 / *x)); };
    return is_usable(m.attribute(factor)) && is_usable(m.attribute(divisor)) && is_usable(m.attribute(cap));
  }));

  rule.make = [=](Inserter& at, const Match& m, const Target&) {
    auto* k = at.add({"", "Transpose"}, {m[kt]}, {{"perm", std::vector<std::int64_t>{0, 1, 3, 2}}})[0];
    std::vector<ir::Value*> operands{m[q], k, m[v]};
    if (form != MaskForm::none) operands.push_back(mask_operand(at, m, form, m[mask], m[q], m[kt]));
    ir::Attributes attributes{{"scale", m.attribute(factor).value_or(1 / m.attribute(divisor).value_or(1))}};
    if (const auto softcap = m.attribute(cap)) attributes["softcap"] = *softcap;
    if (m.has(wide) && m[q]->dtype() != ir::DataType::float32) attributes["softmax_precision"] = static_cast<std::int64_t>(ir::DataType::float32);
    return at.add({"", "Attention"}, std::move(operands), std::move(attributes));
  };
  return rule;
}

}  // namespace

RuleGroup attention_fusion() { return {"AttentionFusion", {fuse(MaskForm::hides), fuse(MaskForm::shows), fuse(MaskForm::added), fuse(MaskForm::none)}}; }

}  // namespace mobius::rules
