//   GroupQueryAttention(RotaryEmbedding(q), RotaryEmbedding(k), ...)   ⟶   GroupQueryAttention(q, k, ..., cos, sin; do_rotary)
//
// The kernel numbers the tokens of a row itself, so positions must do just that. It wants a table of all positions. Where a graph computes
// the cosines of the positions at hand instead, as exporters write it, a table of as many positions as there are slots is computed from
// the same frequencies, once for all layers: no token has a position beyond it.
#include <fmt/format.h>

#include <array>

#include "mobius/rules/attention_mask.hpp"
#include "mobius/rules/elementwise.hpp"
#include "mobius/rules/gqa.hpp"

namespace mobius::rules {
using namespace rewrite;

namespace {

using ir::DataType;
using ops::History;
using ops::Layout;
using Why = std::optional<std::string>;

AttrArgs<Pat> any_rotation(std::string_view whose) {
  const auto name = [&](const char* what) { return std::string(whose) + what; };
  return {{"interleaved", attr<std::int64_t>("interleaved")},
          {"rotary_embedding_dim", attr<std::int64_t>("rotary_embedding_dim")},
          {"num_heads", attr<std::int64_t>(name("_heads"))}};
}

// ── may the kernel do it? ────────────────────────────────────────────────────────────────────────────────────────────────

Why sizes_do_not_fit(const ir::Node& gqa, std::optional<std::int64_t> columns, std::int64_t rotary_dim, const Target& t) {
  const auto size = head_size(gqa.input(3));
  if (!size || !columns) return "the rope table is not [positions, columns]";
  if (*size % t.ep.gqa_rotary_head_size_multiple != 0)
    return fmt::format("rope inside takes head sizes that are multiples of {}, not {}", t.ep.gqa_rotary_head_size_multiple, *size);
  if (*columns % t.ep.gqa_rotary_table_multiple != 0)
    return fmt::format("the rope table has {} columns, no multiple of {}", *columns, t.ep.gqa_rotary_table_multiple);
  if (2 * *columns > *size || (rotary_dim != 0 && rotary_dim != 2 * *columns)) return "the rope table does not fit the rotated channels";
  if (gqa.input(10)) return "with any padding each token's own position counts";
  return std::nullopt;
}

Why positions_do_not_fit(const ir::Node& gqa, ir::Value* positions, const Target& t) {
  const auto why = t.remembered<Why>(positions, [&] { return positions_skip(positions, gqa); });
  return why ? Why("positions do not number the tokens: " + *why) : std::nullopt;
}

std::optional<std::int64_t> columns_of(const ir::Value* table, std::size_t rank) {
  return table->rank() == rank ? table->shape()->back().as_static() : std::nullopt;
}

// ── a table that is computed ─────────────────────────────────────────────────────────────────────────────────────────────

// Where the angles of cosines (or sines) are among what they were made from; nullopt: it is no plain function of angles.
std::optional<std::size_t> find_angles(const History& h, std::string_view function) {
  for (std::size_t i = 0; i + 1 < h.size(); ++i) {
    if (!h.node(i)->is(function)) continue;
    const auto &shape = h[0]->shape(), &before = h[i + 1]->shape();
    const bool in_place = shape && before && h.layout(i + 1) == Layout(*before).expanded(*shape);
    return in_place ? std::optional(i + 1) : std::nullopt;
  }
  return std::nullopt;
}

struct Angles {
  History cos, sin;
  std::size_t in_cos = 0, in_sin = 0;
  ir::Value* value() const { return cos[in_cos]; }
};

std::optional<Angles> angles_of(ir::Value* cos, ir::Value* sin) {
  Angles angles{History(cos, elementwise_operand), History(sin, elementwise_operand)};
  const auto in_cos = find_angles(angles.cos, "Cos"), in_sin = find_angles(angles.sin, "Sin");
  if (!in_cos || !in_sin) return std::nullopt;
  angles.in_cos = *in_cos, angles.in_sin = *in_sin;
  return angles.value() == angles.sin[*in_sin] ? std::optional(std::move(angles)) : std::nullopt;
}

using Frequencies = std::variant<std::vector<double>, std::string>;
const Frequencies& frequencies(ir::Value* angles, const ir::Node& gqa, const Target& t) {
  return t.remembered<Frequencies>(angles, [&] { return rope_frequencies(angles, gqa); });
}

Why angles_do_not_fit(const ir::Node& gqa, ir::Value* cos, ir::Value* sin, const Target& t) {
  const auto angles = angles_of(cos, sin);
  if (!angles) return cos->name + " and " + sin->name + " are not cosines and sines of the same angles";
  if (angles->value()->dtype() != DataType::float32) return "angles are not computed in float32";
  const auto* why = std::get_if<std::string>(&frequencies(angles->value(), gqa, t));
  return why ? Why("angles are not positions times frequencies: " + *why) : std::nullopt;
}

// [slots, columns], float32. The count of slots is int64 [1] before it is cast for the kernel.
ir::Value* angles_of_all_slots(Inserter& at, ir::Value* total, const std::vector<double>& rates) {
  const auto* cast = total->producer();
  auto* slots =
      cast && cast->is("Cast") && cast->input(0)->dtype() == DataType::int64 ? cast->input(0) : at.shared({"", "Cast"}, {total}, cast_to(DataType::int64));
  auto* count = slots->rank() == 1u ? at.shared({"", "Squeeze"}, {slots, at.integers({0})}) : slots;
  auto* zero = at.number(DataType::int64, 0);
  auto* steps = at.shared({"", "Range"}, {zero, count, at.number(DataType::int64, 1)});
  auto* positions = at.shared({"", "Cast"}, {steps}, cast_to(DataType::float32));
  auto* column = at.shared({"", "Unsqueeze"}, {positions, at.integers({1})});
  return at.shared({"", "Mul"},
                   {column, at.shared_constant(ir::make_tensor_of(DataType::float32, {static_cast<std::int64_t>(rates.size())}, rates), "inv_freq")});
}

// ── rules ────────────────────────────────────────────────────────────────────────────────────────────────────────────────

// The node with rope before it, and without.
struct Rotated {
  explicit Rotated(bool has_positions, bool has_sink = false) {
    const auto [v, past_key, past_value, seqlens] = vars("v", "past_key", "past_value", "seqlens_k");
    const auto at = has_positions ? Pat::Arg(positions) : Pat::Arg();
    const auto rotated_q = rotary_embedding(q, cos, sin, at, any_rotation("q")), rotated_k = rotary_embedding(k, cos, sin, at, any_rotation("k"));
    const auto operands = [&](std::vector<Pat::Arg> list) { return has_sink ? with_sink(std::move(list), sink) : list; };
    results = ms::group_query_attention<Pat>(operands({rotated_q, rotated_k, v, past_key, past_value, seqlens, total}), gqa_attributes(0));
    auto attributes = gqa_attributes(1);
    attributes.insert_or_assign("rotary_interleaved", attr<std::int64_t>("interleaved"));
    inside = ms::group_query_attention<Pat>(operands({q, k, v, past_key, past_value, seqlens, total, cos, sin}), attributes);
  }

  Pat q = Pat::variable("q"), k = Pat::variable("k"), cos = Pat::variable("cos"), sin = Pat::variable("sin"), positions = Pat::variable("positions"),
      total = Pat::variable("total"), sink = Pat::variable("sink");
  std::array<Pat, 3> results, inside;
  AttrVar<std::int64_t> rotary_dim{"rotary_embedding_dim"};
};

bool has_rope_inside(const Target& t) { return t.ep.supports_fused_rope && t.padding == Padding::right; }

Rule with_table(bool has_sink) {
  const Rotated r(true, has_sink);
  return {.name = "FuseRoPE",
          .from = {r.results.begin(), r.results.end()},
          .to = {r.inside.begin(), r.inside.end()},
          .where = {{[=](const Match& m, const Target& t) {
                      return sizes_do_not_fit(*m.node(r.results[0]), columns_of(m[r.cos], 2), *m.attribute(r.rotary_dim), t);
                    }},
                    {[=](const Match& m, const Target& t) { return positions_do_not_fit(*m.node(r.results[0]), m[r.positions], t); }}},
          .when = has_rope_inside};
}

Rule with_angles() {
  const Rotated r(false);
  return {.name = "FuseRoPEOfAngles",
          .from = {r.results.begin(), r.results.end()},
          .where = {{[=](const Match& m, const Target& t) {
                      return sizes_do_not_fit(*m.node(r.results[0]), columns_of(m[r.cos], 3), *m.attribute(r.rotary_dim), t);
                    }},
                    {[=](const Match& m, const Target& t) { return angles_do_not_fit(*m.node(r.results[0]), m[r.cos], m[r.sin], t); }}},
          .when = has_rope_inside,
          .make = [=](Inserter& at, const Match& m, const Target& t) {
            const auto& gqa = *m.node(r.results[0]);
            const auto angles = *angles_of(m[r.cos], m[r.sin]);
            auto* all = angles_of_all_slots(at, m[r.total], std::get<std::vector<double>>(frequencies(angles.value(), gqa, t)));
            auto operands = gqa.inputs();
            operands.resize(9);
            operands[0] = m[r.q], operands[1] = m[r.k];
            operands[7] = replayed(at, angles.cos, angles.in_cos, all), operands[8] = replayed(at, angles.sin, angles.in_sin, all);
            auto attributes = gqa.attributes;
            attributes["do_rotary"] = std::int64_t{1};
            if (const auto kind = *m.attribute(AttrVar<std::int64_t>{"interleaved"}); kind != 0) attributes["rotary_interleaved"] = kind;
            return at.add(gqa.op, std::move(operands), std::move(attributes), 3);
          }};
}

}  // namespace

std::vector<Rule> rope_inside_gqa() { return {with_table(false), with_table(true), with_angles()}; }

}  // namespace mobius::rules
