//   x * cos + concat(-x₂, x₁) * sin                     ⟶   RotaryEmbedding(x, cos', sin')          x₁, x₂: halves of x
//   concat(x₁ * cos - x₂ * sin, x₂ * cos + x₁ * sin)    ⟶   the same
//   x * cos + pairs(-x₂, x₁) * sin                      ⟶   RotaryEmbedding(x, cos', sin'; interleaved)   even and odd elements
//   concat(RotaryEmbedding(x₁), x₂)                     ⟶   RotaryEmbedding(x; rotary_embedding_dim)
//
// The operator's tables [batch, length, size / 2] hold every angle once. What exporters multiply with holds it twice, and is broadcast over
// heads: it is followed back to where it was doubled, and what was done to it since (cosines, a factor, a cast) is done to the half.
#include <fmt/format.h>

#include <algorithm>

#include "mobius/rules/attention_form.hpp"
#include "mobius/rules/conditions.hpp"
#include "mobius/rules/elementwise.hpp"
#include "mobius/rules/heads.hpp"
#include "mobius/rules/rules.hpp"

namespace mobius::rules {
using namespace rewrite;

namespace {

using ops::History;
using ops::Layout;
using Why = std::optional<std::string>;

const AttrVar<std::int64_t> axis{"axis"}, axis_2{"axis_2"}, axis_3{"axis_3"};

// ── parts of the last axis ───────────────────────────────────────────────────────────────────────────────────────────────

struct Part {
  ir::Value* whole = nullptr;
  std::int64_t first = 0, count = 0, step = 1;
  bool operator==(const Part&) const = default;
};

std::optional<Part> part_by_slice(const ir::Node& n) {
  auto* x = n.input(0);
  const auto start = single_integer(n.input(1)), end = single_integer(n.input(2)), along = single_integer(n.input(3)),
             step = n.input(4) ? single_integer(n.input(4)) : 1;
  const auto size = last_size(x);
  if (!start || !end || !along || !step || !size || *step < 1 || !is_last_axis_of(*along, x)) return std::nullopt;
  const auto within = [&](std::int64_t i) { return std::clamp<std::int64_t>(i < 0 ? i + *size : i, 0, *size); };
  return Part{x, within(*start), (within(*end) - within(*start) + *step - 1) / *step, *step};
}

std::optional<Part> part_by_split(const ir::Node& n, std::size_t which) {
  if (!is_last_axis_of(n.int_attribute("axis", 0), n.input(0))) return std::nullopt;
  Part part{n.input(0)};
  for (std::size_t i = 0; i <= which; ++i) {
    const auto size = n.output(i) ? last_size(n.output(i)) : std::nullopt;
    if (!size) return std::nullopt;
    part.first += part.count;
    part.count = *size;
  }
  return part;
}

std::optional<Part> part_of(const ir::Value* v) {
  const auto* n = v->producer();
  if (n && n->is("Slice")) return part_by_slice(*n);
  if (n && n->is("Split")) return part_by_split(*n, v->index());
  return std::nullopt;
}

enum class Kind { halves, pairs };

// Whether the two are what is turned into each other.
bool are_partners(const ir::Value* first, const ir::Value* second, Kind kind) {
  const auto a = part_of(first), b = part_of(second);
  const auto size = a ? last_size(a->whole) : std::nullopt;
  if (!b || !size || *size % 2 != 0) return false;
  const auto half = *size / 2;
  if (kind == Kind::pairs) return *a == Part{a->whole, 0, half, 2} && *b == Part{a->whole, 1, half, 2};
  return *a == Part{a->whole, 0, half, 1} && *b == Part{a->whole, half, half, 1};
}

// ── tables ───────────────────────────────────────────────────────────────────────────────────────────────────────────────

// How often a row of the operand holds each angle, and in what order.
enum class Doubled { no, in_halves, in_pairs };

// A table as it stands beside x [B, heads, L, size] or [B, L, heads, size], and where its angles are single.
struct Table {
  History history;
  std::size_t source;
};

// [L, width] or [B, L, width] as it is broadcast to x.
std::optional<Layout> beside(const ir::Value& source, HeadForm form, Doubled doubled) {
  const auto& s = *source.shape();
  const auto rank = static_cast<std::int64_t>(s.size());
  std::optional<Layout> layout = Layout(s);
  if (doubled == Doubled::in_halves) layout = layout->repeated(-1, 2);
  if (doubled == Doubled::in_pairs) {
    auto pairs = s;
    pairs.push_back(2);
    layout = layout->with_axes({rank});
    if (layout) layout = layout->expanded(pairs);
    pairs.pop_back();
    pairs.back() = pairs.back() * ir::Dim(2);
    if (layout) layout = layout->reshaped(pairs);
  }
  if (layout && form == HeadForm::by_token) layout = layout->with_axes({rank - 1});
  return layout && rank == 3 && form == HeadForm::by_head ? layout->with_axes({1}) : layout;
}

std::optional<Table> table_of(ir::Value* operand, const ir::Value* x, HeadForm form, Doubled doubled) {
  if (!operand->rank() || *operand->rank() > 4) return std::nullopt;
  const auto batch = (*x->shape())[0], length = (*x->shape())[form == HeadForm::by_head ? 2 : 1];
  Table table{History(operand, elementwise_operand), 0};
  const auto& h = table.history;
  // Axes of size 1 in front are what broadcasting adds.
  const auto whole = [&](std::size_t i) {
    auto layout = h.layout(i);
    std::vector<std::int64_t> missing;
    for (auto k = *operand->rank(); k < 4; ++k) missing.push_back(static_cast<std::int64_t>(missing.size()));
    return layout ? layout->with_axes(missing) : layout;
  };
  for (std::size_t i = 0; i < h.size(); ++i) {
    const auto rank = h[i]->rank().value_or(0);
    if (rank != 2 && rank != 3) continue;
    const auto& s = *h[i]->shape();
    if (!(s[rank - 2] == length) || (rank == 3 && !(s[0] == batch) && !(s[0] == ir::Dim(1)))) continue;
    auto wanted = beside(*h[i], form, doubled);
    for (auto k = wanted ? wanted->rank() : 4; k < 4; ++k) wanted = wanted->with_axes({0});
    if (!wanted || whole(i) != wanted) continue;
    table.source = i;
    return table;
  }
  return std::nullopt;
}

// [B, L, width]: what was done to the operand's angles, done to the single ones.
ir::Value* single_table(Inserter& at, const Table& table, ir::Value* x) {
  auto* v = replayed(at, table.history, table.source, table.history[table.source]);
  if (v->rank() == 2u) v = at.shared({"", "Unsqueeze"}, {v, at.integers({0})});
  if ((*v->shape())[0] == (*x->shape())[0]) return v;
  auto* rows = at.shared({"", "Concat"}, {shared_dimension(at, x, 0), at.integers({1, 1})}, {{"axis", std::int64_t{0}}});
  return at.shared({"", "Expand"}, {v, rows});
}

// ── rules ────────────────────────────────────────────────────────────────────────────────────────────────────────────────

struct Rotation {
  Table cos, sin;
  HeadForm form;
};

// The operands x [B, heads, L, size] (or by tokens), cos and sin of a rotation; or why it is none.
std::variant<Rotation, std::string> rotation_of(ir::Value* x, ir::Value* cos, ir::Value* sin, Doubled doubled) {
  if (x->rank() != 4u || !last_size(x)) return fmt::format("{} is {}, expected [batch, heads, length, size]", x->name, shape_text(x));
  for (const auto form : {HeadForm::by_head, HeadForm::by_token}) {
    if (form == HeadForm::by_token && !(*x->shape())[2].is_static()) continue;
    auto c = table_of(cos, x, form, doubled), s = table_of(sin, x, form, doubled);
    if (c && s) return Rotation{std::move(*c), std::move(*s), form};
  }
  return fmt::format("{} and {} are no tables with each angle {}", cos->name, sin->name,
                     doubled == Doubled::no          ? "once"
                     : doubled == Doubled::in_halves ? "twice, in halves"
                                                     : "twice, in pairs");
}

ir::Value* rotated(Inserter& at, ir::Value* x, const Rotation& r, Kind kind) {
  ir::Attributes attributes;
  if (kind == Kind::pairs) attributes["interleaved"] = std::int64_t{1};
  auto *cos = single_table(at, r.cos, x), *sin = single_table(at, r.sin, x);
  if (r.form == HeadForm::by_head) return at.add({"", "RotaryEmbedding"}, {x, cos, sin}, attributes)[0];
  // By tokens: over [B, L, heads * size].
  const auto heads = (*x->shape())[2].value(), size = (*x->shape())[3].value();
  attributes["num_heads"] = heads;
  auto* y = at.add({"", "RotaryEmbedding"}, {flat(at, {x, HeadForm::by_token, heads, size}), cos, sin}, attributes)[0];
  return at.add({"", "Reshape"}, {y, at.integers({0, 0, heads, size})})[0];
}

Rule rotation_rule(const Pat& root, const Pat& first, const Pat& second, const Pat& cos, const Pat& sin, Kind kind, Doubled doubled, const Pat& whole) {
  const auto x_of = [=](const Match& m) { return whole.node ? m[whole] : part_of(m[first])->whole; };
  return {.name = "RotaryFusion",
          .from = {root},
          .where = {same_dtype(cos, root), same_dtype(sin, root), {[=](const Match& m, const Target&) -> Why {
                      if (!are_partners(m[first], m[second], kind) || part_of(m[first])->whole != x_of(m))
                        return fmt::format("{} and {} are not the {} of one tensor", m[first]->name, m[second]->name,
                                           kind == Kind::halves ? "halves" : "even and odd elements");
                      const auto found = rotation_of(x_of(m), m[cos], m[sin], doubled);
                      const auto* why = std::get_if<std::string>(&found);
                      return why ? Why(*why) : std::nullopt;
                    }}},
          .when = writes_rotary,
          .make = [=](Inserter& at, const Match& m, const Target&) {
            auto* x = x_of(m);
            return std::vector{rotated(at, x, std::get<Rotation>(rotation_of(x, m[cos], m[sin], doubled)), kind)};
          }};
}

Pat joined(const Pat& a, const Pat& b, const AttrVar<std::int64_t>& along) { return ops::one<Pat>({"", "Concat"}, {a, b}, {{"axis", along}}); }

// x * cos + turned(x) * sin
std::vector<Rule> sums() {
  const auto [x, cos, sin, first, second, shape, axes] = vars("x", "cos", "sin", "first", "second", "shape", "axes");
  std::vector<Rule> rules;
  auto halves = rotation_rule(x * cos + joined(-second, first, axis) * sin, first, second, cos, sin, Kind::halves, Doubled::in_halves, x);
  halves.where.push_back(is_last_axis(axis, x));
  rules.push_back(std::move(halves));

  const auto pairs = joined(unsqueeze(-second, axes), unsqueeze(first, axes), axis);
  const auto turned = ops::one<Pat>({"", "Reshape"}, {pairs, shape}, {{"allowzero", axis_2}});
  auto interleaved = rotation_rule(x * cos + turned * sin, first, second, cos, sin, Kind::pairs, Doubled::in_pairs, x);
  interleaved.where.push_back(is_last_axis(axis, pairs));
  interleaved.where.push_back(same_shape(turned, x));
  interleaved.where.push_back(require("the pairs lie along another axis",
                                      [=](const Match& m) { return single_integer(m[axes]) && is_last_axis_of(*single_integer(m[axes]), m[pairs]); }));
  rules.push_back(std::move(interleaved));
  return rules;
}

// concat(x₁ * cos - x₂ * sin, x₂ * cos + x₁ * sin)
Rule parts() {
  const auto [cos, sin, first, second] = vars("cos", "sin", "first", "second");
  const auto y = joined(first * cos - second * sin, second * cos + first * sin, axis);
  auto rule = rotation_rule(y, first, second, cos, sin, Kind::halves, Doubled::no, {});
  rule.where.push_back(is_last_axis(axis, y));
  return rule;
}

// ── what is rotated in part, or lies by heads ────────────────────────────────────────────────────────────────────────────

Pat::AttrArgs any_attributes() {
  return {
      {"interleaved", attr<std::int64_t>("interleaved")}, {"rotary_embedding_dim", attr<std::int64_t>("rotary")}, {"num_heads", attr<std::int64_t>("heads")}};
}

Rule rotated_in_part(bool with_positions) {
  const auto [first, rest, cos, sin, positions] = vars("first", "rest", "cos", "sin", "positions");
  const auto rotation = rotary_embedding(first, cos, sin, with_positions ? Pat::Arg(positions) : Pat::Arg(), any_attributes());
  const auto y = joined(rotation, rest, axis);
  return {.name = "RotaryInPart",
          .from = {y},
          .where = {is_last_axis(axis, y), has_rank(first, 4), {[=](const Match& m, const Target&) -> Why {
                      const auto a = part_of(m[first]), b = part_of(m[rest]);
                      const auto size = a ? last_size(a->whole) : std::nullopt;
                      if (size && b && *a == Part{a->whole, 0, a->count, 1} && *b == Part{a->whole, a->count, *size - a->count, 1} &&
                          (*m[first]->shape())[1].is_static() && m.attribute(AttrVar<std::int64_t>{"rotary"}) == 0)
                        return std::nullopt;
                      return fmt::format("{} and {} are not what one tensor begins and ends with", m[first]->name, m[rest]->name);
                    }}},
          .when = writes_rotary,
          .make = [=](Inserter& at, const Match& m, const Target&) {
            const auto part = *part_of(m[first]);
            ir::Attributes attributes{{"rotary_embedding_dim", part.count}, {"num_heads", (*m[first]->shape())[1].value()}};
            if (const auto kind = *m.attribute(AttrVar<std::int64_t>{"interleaved"}); kind != 0) attributes["interleaved"] = kind;
            std::vector<ir::Value*> operands{part.whole, m[cos], m[sin]};
            if (with_positions) operands.push_back(m[positions]);
            return at.add({"", "RotaryEmbedding"}, std::move(operands), std::move(attributes));
          }};
}

// Over [B, L, heads * size], where x was made from that.
Rule rotated_flat() {
  const auto y = any_form({"", "RotaryEmbedding"}, 1)[0];
  const auto source_of = [=](const Match& m) -> std::optional<HeadSource> {
    auto* x = m.node(y)->input(0);
    if (x->rank() != 4u || !(*x->shape())[1].is_static() || !(*x->shape())[3].is_static()) return std::nullopt;
    auto source = find_source(x, {.heads = (*x->shape())[1].value(), .size = (*x->shape())[3].value()});
    return source && source->form != HeadForm::by_head ? source : std::nullopt;
  };
  return {.name = "RotaryLayout",
          .from = {y},
          .where = {has_rank(y, 4), require("its operand was not made from one by tokens", [=](const Match& m) { return source_of(m).has_value(); })},
          .when = writes_rotary,
          .make = [=](Inserter& at, const Match& m, const Target&) {
            const auto source = *source_of(m);
            auto operands = m.node(y)->inputs();
            operands[0] = flat(at, source);
            auto attributes = m.node(y)->attributes;
            attributes["num_heads"] = source.heads;
            auto* turned = at.add({"", "RotaryEmbedding"}, std::move(operands), std::move(attributes))[0];
            return std::vector{by_head(at, turned, source.heads, source.size)};
          }};
}

}  // namespace

RuleGroup rotary_fusion() {
  RuleGroup group{"RotaryFusion", rotary_of_onnx_runtime(), undone_moves()};
  std::ranges::move(sums(), std::back_inserter(group.rules));
  group.rules.push_back(parts());
  group.rules.push_back(rotated_in_part(false));
  group.rules.push_back(rotated_in_part(true));
  std::ranges::move(cuts_before_turns(), std::back_inserter(group.rules));
  group.rules.push_back(rotated_flat());
  return group;
}

}  // namespace mobius::rules
