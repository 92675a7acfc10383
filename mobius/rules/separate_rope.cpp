//   GroupQueryAttention(q, k, ..., cos, sin; do_rotary)   ⟶   GroupQueryAttention(RotaryEmbedding(q), RotaryEmbedding(k), ...)
//
// For kernels without rope inside. Where the kernel counts positions itself, they are written out: a prompt (as many new tokens as slots)
// begins at 0, later tokens behind those that the row holds.
#include "mobius/rules/gqa.hpp"
#include "mobius/rules/rules.hpp"

namespace mobius::rules {
using namespace rewrite;

namespace {

using ir::DataType;

// int64 [B, S]
ir::Value* positions(Inserter& at, ir::Value* q, ir::Value* seqlens, ir::Value* total) {
  const auto wide = cast_to(DataType::int64);
  auto* length = shared_dimension(at, q, 1);
  auto* tokens = at.shared({"", "Add"}, {at.shared({"", "Cast"}, {seqlens}, wide), at.integers({1})});
  auto* slots = at.shared({"", "Cast"}, {total}, wide);
  auto* is_prompt = at.shared({"", "Equal"}, {slots, length});
  auto* start = at.shared({"", "Where"}, {is_prompt, at.integers({0}), at.shared({"", "Sub"}, {tokens, length})});
  auto* count = at.shared({"", "Squeeze"}, {length, at.integers({0})});
  auto* steps = at.shared({"", "Range"}, {at.number(DataType::int64, 0), count, at.number(DataType::int64, 1)});
  return at.shared({"", "Add"}, {at.shared({"", "Unsqueeze"}, {start, at.integers({1})}), steps});
}

ir::Value* rotated(Inserter& at, const ir::Node& gqa, ir::Value* x, std::int64_t heads, ir::Value* positions, const Target& t) {
  auto *cos = gqa.input(7), *sin = gqa.input(8);
  ir::Attributes attributes{{"num_heads", heads}};
  if (const auto interleaved = gqa.int_attribute("rotary_interleaved", 0); interleaved != 0) attributes["interleaved"] = interleaved;
  const auto width = (*x->shape())[2].as_static(), columns = (*cos->shape())[1].as_static();
  if (*width / heads != 2 * *columns) attributes["rotary_embedding_dim"] = 2 * *columns;
  if (t.opset >= 23) return at.add({"", "RotaryEmbedding"}, {x, cos, sin, positions}, attributes)[0];
  return at.add({ops::microsoft, "RotaryEmbedding"}, {x, positions, cos, sin}, attributes)[0];
}

bool sizes_are_known(const ir::Node& gqa) {
  const auto is_known = [](const ir::Value* v, std::size_t rank) { return v->rank() == rank && v->shape()->back().is_static(); };
  return is_known(gqa.input(0), 3) && is_known(gqa.input(1), 3) && is_known(gqa.input(7), 2);
}

Rule separate(bool with_positions) {
  const auto [q, k, v, past_key, past_value, seqlens, total] = vars("q", "k", "v", "past_key", "past_value", "seqlens_k", "total");
  const auto [cos, sin, position_ids] = vars("cos", "sin", "position_ids");
  std::vector<Pat::Arg> operands{q, k, v, past_key, past_value, seqlens, total, cos, sin};
  if (with_positions) operands.push_back(position_ids);
  const auto results = ms::group_query_attention<Pat>(operands, gqa_attributes(1));
  const auto y = results[0];
  return {.name = "SeparateRoPE",
          .from = {results.begin(), results.end()},
          .where = {require("the sizes of heads or rope table are not known", [=](const Match& m) { return sizes_are_known(*m.node(y)); })},
          .when = [](const Target& t) { return !t.ep.supports_fused_rope; },
          .make =
              [=](Inserter& at, const Match& m, const Target& t) {
                const auto& gqa = *m.node(y);
                auto* at_positions = with_positions ? m[position_ids] : positions(at, m[q], m[seqlens], m[total]);
                auto* new_q = rotated(at, gqa, m[q], gqa.int_attribute("num_heads", 0), at_positions, t);
                auto* new_k = rotated(at, gqa, m[k], gqa.int_attribute("kv_num_heads", 0), at_positions, t);
                auto attributes = gqa.attributes;
                attributes.erase("do_rotary");
                attributes.erase("rotary_interleaved");
                return at.add(gqa.op, {new_q, new_k, m[v], m[past_key], m[past_value], m[seqlens], m[total]}, std::move(attributes), 3);
              }};
}

}  // namespace

RuleGroup separate_rope() { return {"SeparateRoPE", {separate(false), separate(true)}}; }

}  // namespace mobius::rules
