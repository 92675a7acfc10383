// Inference: attention and rotary embedding, of ai.onnx and com.microsoft.
// B batch, S new tokens, P past tokens, T = P + S, N query heads, KV key-value heads, D head size.
#include "mobius/ops/infer_context.hpp"

namespace mobius::ops {
namespace {

using ir::DataType;
using ir::Dim;
using ir::Shape;

// ── ai.onnx ──────────────────────────────────────────────────────────────────────────────────────────────────────────────

struct Heads {
  Dim batch, heads, length, size;
};

// [B, heads, length, size], or [B, length, heads·size] with the number of heads as attribute.
std::optional<Heads> heads_of(const InferContext& c, std::size_t i, std::string_view attribute) {
  if (!c.shape(i)) return std::nullopt;
  const Shape& x = *c.shape(i);
  if (x.size() == 4) return Heads{x[0], x[1], x[2], x[3]};
  if (x.size() != 3) c.error("input {} is {}, expected rank 3 or 4", i, c.show(i));
  auto n = c.heads(attribute);
  if (x[2].is_static() && x[2].value() % n != 0) c.error("input {} is {}, which does not divide into {} = {} heads", i, c.show(i), attribute, n);
  return Heads{x[0], Dim(n), x[1], divide_exactly(x[2], n)};
}

void want_head_groups(const InferContext& c, const Dim& query, const Dim& kv) {
  if (!query.is_static() || !kv.is_static()) return;
  if (kv.value() <= 0 || query.value() % kv.value() != 0) c.error("{} query heads for {} key heads", query.value(), kv.value());
}

// Attention-23 to 25: Q, K, V, attn_mask?, past_key?, past_value?, nonpad_kv_seqlen? -> Y, present_key?, present_value?, qk?
void infer_attention(InferContext& c) {
  auto q = heads_of(c, 0, "q_num_heads"), k = heads_of(c, 1, "kv_num_heads"), v = heads_of(c, 2, "kv_num_heads");
  for (std::size_t i = 1; i < c.outputs(); ++i) c.output(i, i == 2 ? c.dtype(2) : c.dtype(i == 1 ? 1 : 0));
  if (!q || !k || !v) return c.output(0, c.dtype(0));
  c.want_equal(q->size, k->size, "head sizes of Q and K");
  c.want_equal(k->length, v->length, "lengths of K and V");
  c.want_equal(q->batch, k->batch, "batch sizes of Q and K");
  c.want_equal(k->heads, v->heads, "heads of K and V");
  want_head_groups(c, q->heads, k->heads);
  c.want_rank(4, 4);
  c.want_rank(5, 4);
  if (c.has(4)) {
    c.want_equal(c.dim(4, 1), k->heads, "heads of past_key and K");
    c.want_equal(c.dim(4, 3), k->size, "head sizes of past_key and K");
    c.want_equal(c.dim(5, 3), v->size, "head sizes of past_value and V");
  }
  Dim total = c.has(4) ? c.dim(4, 2) + k->length : k->length;
  bool flat = c.rank(0) == std::optional<std::size_t>(3);
  c.output(0, c.dtype(0), flat ? Shape{q->batch, q->length, q->heads * v->size} : Shape{q->batch, q->heads, q->length, v->size});
  c.output(1, c.dtype(1), Shape{k->batch, k->heads, total, k->size});
  c.output(2, c.dtype(2), Shape{v->batch, v->heads, total, v->size});
  c.output(3, c.dtype(0), Shape{q->batch, q->heads, q->length, total});
  if (!c.shape(3)) return;
  // A mask may cover fewer keys than there are.
  const Shape& mask = *c.shape(3);
  if (mask.size() > 4 || mask.empty()) c.error("attn_mask is {}, expected rank 1 to 4", c.show(3));
  if (known_to_differ(mask.back(), total) && mask.back().value() > total.value()) c.error("attn_mask is {} for {} keys", c.show(3), total.to_string());
  Shape rows(mask.begin(), mask.end() - 1);
  auto together = ir::broadcast(rows, Shape{q->batch, q->heads, q->length});
  bool fits =
      together && !known_to_differ((*together)[0], q->batch) && !known_to_differ((*together)[1], q->heads) && !known_to_differ((*together)[2], q->length);
  if (!fits)
    c.error("attn_mask is {}, which can't be broadcast to [{}, {}, {}, {}]", c.show(3), q->batch.to_string(), q->heads.to_string(), q->length.to_string(),
            total.to_string());
}

void want_rotary_cache(const InferContext& c, std::size_t cos, std::size_t sin, const Dim& head_size, std::int64_t rotary_dim) {
  c.want_equal(c.dim(cos, c.rank(cos).value_or(1) - 1), c.dim(sin, c.rank(sin).value_or(1) - 1), "widths of cos and sin caches");
  if (!c.rank(cos) || *c.rank(cos) == 0) return;
  Dim width = c.dim(cos, *c.rank(cos) - 1);
  auto rotated = rotary_dim > 0 ? std::optional(rotary_dim) : head_size.as_static();
  if (rotated && width.is_static() && width.value() * 2 != *rotated) {
    c.error("cos_cache is {}, expected a last axis of {} (half of the {} rotated channels)", c.show(cos), *rotated / 2, *rotated);
  }
}

// X, cos_cache, sin_cache, position_ids?
void infer_rotary(InferContext& c) {
  c.want_rank_in(0, 3, 4);
  c.want_rank(1, c.has(3) ? 2 : 3);
  c.want_rank(2, c.has(3) ? 2 : 3);
  c.want_rank(3, 2);
  Dim head_size;
  if (c.rank(0) == std::optional<std::size_t>(4)) head_size = c.dim(0, 3);
  if (c.rank(0) == std::optional<std::size_t>(3)) head_size = heads_of(c, 0, "num_heads")->size;
  want_rotary_cache(c, 1, 2, head_size, c.int_attribute("rotary_embedding_dim", 0));
  c.same_as_input();
}

// ── com.microsoft ────────────────────────────────────────────────────────────────────────────────────────────────────────

void infer_ms_rotary(InferContext& c) {
  c.want_rank_in(0, 3, 4);
  c.want_rank(2, 2);
  c.want_rank(3, 2);
  c.same_as_input();
}

// emb, q, q_rot, k, k_rot -> two outputs like q and k
void infer_gemma_rotary(InferContext& c) {
  c.output(0, c.dtype(1), c.shape(1));
  c.output(1, c.dtype(3), c.shape(3));
}

Dim head_size(const InferContext& c, const Dim& width, std::int64_t heads, std::size_t input) {
  if (width.is_static() && width.value() % heads != 0) c.error("input {} is {}, which does not divide into {} heads", input, c.show(input), heads);
  return divide_exactly(width, heads);
}

bool is_packed_byte_cache(const InferContext& c) { return c.dtype(3) == DataType::uint8; }

// query, key?, value?, past_key?, past_value?, seqlens_k, total_sequence_length, cos?, sin?, ... -> output, present_key, present_value, qk?
void infer_gqa(InferContext& c) {
  c.want_rank(0, 3);
  c.want_rank(1, 3);
  c.want_rank(2, 3);
  auto n = c.heads("num_heads"), kv = c.heads("kv_num_heads");
  want_head_groups(c, Dim(n), Dim(kv));
  Dim batch = c.dim(0, 0), seq = c.dim(0, 1);
  Dim size = c.has(1) ? head_size(c, c.dim(0, 2), n, 0) : head_size(c, c.dim(0, 2), n + 2 * kv, 0);
  if (c.has(1)) c.want_equal(c.dim(1, 2), size * Dim(kv), "width of key and kv_num_heads x head size");
  if (c.has(2)) c.want_equal(c.dim(2, 1), seq, "lengths of value and query");
  Dim value_size = c.has(2) ? divide_exactly(c.dim(2, 2), kv) : size;
  c.output(0, c.dtype(0), Shape{batch, seq, value_size * Dim(n)});

  if (c.has(3)) {
    c.want_rank(3, 4);
    c.want_equal(c.dim(3, 1), Dim(kv), "heads of past_key and kv_num_heads");
    if (!is_packed_byte_cache(c)) c.want_equal(c.dim(3, 3), size, "head sizes of past_key and query");
  }
  // Without a buffer shared with the past, present holds past and new tokens.
  Dim total = c.has(3) ? c.dim(3, 2) + seq : seq;
  if (auto elements = c.contents(6); !c.has(3) && elements && elements->size() == 1 && elements->front().is_static()) total = elements->front();
  if (c.int_attribute("sliding_window_cache", 0) != 0) total = c.has(3) ? c.dim(3, 2) : Dim();
  auto cache_dtype = c.has(3) ? c.dtype(3) : c.dtype(0);
  Dim cache_size = is_packed_byte_cache(c) ? c.dim(3, 3) : size;
  c.output(1, cache_dtype, Shape{batch, Dim(kv), total, cache_size});
  c.output(2, cache_dtype, Shape{batch, Dim(kv), total, is_packed_byte_cache(c) ? c.dim(4, 3) : value_size});
  c.output(3, c.dtype(0), Shape{batch, Dim(n), seq, total});
}

// query, key?, value?, bias?, key_padding_mask?, attention_bias?, past_key?, past_value?, ... -> output, present_key?, present_value?, qk?
void infer_mha(InferContext& c) {
  auto n = c.heads("num_heads");
  c.want_rank_in(0, 3, 5);
  Dim batch = c.dim(0, 0), seq = c.dim(0, 1), width = c.dim(0, 2), value_width = width, length = seq;
  if (c.rank(0) == std::optional<std::size_t>(5)) {  // [B, S, N, 3, D]
    width = value_width = Dim(n) * c.dim(0, 4);
  } else if (c.rank(0) == std::optional<std::size_t>(4)) {  // [B, N, S, D]
    seq = length = c.dim(0, 2);
    width = value_width = Dim(n) * c.dim(0, 3);
  } else {
    head_size(c, width, n, 0);
  }
  if (c.rank(1) == std::optional<std::size_t>(5)) {  // packed key and value [B, L, N, 2, D]
    length = c.dim(1, 1);
  } else if (c.has(2)) {
    c.want_rank_in(2, 3, 4);
    bool by_heads = c.rank(2) == std::optional<std::size_t>(4);
    length = c.shape(2) ? c.dim(2, by_heads ? 2 : 1) : Dim();
    value_width = by_heads ? Dim(n) * c.dim(2, 3) : c.dim(2, 2);
    if (!by_heads) head_size(c, value_width, n, 2);
  }
  c.output(0, c.dtype(0), Shape{batch, seq, value_width});
  Dim total = c.has(6) ? c.dim(6, 2) + length : length;
  c.output(1, c.dtype(0), Shape{batch, Dim(n), total, divide_exactly(width, n)});
  c.output(2, c.dtype(0), Shape{batch, Dim(n), total, divide_exactly(value_width, n)});
  c.output(3, c.dtype(0), Shape{batch, Dim(n), seq, total});
}

// input [B, S, H], weights [H, Hq + Hk + Hv], bias?, mask_index?, past? [2, B, N, P, D], attention_bias?, ... -> output, present?
void infer_ms_attention(InferContext& c) {
  auto n = c.heads("num_heads");
  c.want_rank(0, 3);
  c.want_rank(1, 2);
  c.want_equal(c.dim(0, 2), c.dim(1, 0), "widths of input and weights");
  Dim width = divide_exactly(c.dim(1, 1), 3);
  if (auto sizes = c.ints("qkv_hidden_sizes")) {
    if (sizes->size() != 3) c.error("qkv_hidden_sizes has {} entries", sizes->size());
    width = Dim((*sizes)[2]);
  }
  c.output(0, c.dtype(0), Shape{c.dim(0, 0), c.dim(0, 1), width});
  Dim total = c.has(4) ? c.dim(4, 3) + c.dim(0, 1) : c.dim(0, 1);
  c.output(1, c.dtype(0), Shape{Dim(2), c.dim(0, 0), Dim(n), total, divide_exactly(width, n)});
}

// query [tokens, H] or [tokens, N, 3, D], key?, value?, ... -> [tokens, Hv]
void infer_packed_mha(InferContext& c) {
  auto n = c.heads("num_heads");
  Dim width = c.rank(0) == std::optional<std::size_t>(4) ? c.dim(0, 1) * c.dim(0, 3) : c.dim(0, 1);
  if (c.rank(0) != std::optional<std::size_t>(4)) head_size(c, width, n, 0);
  if (c.has(2)) width = c.dim(2, 1);
  c.output(0, c.dtype(0), Shape{c.dim(0, 0), width});
}

// query, key?, value?, key_cache, value_cache?, ... -> output, key_cache_out, value_cache_out
void infer_paged(InferContext& c) {
  auto n = c.heads("num_heads"), kv = c.heads("kv_num_heads");
  Dim width = c.has(1) ? c.dim(0, 1) : head_size(c, c.dim(0, 1), n + 2 * kv, 0) * Dim(n);
  c.output(0, c.dtype(0), Shape{c.dim(0, 0), width});
  c.output(1, c.dtype(3), c.shape(3));
  c.output(2, c.dtype(4), c.shape(4));
}

}  // namespace

void add_infer_attention(InferTable& table) {
  auto& onnx = table.onnx;
  onnx["Attention"] = {infer_attention, 3};
  onnx["RotaryEmbedding"] = {infer_rotary, 3};
  auto& ms = table.microsoft;
  ms["RotaryEmbedding"] = ms["MRotaryEmbedding"] = {infer_ms_rotary, 4};
  ms["GemmaRotaryEmbedding"] = {infer_gemma_rotary, 5};
  ms["GroupQueryAttention"] = {infer_gqa, 7};
  ms["MultiHeadAttention"] = {infer_mha, 1};
  ms["Attention"] = {infer_ms_attention, 2};
  ms["PackedMultiHeadAttention"] = {infer_packed_mha, 6};
  ms["PagedAttention"] = {infer_paged, 4};
}

}  // namespace mobius::ops
