// Function bodies of the attention operators of com.microsoft.
// B batch, S new tokens, P past tokens, C capacity of the cache, N query heads, KV key-value heads, D head size, W half of the rotated channels.
#include <algorithm>

#include "mobius/ops/functions_body.hpp"

namespace mobius::ops {
namespace {

using ir::DataType;
using ir::Value;

// ── RotaryEmbedding ──────────────────────────────────────────────────────────────────────────────────────────────────────

// input [B, S, H] or [B, N, S, D], position_ids [1] or [B, S], cos_cache, sin_cache
std::optional<ir::Function> rotary(BodyBuilder& b) {
  const auto& node = b.node();
  auto rank = b.rank(0), positions_rank = b.rank(1);
  if (!rank || (*rank != 3 && *rank != 4) || !positions_rank || (*positions_rank != 1 && *positions_rank != 2)) return std::nullopt;
  if (node.int_attribute("is_packed_batching", 0) != 0 || node.float_attribute("scale", 1) != 1) return std::nullopt;
  bool flat = *rank == 3;
  Value* positions = b.input(1);
  if (*positions_rank == 1) positions = b.unsqueeze(b.add(b.range(b.dim_of(b.input(0), flat ? 1 : 2)), positions), {0});  // an offset for all rows
  auto heads = node.int_attribute("num_heads", 0);
  auto table = [&](std::size_t i) { return b.unsqueeze(b.op("Gather", {b.input(i), positions}, {{"axis", std::int64_t{0}}}), {flat ? 2 : 1}); };
  Value *cos = table(2), *sin = table(3), *x = b.input(0);
  if (flat && heads > 0) x = b.reshape(x, {0, 0, heads, -1});
  else if (flat) x = b.reshape(x, b.concat({b.ints({0, 0, -1}), b.mul(b.last_dim_of(b.input(2)), b.ints({2}))}, 0));
  Value* y = rotary_body(b, x, cos, sin, node.int_attribute("interleaved", 0) != 0, node.int_attribute("rotary_embedding_dim", 0) != 0);
  b.output(0, flat ? b.reshape(y, {0, 0, -1}) : y);
  return b.finish();
}

std::string rotary_extra(const ir::Node& node) { return ranks_of(node, {0, 1}); }

// ── GroupQueryAttention ──────────────────────────────────────────────────────────────────────────────────────────────────

// Each row's new tokens behind its own valid ones, by one gather over [past, new]: slot s of a row that holds `start` tokens is s of
// the past below start, and s - start of the new ones from there.
class Cache {
 public:
  // past_length P, length S, capacity C: int64 [1]; start: [B, 1]
  Cache(BodyBuilder& b, Value* past_length, Value* length, Value* capacity, Value* start) : capacity_(capacity) {
    Value* slots = b.range(capacity);
    Value* from_new = b.op("Min", {b.add(b.sub(slots, start), past_length), b.sub(b.add(past_length, length), b.ints({1}))});
    indices_ = b.unsqueeze(b.where(b.op("Less", {slots, start}), slots, from_new), {1, 3});  // [B, 1, C, 1]
    filled_ = b.unsqueeze(b.op("Less", {slots, b.add(start, length)}), {1, 3});
  }

  Value* extend(BodyBuilder& b, Value* past, Value* x) const {
    Value* indices = b.op("Expand", {indices_, b.concat({b.dims_of(x, 0, 2), capacity_, b.last_dim_of(x)}, 0)});
    Value* cache = b.op("GatherElements", {b.concat({past, x}, 2), indices}, {{"axis", std::int64_t{2}}});
    return b.where(filled_, cache, b.scalar_like(0, cache));
  }

 private:
  Value *capacity_, *indices_, *filled_;
};

struct Projections {
  Value *q, *k, *v;  // [B, S, heads, D]
};

Projections projections(BodyBuilder& b, std::int64_t heads, std::int64_t kv_heads) {
  if (b.input(1)) return {b.reshape(b.input(0), {0, 0, heads, -1}), b.reshape(b.input(1), {0, 0, kv_heads, -1}), b.reshape(b.input(2), {0, 0, kv_heads, -1})};
  auto parts = b.split(b.reshape(b.input(0), {0, 0, heads + 2 * kv_heads, -1}), {heads, kv_heads, kv_heads}, 2);
  return {parts[0], parts[1], parts[2]};
}

Value* normalized(BodyBuilder& b, Value* x, Value* weight) {
  Value* wide = b.cast(x, DataType::float32);
  Value* variance = b.add(b.reduce("ReduceMean", b.mul(wide, wide), {-1}), b.number(static_cast<double>(b.node().float_attribute("qk_norm_epsilon", 1e-6F))));
  return b.mul(b.cast_like(b.div(wide, b.op("Sqrt", {variance})), x), weight);
}

bool gqa_can_be_said(const BodyBuilder& b) {
  const auto& node = b.node();
  bool quantized =
      b.input(12) || b.input(13) || node.string_attribute("k_quant_type", "NONE") != "NONE" || node.string_attribute("v_quant_type", "NONE") != "NONE";
  bool half_cache = (b.input(3) == nullptr) != (b.input(4) == nullptr) || (b.input(1) == nullptr) != (b.input(2) == nullptr);
  bool rotates = node.int_attribute("do_rotary", 0) != 0;
  return !quantized && !half_cache && node.outputs().size() <= 3 && node.int_attribute("sliding_window_cache", 0) == 0 &&
         node.int_attribute("num_heads", 0) > 0 && node.int_attribute("kv_num_heads", 0) > 0 &&
         std::max(node.int_attribute("num_heads", 0), node.int_attribute("kv_num_heads", 0)) <= 1 << 20 && (!rotates || (b.input(7) && b.input(8)));
}

// query, key?, value?, past_key?, past_value?, seqlens_k, total_sequence_length, cos_cache?, sin_cache?, position_ids?, attention_bias?,
// head_sink?, k_scale?, v_scale?, q_norm_weight?, k_norm_weight? -> output, present_key?, present_value?
std::optional<ir::Function> gqa(BodyBuilder& b) {
  if (!gqa_can_be_said(b)) return std::nullopt;
  const auto& node = b.node();
  auto heads = node.int_attribute("num_heads", 0), kv_heads = node.int_attribute("kv_num_heads", 0);
  auto [q, k, v] = projections(b, heads, kv_heads);
  if (b.input(14)) q = normalized(b, q, b.input(14));
  if (b.input(15)) k = normalized(b, k, b.input(15));

  Value* length = b.dim_of(b.input(0), 1);
  Value* valid = b.add(b.cast(b.reshape(b.input(5), {-1, 1}), DataType::int64), b.integer(1));  // [B, 1]
  Value* total = b.cast(b.reshape(b.input(6), {1}), DataType::int64);
  // Tokens that a row holds already. A prompt (S = total) starts at 0; its rows may be padded on the right.
  Value* start = b.ints({0});
  if (b.input(3)) start = b.where(b.op("Equal", {length, total}), b.ints({0}), b.sub(valid, length));
  Value* rows = b.input(3) ? start : b.unsqueeze(start, {0});  // [B | 1, 1]
  Value* positions = b.add(rows, b.range(length));             // [B | 1, S]
  if (node.int_attribute("do_rotary", 0) != 0) {
    Value* ids = b.input(9) ? b.input(9) : positions;
    bool interleaved = node.int_attribute("rotary_interleaved", 0) != 0;
    auto table = [&](std::size_t i) { return b.unsqueeze(b.op("Gather", {b.input(i), ids}, {{"axis", std::int64_t{0}}}), {2}); };
    Value *cos = table(7), *sin = table(8);
    q = rotary_body(b, q, cos, sin, interleaved, true);
    k = rotary_body(b, k, cos, sin, interleaved, true);
  }
  q = b.transpose(q, {0, 2, 1, 3});
  k = b.transpose(k, {0, 2, 1, 3});
  v = b.transpose(v, {0, 2, 1, 3});
  Value* capacity = length;
  if (b.input(3)) {
    Value* past_length = b.dim_of(b.input(3), 2);
    capacity = b.op("Max", {total, past_length});
    Cache cache(b, past_length, length, capacity, start);
    k = cache.extend(b, b.input(3), k);
    v = cache.extend(b, b.input(4), v);
  }

  Value* slots = b.range(capacity);               // [C]
  Value* where = b.unsqueeze(positions, {1, 3});  // [B | 1, 1, S, 1]
  Value* allowed = b.op("Less", {slots, b.unsqueeze(valid, {1, 3})});
  auto window = node.int_attribute("local_window_size", -1);
  if (node.int_attribute("causal", 1) != 0) allowed = b.both(allowed, b.op("LessOrEqual", {slots, where}));
  if (window >= 0) allowed = b.both(allowed, b.op("Greater", {slots, b.sub(where, b.integer(window))}));
  AttentionBody a{q, k, v, heads != kv_heads, static_cast<double>(node.float_attribute("scale", 0)), static_cast<double>(node.float_attribute("softcap", 0))};
  a.allowed = allowed;
  if (b.input(10)) {
    // The bias covers the tokens there are; a shared buffer may be longer.
    Value* missing = b.sub(capacity, b.last_dim_of(b.input(10)));
    a.bias = b.input(3) ? b.op("Pad", {b.input(10), b.concat({b.ints({0, 0, 0, 0, 0, 0, 0}), b.op("Max", {missing, b.ints({0})})}, 0)}) : b.input(10);
  }
  if (b.input(11)) a.sink = b.reshape(b.input(11), {1, -1, 1, 1});
  else if (node.int_attribute("smooth_softmax", 0) > 0) a.sink = b.reshape(b.scalar_like(0, q), {1, 1, 1, 1});
  Value* y = attention_body(b, a, false).y;
  b.output(0, b.reshape(b.transpose(y, {0, 2, 1, 3}), {0, 0, -1}));
  b.output(1, k);
  b.output(2, v);
  return b.finish();
}

// ── MultiHeadAttention ───────────────────────────────────────────────────────────────────────────────────────────────────

// A key mask [B] holds each row's number of keys; other lengths mean other things.
bool holds_lengths(const ir::Node& node) {
  const Value *mask = node.input(4), *query = node.input(0);
  return mask && mask->rank() == std::optional<std::size_t>(1) && query->rank().value_or(0) > 0 && (*mask->shape())[0] == (*query->shape())[0];
}

bool mha_can_be_said(const BodyBuilder& b) {
  auto is = [&](std::size_t i, std::size_t rank) { return b.rank(i) == std::optional(rank); };
  bool keys = b.input(2) ? (is(1, 3) || is(1, 4)) : is(1, 5);
  bool operands = is(0, 5) || (is(0, 3) && keys);
  bool mask = !b.input(4) || is(4, 2) || is(4, 3) || holds_lengths(b.node());
  return operands && mask && !b.input(8) && !b.input(9) && b.node().outputs().size() <= 3 && b.node().int_attribute("num_heads", 0) > 0 &&
         (!b.input(3) || (is(0, 3) && is(1, 3)));
}

// Part i of [B, S, N, parts, D] as [B, N, S, D].
Value* unpacked(BodyBuilder& b, Value* packed, std::int64_t i) {
  return b.transpose(b.squeeze(b.slice(packed, b.ints({i}), b.ints({i + 1}), 3), {3}), {0, 2, 1, 3});
}

// query, key?, value?, bias?, key_padding_mask?, attention_bias?, past_key?, past_value? -> output, present_key?, present_value?
std::optional<ir::Function> mha(BodyBuilder& b) {
  if (!mha_can_be_said(b)) return std::nullopt;
  const auto& node = b.node();
  auto heads = node.int_attribute("num_heads", 0);
  auto by_heads = [&](Value* x) { return b.transpose(b.reshape(x, {0, 0, heads, -1}), {0, 2, 1, 3}); };
  Value *q = b.input(0), *k = b.input(1), *v = b.input(2);
  if (*b.rank(0) == 5) {
    q = unpacked(b, b.input(0), 0);
    k = unpacked(b, b.input(0), 1);
    v = unpacked(b, b.input(0), 2);
  } else {
    if (b.input(3)) {
      Value *width = b.last_dim_of(q), *both = b.mul(width, b.ints({2}));
      k = b.add(k, b.slice(b.input(3), width, both, 0));
      v = b.add(v, b.slice(b.input(3), both, b.everything(), 0));
      q = b.add(q, b.slice(b.input(3), b.ints({0}), width, 0));
    }
    q = by_heads(q);
    if (!b.input(2)) {
      k = unpacked(b, b.input(1), 0);
      v = unpacked(b, b.input(1), 1);
    } else if (*b.rank(1) == 3) {
      k = by_heads(k);
      v = by_heads(v);
    }
  }
  Value* length = b.dim_of(q, 2);
  if (b.input(6)) k = b.concat({b.input(6), k}, 2);
  if (b.input(7)) v = b.concat({b.input(7), v}, 2);

  AttentionBody a{q, k, v, false, static_cast<double>(node.float_attribute("scale", 0))};
  a.bias = b.input(5);
  if (b.input(4)) {
    // A hidden key's score is lowered, not removed: a row that sees nothing still has weights.
    bool lengths = *b.rank(4) == 1;
    Value* hidden = lengths ? b.op("GreaterOrEqual", {b.range(b.dim_of(k, 2)), b.cast(b.reshape(b.input(4), {-1, 1}), DataType::int64)})
                            : b.op("Equal", {b.input(4), b.scalar_like(0, b.input(4))});
    Value* filter = b.mul(b.cast_like(hidden, q), b.scalar_like(static_cast<double>(node.float_attribute("mask_filter_value", -10000)), q));
    filter = b.unsqueeze(filter, *b.rank(4) <= 2 ? std::vector<std::int64_t>{1, 2} : std::vector<std::int64_t>{1});
    a.zero_hidden_rows = a.bias != nullptr;
    a.bias = a.bias ? b.add(a.bias, filter) : filter;
  }
  if (node.int_attribute("unidirectional", 0) != 0) {
    Value* positions = b.unsqueeze(b.range(length), {1});
    if (b.input(6)) positions = b.add(positions, b.dim_of(b.input(6), 2));
    a.allowed = b.op("LessOrEqual", {b.range(b.dim_of(k, 2)), positions});
  }
  Value* y = attention_body(b, a, false).y;
  b.output(0, b.reshape(b.transpose(y, {0, 2, 1, 3}), {0, 0, -1}));
  b.output(1, k);
  b.output(2, v);
  return b.finish();
}

std::string mha_extra(const ir::Node& node) { return ranks_of(node, {0, 1, 4}); }

// ── PackedMultiHeadAttention ─────────────────────────────────────────────────────────────────────────────────────────────

// query [tokens, H] or [tokens, N, 3, D], key?, value?, bias?, token_offset, cumulative_sequence_length -> [tokens, Hv].
// All tokens in one row; the mask is block-diagonal: a token's block is the number of sequences that end at or before it.
std::optional<ir::Function> packed_mha(BodyBuilder& b) {
  const auto& node = b.node();
  auto heads = node.int_attribute("num_heads", 0);
  auto rank = b.rank(0);
  bool packed = rank == std::optional<std::size_t>(4);
  if (heads <= 0 || b.input(6) || (packed ? b.input(3) != nullptr : rank != std::optional<std::size_t>(2) || !b.input(1) || !b.input(2))) return std::nullopt;
  Value *q = nullptr, *k = nullptr, *v = nullptr;
  if (packed) {
    Value* row = b.unsqueeze(b.input(0), {0});
    q = unpacked(b, row, 0);
    k = unpacked(b, row, 1);
    v = unpacked(b, row, 2);
  } else {
    Value *x = b.input(0), *y = b.input(1), *z = b.input(2);
    if (b.input(3)) {
      Value *width = b.last_dim_of(x), *both = b.mul(width, b.ints({2}));
      y = b.add(y, b.slice(b.input(3), width, both, 0));
      z = b.add(z, b.slice(b.input(3), both, b.everything(), 0));
      x = b.add(x, b.slice(b.input(3), b.ints({0}), width, 0));
    }
    auto by_heads = [&](Value* flat) { return b.unsqueeze(b.transpose(b.reshape(flat, {0, heads, -1}), {1, 0, 2}), {0}); };
    q = by_heads(x);
    k = by_heads(y);
    v = by_heads(z);
  }
  Value* tokens = b.unsqueeze(b.range(b.dim_of(b.input(0), 0)), {1});  // [tokens, 1]
  Value* ends = b.cast(b.slice(b.input(5), b.ints({1}), b.everything(), 0), DataType::int64);
  Value* block = b.reduce("ReduceSum", b.cast(b.op("LessOrEqual", {ends, tokens}), DataType::int64), {1});  // [tokens, 1]
  AttentionBody a{q, k, v, false, static_cast<double>(node.float_attribute("scale", 0))};
  a.allowed = b.op("Equal", {block, b.transpose(block, {1, 0})});
  Value* y = attention_body(b, a, false).y;
  b.output(0, b.reshape(b.transpose(b.squeeze(y, {0}), {1, 0, 2}), {0, -1}));
  return b.finish();
}

std::string packed_extra(const ir::Node& node) { return ranks_of(node, {0}); }

}  // namespace

void add_ms_attention_functions(FunctionTable& table) {
  const std::int64_t no = 0;
  const std::map<std::string_view, ir::Attribute> gqa_defaults{
      {"scale", 0.0F}, {"softcap", 0.0F}, {"do_rotary", no}, {"rotary_interleaved", no}, {"local_window_size", std::int64_t{-1}}, {"smooth_softmax", no}};
  table[{"com.microsoft", "RotaryEmbedding"}] = {rotary, {"input", "position_ids", "cos_cache", "sin_cache"}, {}, {{"interleaved", no}}, rotary_extra};
  table[{"com.microsoft", "GroupQueryAttention"}] = {
      gqa,
      {"query", "key", "value", "past_key", "past_value", "seqlens_k", "total_sequence_length", "cos_cache", "sin_cache", "position_ids", "attention_bias",
       "head_sink", "k_scale", "v_scale", "q_norm_weight", "k_norm_weight"},
      {},
      gqa_defaults};
  table[{"com.microsoft", "MultiHeadAttention"}] = {mha,
                                                    {"query", "key", "value", "bias", "key_padding_mask", "attention_bias", "past_key", "past_value"},
                                                    {},
                                                    {{"unidirectional", no}, {"scale", 0.0F}},
                                                    mha_extra};
  table[{"com.microsoft", "PackedMultiHeadAttention"}] = {
      packed_mha, {"query", "key", "value", "bias", "token_offset", "cumulative_sequence_length", "attention_bias"}, {}, {{"scale", 0.0F}}, packed_extra};
}

}  // namespace mobius::ops
