// Function bodies of ai.onnx Attention and RotaryEmbedding, and the blocks that the com.microsoft ones share with them.
#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "mobius/ops/functions_body.hpp"

namespace mobius::ops {

using ir::DataType;
using ir::Value;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

Value* scaled(GraphBuilder& b, const AttentionBody& a) {
  Value* q = a.q;
  const double scale = a.scale == 0 && a.width > 0 ? 1 / std::sqrt(static_cast<double>(a.width)) : a.scale;
  if (scale != 0) return b.mul(q, b.scalar_like(scale, q));
  return b.div(q, b.op("Sqrt", {b.cast_like(b.last_dim_of(q), q)}));
}

// Attention takes one mask, bool or float, with all rows spelled out.
Value* one_mask(GraphBuilder& b, const AttentionBody& a) {
  if (!a.allowed && !a.bias) return nullptr;
  Value* mask = a.bias ? b.cast_like(a.bias, a.q) : a.allowed;
  if (a.bias && a.allowed) mask = b.where(a.allowed, mask, b.scalar_like(-infinity, a.q));
  Value* rows = b.concat({b.dim_of(a.q, 2), b.dim_of(a.k, 2)}, 0);
  return b.op("Expand", {mask, b.concat({b.ints({1, 1}), rows}, 0)});
}

}  // namespace

AttentionBodyResult attention_body(GraphBuilder& b, const AttentionBody& a, bool as_primitives) {
  if (!as_primitives && b.opset() >= 23 && !a.sink) {
    ir::Attributes attributes;
    if (a.scale != 0) attributes.emplace("scale", static_cast<float>(a.scale));
    if (a.softcap != 0) attributes.emplace("softcap", static_cast<float>(a.softcap));
    return {b.op("Attention", {a.q, a.k, a.v, one_mask(b, a)}, std::move(attributes)), nullptr, nullptr, nullptr, nullptr};
  }
  // Query heads that share a key head stand side by side: [B, KV, N/KV, S, D] against [B, KV, 1, T, D].
  Value *q = scaled(b, a), *k = a.k, *v = a.v;
  const bool known_heads = a.heads > 0 && a.kv_heads > 0;
  if (a.grouped) {
    if (known_heads && a.width > 0) q = b.reshape(q, {0, a.kv_heads, a.heads / a.kv_heads, -1, a.width});
    else q = b.reshape(q, b.concat({b.dims_of(a.k, 0, 2), b.ints({-1}), b.dims_of(a.q, 2, 4)}, 0));
    k = b.unsqueeze(k, {2});
    v = b.unsqueeze(v, {2});
  }
  Value* grouped_scores = b.matmul(q, b.transpose(k, a.grouped ? std::vector<std::int64_t>{0, 1, 2, 4, 3} : std::vector<std::int64_t>{0, 1, 3, 2}));
  Value* scores = a.grouped ? b.reshape(grouped_scores, b.concat({b.dims_of(a.q, 0, 3), b.ints({-1})}, 0)) : grouped_scores;
  AttentionBodyResult result{nullptr, scores, scores, scores, nullptr};
  if (a.softcap != 0) {
    Value* cap = b.scalar_like(a.softcap, scores);
    result.capped = result.masked = b.mul(b.op("Tanh", {b.div(scores, cap)}), cap);
  }
  // A key that a float mask hides by -infinity is as hidden as one that is not allowed.
  Value* allowed = a.allowed;
  if (a.bias) {
    Value* bias = b.cast_like(a.bias, scores);
    result.masked = b.add(result.masked, bias);
    if (a.zero_hidden_rows) allowed = b.both(allowed, b.op("Greater", {bias, b.scalar_like(-infinity, scores)}));
  }
  if (a.allowed) result.masked = b.where(a.allowed, result.masked, b.scalar_like(-infinity, scores));

  Value* rows = a.softmax_dtype != 0 ? b.cast(result.masked, static_cast<DataType>(a.softmax_dtype)) : result.masked;
  Value* weights = nullptr;
  if (a.sink) {
    // The sink's column takes part in the softmax and is cut off again.
    Value* sink = b.cast_like(b.op("Expand", {a.sink, b.concat({b.dims_of(a.q, 0, 3), b.ints({1})}, 0)}), rows);
    weights = b.op("Softmax", {b.concat({rows, sink}, 3)}, {{"axis", std::int64_t{-1}}});
    weights = b.slice(weights, b.ints({0}), b.ints({-1}), 3);
  } else {
    weights = b.op("Softmax", {rows}, {{"axis", std::int64_t{-1}}});
  }
  if (a.softmax_dtype != 0) weights = b.cast_like(weights, scores);
  // In a row that sees nothing the softmax is no number, and each weight is hidden.
  if (allowed) weights = b.where(allowed, weights, b.scalar_like(0, scores));
  result.weights = weights;
  Value* grouped_weights = a.grouped ? b.reshape(weights, b.op("Shape", {grouped_scores})) : weights;
  Value* y = b.matmul(grouped_weights, v);
  if (a.grouped && known_heads && a.value_width > 0) y = b.reshape(y, {0, a.heads, -1, a.value_width});
  else if (a.grouped) y = b.reshape(y, b.concat({b.dims_of(a.q, 0, 3), b.ints({-1})}, 0));
  result.y = y;
  return result;
}

Value* rotary_body(GraphBuilder& b, Value* x, Value* cos, Value* sin, bool interleaved, bool partial) {
  Value *rotated = x, *rest = nullptr;
  if (partial) {
    Value* count = b.mul(b.last_dim_of(cos), b.ints({2}));
    rotated = b.slice(x, b.ints({0}), count, -1);
    rest = b.slice(x, count, b.everything(), -1);
  }
  Value *first = nullptr, *second = nullptr;
  if (interleaved) {
    Value* pairs = b.reshape(rotated, {0, 0, 0, -1, 2});
    first = b.squeeze(b.slice(pairs, b.ints({0}), b.ints({1}), 4), {4});
    second = b.squeeze(b.slice(pairs, b.ints({1}), b.ints({2}), 4), {4});
  } else {
    auto parts = b.halves(rotated, -1);
    first = parts[0];
    second = parts[1];
  }
  Value* real = b.sub(b.mul(first, cos), b.mul(second, sin));
  Value* imaginary = b.add(b.mul(second, cos), b.mul(first, sin));
  Value* y = interleaved ? b.reshape(b.concat({b.unsqueeze(real, {4}), b.unsqueeze(imaginary, {4})}, 4), {0, 0, 0, -1}) : b.concat({real, imaginary}, -1);
  return rest ? b.concat({y, rest}, -1) : y;
}

namespace {

// ── RotaryEmbedding ──────────────────────────────────────────────────────────────────────────────────────────────────────

// X, cos_cache, sin_cache, position_ids?
std::optional<ir::Function> rotary(BodyBuilder& b) {
  const auto& node = b.node();
  auto rank = b.rank(0);
  auto heads = node.int_attribute("num_heads", 0);
  if (!rank || (*rank != 4 && (*rank != 3 || heads <= 0))) return std::nullopt;
  bool flat = *rank == 3;
  // [B, S, W] -> [B, S, 1, W] beside x as [B, S, heads, D], or [B, 1, S, W] beside [B, heads, S, D]
  auto table = [&](std::size_t i) {
    Value* rows = b.input(3) ? b.op("Gather", {b.input(i), b.input(3)}, {{"axis", std::int64_t{0}}}) : b.input(i);
    return b.unsqueeze(rows, {flat ? 2 : 1});
  };
  Value *cos = table(1), *sin = table(2);
  Value* x = flat ? b.reshape(b.input(0), {0, 0, heads, -1}) : b.input(0);
  Value* y = rotary_body(b, x, cos, sin, node.int_attribute("interleaved", 0) != 0, node.int_attribute("rotary_embedding_dim", 0) != 0);
  b.output(0, flat ? b.reshape(y, {0, 0, -1}) : y);
  return b.finish();
}

std::string rotary_extra(const ir::Node& node) { return ranks_of(node, {0}); }

// ── Attention ────────────────────────────────────────────────────────────────────────────────────────────────────────────

Value* by_heads(BodyBuilder& b, std::size_t i, std::int64_t heads) { return b.transpose(b.reshape(b.input(i), {0, 0, heads, -1}), {0, 2, 1, 3}); }

// Which keys a query may see by position: causal, windows, the number of valid keys. nullptr: all.
Value* allowed_by_position(BodyBuilder& b, Value* q, Value* k) {
  const auto& node = b.node();
  bool causal = node.int_attribute("is_causal", 0) != 0;
  auto left = node.int_attribute("left_window_size", -1), right = node.int_attribute("right_window_size", -1);
  Value* valid = b.input(6) ? b.reshape(b.input(6), {-1, 1, 1, 1}) : nullptr;
  if (!causal && left < 0 && right < 0 && !valid) return nullptr;
  Value* keys = b.range(b.dim_of(k, 2));  // [T]
  Value* allowed = valid ? b.op("Less", {keys, valid}) : nullptr;
  if (!causal && left < 0 && right < 0) return allowed;
  Value* positions = b.unsqueeze(b.range(b.dim_of(q, 2)), {1});  // [S, 1]
  if (valid) positions = b.add(positions, b.sub(valid, b.dim_of(q, 2)));
  else if (b.input(4)) positions = b.add(positions, b.dim_of(b.input(4), 2));
  if (causal) allowed = b.both(allowed, b.op("LessOrEqual", {keys, positions}));
  if (left >= 0) allowed = b.both(allowed, b.op("GreaterOrEqual", {keys, b.sub(positions, b.integer(left))}));
  if (right >= 0) allowed = b.both(allowed, b.op("LessOrEqual", {keys, b.add(positions, b.integer(right))}));
  return allowed;
}

bool shares_heads(const ir::Node& node) {
  if (node.attribute("q_num_heads")) return node.int_attribute("q_num_heads", 0) != node.int_attribute("kv_num_heads", 0);
  const Value *q = node.input(0), *k = node.input(1);
  bool known = q && k && q->shape() && k->shape() && q->shape()->size() == 4 && k->shape()->size() == 4;
  return !known || !((*q->shape())[1] == (*k->shape())[1]);
}

// The size of heads in input `i`, [B, S, heads·D] or [B, heads, S, D]; 0: unknown.
std::int64_t head_width(const ir::Node& node, std::size_t i, std::int64_t heads) {
  const Value* x = node.input(i);
  if (!x || !x->shape() || x->shape()->empty() || !x->shape()->back().is_static()) return 0;
  const auto width = x->shape()->back().value();
  if (x->shape()->size() != 3) return width;
  return heads > 0 ? width / heads : 0;
}

std::int64_t head_count(const ir::Node& node, std::size_t i, std::string_view attribute) {
  const Value* x = node.input(i);
  if (node.attribute(attribute)) return node.int_attribute(attribute, 0);
  return x && x->shape() && x->shape()->size() == 4 ? (*x->shape())[1].as_static().value_or(0) : 0;
}

// Q, K, V, attn_mask?, past_key?, past_value?, nonpad_kv_seqlen? -> Y, present_key?, present_value?, qk_matmul_output?
std::optional<ir::Function> attention(BodyBuilder& b) {
  const auto& node = b.node();
  auto rank = b.rank(0);
  if (!rank || (*rank != 3 && *rank != 4)) return std::nullopt;
  auto q_heads = node.int_attribute("q_num_heads", 0), kv_heads = node.int_attribute("kv_num_heads", 0);
  bool flat = *rank == 3;
  if (flat && (q_heads <= 0 || kv_heads <= 0)) return std::nullopt;
  Value* q = flat ? by_heads(b, 0, q_heads) : b.input(0);
  Value* k = flat ? by_heads(b, 1, kv_heads) : b.input(1);
  Value* v = flat ? by_heads(b, 2, kv_heads) : b.input(2);
  if (b.input(4)) k = b.concat({b.input(4), k}, 2);
  if (b.input(5)) v = b.concat({b.input(5), v}, 2);

  AttentionBody a{q, k, v, shares_heads(node), static_cast<double>(node.float_attribute("scale", 0)), static_cast<double>(node.float_attribute("softcap", 0))};
  a.heads = head_count(node, 0, "q_num_heads");
  a.kv_heads = head_count(node, 1, "kv_num_heads");
  a.width = head_width(node, 0, q_heads);
  a.value_width = head_width(node, 2, kv_heads);
  a.allowed = allowed_by_position(b, q, k);
  a.softmax_dtype = node.int_attribute("softmax_precision", 0);
  if (b.input(3)) {
    auto mask_dtype = node.input(3)->dtype();
    if (mask_dtype == DataType::undefined) return std::nullopt;
    if (mask_dtype == DataType::boolean) a.allowed = b.both(a.allowed, b.input(3));
    else a.bias = b.input(3);
  }
  auto result = attention_body(b, a, true);
  b.output(0, flat ? b.reshape(b.transpose(result.y, {0, 2, 1, 3}), {0, 0, -1}) : result.y);
  b.output(1, k);
  b.output(2, v);
  auto mode = node.int_attribute("qk_matmul_output_mode", 0);
  b.output(3, mode == 0 ? result.scores : (mode == 1 ? result.capped : (mode == 2 ? result.masked : result.weights)));
  return b.finish();
}

std::string attention_extra(const ir::Node& node) {
  std::string result = ranks_of(node, {0}) + (shares_heads(node) ? " grouped" : "");
  const auto heads = head_count(node, 0, "q_num_heads"), kv_heads = head_count(node, 1, "kv_num_heads");
  if (heads > 0 && kv_heads > 0) result += fmt::format(" {} {} {} {}", heads, kv_heads, head_width(node, 0, heads), head_width(node, 2, kv_heads));
  if (node.input(3)) result += node.input(3)->dtype() == DataType::boolean ? " bool" : " float";
  return result;
}

}  // namespace

void add_attention_functions(FunctionTable& table) {
  const std::int64_t no = 0;
  table[{"", "RotaryEmbedding"}] = {
      rotary, {"X", "cos_cache", "sin_cache", "position_ids"}, {}, {{"interleaved", no}, {"rotary_embedding_dim", no}}, rotary_extra};
  table[{"", "Attention"}] = {
      attention, {"Q", "K", "V", "attn_mask", "past_key", "past_value", "nonpad_kv_seqlen"}, {}, {{"is_causal", no}, {"softcap", 0.0F}}, attention_extra};
}

}  // namespace mobius::ops
