//   com.microsoft.RotaryEmbedding(x, positions, cos, sin)   ⟶   RotaryEmbedding(x, cos, sin, positions)
//
// Tables with a row for each token of the batch, taken in order, are tables without positions.
#include "mobius/ops/layout.hpp"
#include "mobius/rules/attention_form.hpp"
#include "mobius/rules/conditions.hpp"

namespace mobius::rules {
using namespace rewrite;

namespace {

using ops::History;
using ops::Layout;

const AttrVar<std::int64_t> own_heads{"own_heads"}, own_rotary{"own_rotary"}, own_kind{"own_kind"};

// With its positions last, and heads that tables may tell.
std::optional<ir::Attributes> standard_attributes(const Match& m, const ir::Value* x, const ir::Value* cos) {
  const auto columns = last_size(cos), width = last_size(x);
  const auto rotary = m.attribute(own_rotary).value_or(0);
  auto heads = m.attribute(own_heads).value_or(0);
  if (!columns || !width || (rotary != 0 && rotary != 2 * *columns)) return std::nullopt;
  if (x->rank() == 3u && heads == 0 && rotary == 0 && *width % (2 * *columns) == 0) heads = *width / (2 * *columns);
  if (x->rank() == 3u && (heads == 0 || *width % heads != 0)) return std::nullopt;
  ir::Attributes attributes;
  if (heads != 0) attributes["num_heads"] = heads;
  if (rotary != 0) attributes["rotary_embedding_dim"] = rotary;
  if (m.attribute(own_kind).value_or(0) != 0) attributes["interleaved"] = std::int64_t{1};
  return attributes;
}

// 0, 1, 2, ... in the shape of positions [B, L].
bool counts_all(ir::Value* positions) {
  const History h(positions);
  for (std::size_t i = 0; i < h.size(); ++i) {
    const auto* range = h.node(i);
    if (!range || !range->is("Range") || single_integer(range->input(0)) != 0 || single_integer(range->input(2)) != 1) continue;
    const auto &from = h[i]->shape(), &to = positions->shape();
    return from && to && h.layout(i) == Layout(*from).reshaped(*to);
  }
  return false;
}

// [B, L, columns], of which the table is the rows one after the other; nullptr: it is none.
ir::Value* by_rows(ir::Value* table, const ir::Value* positions) {
  const History h(table);
  for (std::size_t i = 1; i < h.size(); ++i) {
    if (h[i]->rank() != 3u || !table->shape() || positions->rank() != 2u) continue;
    const auto& s = *h[i]->shape();
    if (s[0] == (*positions->shape())[0] && s[1] == (*positions->shape())[1] && h.layout(i) == Layout(s).reshaped({s[0] * s[1], s[2]})) return h[i];
  }
  return nullptr;
}

}  // namespace

std::vector<Rule> rotary_of_onnx_runtime() {
  const auto [x, positions, cos, sin] = vars("x", "positions", "cos", "sin");
  const auto y = ops::one<Pat>({ops::microsoft, "RotaryEmbedding"}, {x, positions, cos, sin},
                               {{"num_heads", {own_heads, 0}},
                                {"rotary_embedding_dim", {own_rotary, 0}},
                                {"interleaved", {own_kind, 0}},
                                {"scale", {attr<float>("own_scale"), 1.0f}},
                                {"is_packed_batching", {attr<std::int64_t>("own_packing"), 0}}});
  return {
      {.name = "RotaryOfOnnxRuntime",
       .from = {y},
       .where = {has_rank(positions, 2), same_dtype(cos, x), same_dtype(sin, x),
                 require("it is scaled, or packed",
                         [](const Match& m) { return m.attribute(attr<float>("own_scale")) == 1.0f && m.attribute(attr<std::int64_t>("own_packing")) == 0; }),
                 require("its heads are not known", [=](const Match& m) { return standard_attributes(m, m[x], m[cos]).has_value(); })},
       .when = writes_rotary,
       .make = [=](Inserter& at, const Match& m, const Target&) {
         std::vector<ir::Value*> operands{m[x], m[cos], m[sin], m[positions]};
         auto *c = by_rows(m[cos], m[positions]), *s = by_rows(m[sin], m[positions]);
         if (c && s && counts_all(m[positions])) operands = {m[x], c, s};
         return at.add({"", "RotaryEmbedding"}, std::move(operands), *standard_attributes(m, m[x], m[cos]));
       }}};
}

}  // namespace mobius::rules
