// What the rules that write Attention share. Internal to rules/.
#pragma once
#include "mobius/ep/versions.hpp"
#include "mobius/rules/gqa.hpp"

namespace mobius::rules {

// Where the target lacks the operators, they are still written on the way to one that has them inside; InlinePass expands those that stay. Below
// the lowest opset of a target they have no bodies.
inline bool leads_to_gqa(const rewrite::Target& t) { return t.opset >= lowest_opset && has_gqa(t); }
inline bool writes_rotary(const rewrite::Target& t) { return (t.opset >= 23 && t.ep.supports_rotary_embedding) || leads_to_gqa(t); }
inline bool writes_attention(const rewrite::Target& t) { return (t.opset >= 23 && t.ep.supports_attention) || leads_to_gqa(t); }

// The mask with a row for each query and a column for each key: runtimes broadcast batch and heads, but not these. The sizes are those of
// axis `i` of q and axis `j` of k.
inline ir::Value* with_query_rows(rewrite::Inserter& at, ir::Value* mask, ir::Value* q, std::size_t i, ir::Value* k, std::size_t j) {
  const auto& shape = *mask->shape();
  const auto rank = shape.size();
  const bool rows = rank >= 2 && shape[rank - 2] == (*q->shape())[i], columns = rank >= 1 && shape[rank - 1] == (*k->shape())[j];
  if (rows && columns) return mask;
  auto* one = at.integers({1});
  auto* target = at.shared({"", "Concat"}, {rows ? one : shared_dimension(at, q, i), columns ? one : shared_dimension(at, k, j)}, {{"axis", std::int64_t{0}}});
  return at.shared({"", "Expand"}, {mask, target});
}

// Transpose, Reshape and their like that end where others began: left where a rule changed what stood between them.
std::vector<rewrite::Rule> undone_moves();

// com.microsoft.RotaryEmbedding becomes the standard operator.
std::vector<rewrite::Rule> rotary_of_onnx_runtime();

// Split and Slice of heads that were turned to the front come before that.
std::vector<rewrite::Rule> cuts_before_turns();

}  // namespace mobius::rules
