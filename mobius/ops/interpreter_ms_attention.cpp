// References: attention operators of com.microsoft, with the CPU provider's semantics.
#include <algorithm>
#include <cmath>
#include <limits>

#include "mobius/ops/interpreter_call.hpp"

namespace mobius::ops {
namespace {

using ir::DataType;
using ir::Dims;
using Results = std::vector<Array>;
constexpr double infinity = std::numeric_limits<double>::infinity();

// Channels [begin, begin + count) of the last axis.
Array channels(const OpCall& c, const Array& x, std::int64_t begin, std::int64_t count) {
  Dims dims = x.dims;
  if (dims.empty() || begin < 0 || count < 0 || begin > dims.back() || count > dims.back() - begin)
    c.error("{} has no channels {} to {}", show(dims), begin, begin + count);
  auto width = dims.back();
  dims.back() = count;
  Array y = zeros(x.dtype, dims);
  for (std::int64_t r = 0; r < (width == 0 ? 0 : size_of(x) / width); ++r)
    std::copy_n(x.values.begin() + r * width + begin, count, y.values.begin() + r * count);
  return y;
}

double broadcast_at(const Array& bias, std::int64_t b, std::int64_t n, std::int64_t i, std::int64_t j) {
  const Dims& d = bias.dims;
  return bias.values.at(at((((d[0] == 1 ? 0 : b) * d[1] + (d[1] == 1 ? 0 : n)) * d[2] + (d[2] == 1 ? 0 : i)) * d[3] + (d[3] == 1 ? 0 : j)));
}

void want_bias(const OpCall& c, std::size_t i, std::int64_t length, std::int64_t total) {
  if (!c.has(i)) return;
  const Dims& d = c.in(i).dims;
  if (d.size() != 4 || (d[2] != length && d[2] != 1) || (d[3] < total && d[3] != 1)) c.error("attention_bias is {} for {} x {} scores", show(d), length, total);
}

// ── rotary ───────────────────────────────────────────────────────────────────────────────────────────────────────────────

// input [B, S, H] or [B, N, S, D], position_ids [1] or [B, S], cos, sin
Results ms_rotary(const OpCall& c) {
  const Array &x = c.in(0), &positions = c.in(1);
  auto rotary_dim = c.integer("rotary_embedding_dim", 0), heads = c.integer("num_heads", 0);
  bool flat = x.dims.size() == 3;
  if (flat && heads == 0) {
    auto size = rotary_dim > 0 ? rotary_dim : 2 * c.in(2).dims.at(1);
    heads = size > 0 ? x.dims[2] / size : 0;
  }
  Array by_head = flat ? split_heads(c, x, heads) : x;
  if (by_head.dims.size() != 4) c.error("input is {}", show(x.dims));
  auto length = by_head.dims[2];
  bool offset = positions.values.size() == 1 && positions.dims.size() <= 1;
  auto row = [&](std::int64_t b, std::int64_t s) { return offset ? to_integer(positions.values[0]) + s : to_integer(positions.values.at(at(b * length + s))); };
  Array y = rotate(c, std::move(by_head), {c.in(2), c.in(3), c.integer("interleaved", 0) != 0, row}, rotary_dim);
  return {flat ? merge_heads(y) : std::move(y)};
}

// emb, q, q_rot, k, k_rot: y = x·cos(emb) + x_rot·sin(emb), with emb [B, S, D] for x [B, N, S, D]
Results gemma_rotary(const OpCall& c) {
  Array emb = c.in(0);
  if (emb.dims.size() == 3) emb.dims.insert(emb.dims.begin() + 1, 1);
  Array cos = map(emb, [](double v) { return std::cos(v); }), sin = map(emb, [](double v) { return std::sin(v); });
  auto product = [](double a, double b) { return a * b; };
  auto turned = [&](std::size_t x, std::size_t rotated) {
    auto dtype = c.in(x).dtype;
    return map2(c, dtype, map2(c, dtype, c.in(x), cos, product), map2(c, dtype, c.in(rotated), sin, product), [](double a, double b) { return a + b; });
  };
  return {turned(1, 2), turned(3, 4)};
}

// ── GroupQueryAttention ──────────────────────────────────────────────────────────────────────────────────────────────────

void normalize_heads(Array& x, const Array& weight, double epsilon) {
  auto size = x.dims[3];
  for (std::int64_t r = 0; r < size_of(x) / size; ++r) {
    double square = 0;
    for (std::int64_t d = 0; d < size; ++d) square += x.values[at(r * size + d)] * x.values[at(r * size + d)] / static_cast<double>(size);
    for (std::int64_t d = 0; d < size; ++d) x.values[at(r * size + d)] *= weight.values.at(at(d)) / std::sqrt(square + epsilon);
  }
}

// The cache with each row's new tokens behind its own valid ones.
Array with_new_tokens(const OpCall& c, const Array* past, const Array& x, std::int64_t capacity, const std::vector<std::int64_t>& start) {
  Array cache = zeros(x.dtype, {x.dims[0], x.dims[1], capacity, x.dims[3]});
  auto size = x.dims[3], added = x.dims[2], heads = x.dims[1];
  for (std::int64_t i = 0; i < x.dims[0] * heads; ++i) {
    auto kept = start[at(i / heads)];
    if (past) {
      auto have = past->dims.at(2);
      if (past->dims[0] != x.dims[0] || past->dims[1] != heads || past->dims[3] != size) c.error("past is {}, new is {}", show(past->dims), show(x.dims));
      std::copy_n(past->values.begin() + i * have * size, std::min(kept, have) * size, cache.values.begin() + i * capacity * size);
    }
    auto fits = std::clamp<std::int64_t>(capacity - kept, 0, added);
    std::copy_n(x.values.begin() + i * added * size, fits * size, cache.values.begin() + (i * capacity + kept) * size);
  }
  return cache;
}

void want_plain_gqa(const OpCall& c) {
  if (c.has(12) || c.has(13) || c.text("k_quant_type", "NONE") != "NONE") c.unsupported("a quantised cache");
  if (c.integer("sliding_window_cache", 0) != 0) c.unsupported("sliding_window_cache");
}

Results gqa(const OpCall& c) {
  want_plain_gqa(c);
  auto heads = c.required("num_heads"), kv_heads = c.required("kv_num_heads");
  if (heads <= 0 || kv_heads <= 0 || heads > 1 << 20 || heads % kv_heads != 0) c.error("{} query heads for {} key heads", heads, kv_heads);
  const Array& query = c.in(0);
  if (query.dims.size() != 3) c.error("query is {}", show(query.dims));
  auto batch = query.dims[0], length = query.dims[1], parts = c.has(1) ? heads : heads + 2 * kv_heads, size = query.dims[2] / parts;
  if (query.dims[2] % parts != 0) c.error("query is {} for {} heads", show(query.dims), parts);
  Array q = split_heads(c, c.has(1) ? query : channels(c, query, 0, heads * size), heads);
  Array k = split_heads(c, c.has(1) ? c.in(1) : channels(c, query, heads * size, kv_heads * size), kv_heads);
  Array v = split_heads(c, c.has(1) ? c.in(2) : channels(c, query, (heads + kv_heads) * size, kv_heads * size), kv_heads);

  if (k.dims[0] != batch || k.dims[2] != length || k.dims[3] != size || v.dims != k.dims)
    c.error("query {}, key {}, value {}", show(q.dims), show(k.dims), show(v.dims));

  auto total = c.integer(std::size_t{6});
  bool prompt = length == total;  // nothing is cached yet; rows may be padded on the right
  std::vector<std::int64_t> valid = c.ints(std::size_t{5}), start;
  if (valid.size() != at(batch)) c.error("seqlens_k is {} for a batch of {}", show(c.in(5).dims), batch);
  for (auto& n : valid) {
    ++n;
    if (n < 1 || n > total || (!prompt && n < length)) c.error("seqlens_k says {} valid tokens of {}", n, total);
    start.push_back(prompt ? 0 : n - length);
  }
  if (c.has(14)) normalize_heads(q, c.in(14), c.number("qk_norm_epsilon", 1e-6F));
  if (c.has(15)) normalize_heads(k, c.in(15), c.number("qk_norm_epsilon", 1e-6F));
  if (c.integer("do_rotary", 0) != 0) {
    auto row = [&](std::int64_t b, std::int64_t s) { return c.has(9) ? to_integer(c.in(9).values.at(at(b * length + s))) : start[at(b)] + s; };
    RotaryTable table{c.in(7), c.in(8), c.integer("rotary_interleaved", 0) != 0, row};
    auto rotary_dim = 2 * c.in(7).dims.at(1);
    q = rotate(c, std::move(q), table, rotary_dim);
    k = rotate(c, std::move(k), table, rotary_dim);
  }
  auto capacity = std::max(total, c.has(3) ? c.in(3).dims.at(2) : 0);
  Array present_key = with_new_tokens(c, c.maybe(3), k, capacity, start), present_value = with_new_tokens(c, c.maybe(4), v, capacity, start);

  want_bias(c, 10, length, total);
  auto window = c.integer("local_window_size", -1);
  bool causal = c.integer("causal", 1) != 0;
  double scale = c.number("scale", 0);
  Attention a{q, present_key, present_value, scale == 0 ? 1 / std::sqrt(static_cast<double>(size)) : scale, c.number("softcap", 0)};
  a.mask = [&](std::int64_t b, std::int64_t n, std::int64_t i, std::int64_t j) {
    auto position = start[at(b)] + i;
    if (j >= valid[at(b)] || (causal && j > position) || (window >= 0 && j <= position - window)) return -infinity;
    return c.has(10) ? broadcast_at(c.in(10), b, n, i, j) : 0.0;
  };
  bool smooth = c.integer("smooth_softmax", 0) > 0;
  if (c.has(11)) a.sink = [&](std::int64_t n) { return c.in(11).values.at(at(n)); };
  else if (smooth) a.sink = [](std::int64_t) { return 0.0; };
  Array y = merge_heads(a.attend());
  // Scores of hidden keys are left at 0.
  Array qk = c.integer("qk_output", 0) == 1 ? map(a.masked, [](double s) { return s == -infinity ? 0 : s; }) : a.weights;
  return {std::move(y), std::move(present_key), std::move(present_value), std::move(qk)};
}

// ── MultiHeadAttention and Attention ─────────────────────────────────────────────────────────────────────────────────────

// A key mask of one of the forms [B], [3B + 2] (lengths), [B, T], [B, S, T]: is key j hidden from query i?
bool hidden_by(const OpCall& c, const Array& mask, std::int64_t batch, std::int64_t b, std::int64_t i, std::int64_t j, std::int64_t length,
               std::int64_t total) {
  if (mask.dims.size() == 1) {
    if (size_of(mask) == batch || size_of(mask) == 3 * batch + 2) return j >= to_integer(mask.values[at(b)]);
    if (size_of(mask) == 2 * batch) return j >= to_integer(mask.values[at(b)]) || j < to_integer(mask.values[at(batch + b)]);
  }
  if (mask.dims.size() == 2 && mask.dims[1] <= total) return j < mask.dims[1] && mask.values.at(at(b * mask.dims[1] + j)) == 0;
  if (mask.dims.size() == 3) return mask.values.at(at((b * length + i) * total + j)) == 0;
  c.unsupported("a key mask of {}", show(mask.dims));
}

struct MaskedAttention {
  const Array* mask = nullptr;
  std::size_t bias = 0;  // which input holds attention_bias
  std::int64_t past = 0;
};

Results masked_attention(const OpCall& c, const Array& q, const Array& k, const Array& v, const MaskedAttention& m) {
  if (q.dims.size() != 4 || k.dims.size() != 4 || v.dims.size() != 4 || k.dims[0] != q.dims[0] || v.dims[0] != q.dims[0] || v.dims[1] != k.dims[1] ||
      k.dims[1] != q.dims[1] || k.dims[3] != q.dims[3] || v.dims[2] != k.dims[2])
    c.error("query {}, key {}, value {}", show(q.dims), show(k.dims), show(v.dims));
  auto batch = q.dims[0], length = q.dims[2], total = k.dims[2];
  want_bias(c, m.bias, length, total);
  bool causal = c.integer("unidirectional", 0) != 0;
  double filter = c.number("mask_filter_value", -10000), scale = c.number("scale", 0);
  Attention a{q, k, v, scale == 0 ? 1 / std::sqrt(static_cast<double>(q.dims[3])) : scale};
  a.mask = [&](std::int64_t b, std::int64_t n, std::int64_t i, std::int64_t j) {
    double s = c.has(m.bias) ? broadcast_at(c.in(m.bias), b, n, i, j) : 0;
    if (m.mask && hidden_by(c, *m.mask, batch, b, i, j, length, total)) s += filter;
    if (causal && j > m.past + i) s = -infinity;
    return s;
  };
  Array y = merge_heads(a.attend());
  return {std::move(y), k, v, a.scores};
}

Array with_bias(const OpCall& c, const Array& x, const Array& bias) {
  return map2(c, x.dtype, x, bias, [](double a, double b) { return a + b; });
}

// [B, S, N, parts, D] -> part [B, N, S, D]
Array unpacked(const Array& x, std::int64_t part) {
  const Dims& d = x.dims;
  Array y = zeros(x.dtype, {d[0], d[2], d[1], d[4]});
  for (std::int64_t n = 0; n < size_of(y); ++n) {
    auto channel = n % d[4], s = n / d[4] % d[1], head = n / d[4] / d[1] % d[2], b = n / d[4] / d[1] / d[2];
    y.values[at(n)] = x.values[at((((b * d[1] + s) * d[2] + head) * d[3] + part) * d[4] + channel)];
  }
  return y;
}

// query, key?, value?, bias?, key_padding_mask?, attention_bias?, past_key?, past_value?
Results mha(const OpCall& c) {
  auto heads = c.required("num_heads");
  const Array& query = c.in(0);
  Array q, k, v;
  if (query.dims.size() == 5) {
    q = unpacked(query, 0);
    k = unpacked(query, 1);
    v = unpacked(query, 2);
  } else {
    Array flat = query;
    auto width = query.dims.size() == 3 ? query.dims[2] : 0;
    if (c.has(3)) flat = with_bias(c, flat, channels(c, c.in(3), 0, width));
    q = split_heads(c, flat, heads);
    if (!c.has(2)) {
      if (c.in(1).dims.size() != 5) c.error("key is {} and value is absent", show(c.in(1).dims));
      k = unpacked(c.in(1), 0);
      v = unpacked(c.in(1), 1);
    } else if (c.in(1).dims.size() == 4) {
      k = c.in(1);
      v = c.in(2);
    } else {
      Array key = c.in(1), value = c.in(2);
      if (c.has(3)) {
        key = with_bias(c, key, channels(c, c.in(3), width, width));
        value = with_bias(c, value, channels(c, c.in(3), 2 * width, value.dims.back()));
      }
      k = split_heads(c, key, heads);
      v = split_heads(c, value, heads);
    }
  }
  auto past = c.has(6) ? c.in(6).dims.at(2) : 0;
  if (c.has(6)) {
    k = concat_length(c, c.in(6), k);
    v = concat_length(c, c.in(7), v);
  }
  return masked_attention(c, q, k, v, {c.maybe(4), 5, past});
}

// input, weights, bias?, mask_index?, past?, attention_bias?
Results ms_attention(const OpCall& c) {
  if (c.integer("do_rotary", 0) != 0) c.unsupported("do_rotary");
  auto heads = c.required("num_heads");
  Array qkv = matmul(c, c.in(0), c.in(1));
  if (c.has(2)) qkv = with_bias(c, qkv, c.in(2));
  auto each = qkv.dims.back() / 3;
  auto sizes = c.ints("qkv_hidden_sizes").value_or(std::vector<std::int64_t>{each, each, each});
  if (sizes.size() != 3 || sizes[0] + sizes[1] + sizes[2] != qkv.dims.back()) c.error("qkv_hidden_sizes don't add up to {}", qkv.dims.back());
  Array q = split_heads(c, channels(c, qkv, 0, sizes[0]), heads), k = split_heads(c, channels(c, qkv, sizes[0], sizes[1]), heads);
  Array v = split_heads(c, channels(c, qkv, sizes[0] + sizes[1], sizes[2]), heads);
  std::int64_t past = 0;
  if (c.has(4)) {
    const Array& both = c.in(4);
    if (both.dims.size() != 5 || both.dims[0] != 2) c.error("past is {}", show(both.dims));
    past = both.dims[3];
    auto half = size_of(both) / 2;
    Array keys{both.dtype, Dims(both.dims.begin() + 1, both.dims.end()), std::vector<double>(both.values.begin(), both.values.begin() + half)};
    Array values{both.dtype, keys.dims, std::vector<double>(both.values.begin() + half, both.values.end())};
    k = concat_length(c, keys, k);
    v = concat_length(c, values, v);
  }
  auto results = masked_attention(c, q, k, v, {c.maybe(3), 5, past});
  if (k.dims != v.dims) return {std::move(results[0])};
  Array present{k.dtype, k.dims, k.values};
  present.dims.insert(present.dims.begin(), 2);
  present.values.insert(present.values.end(), v.values.begin(), v.values.end());
  return {std::move(results[0]), std::move(present)};
}

// query [tokens, H] or [tokens, N, 3, D], key?, value?, bias?, token_offset, cumulative_sequence_length, attention_bias?
// Tokens attend to those of their own sequence; token order is the packed one.
// token_offset [B, S]: the places of all tokens in rows padded to S, in order, and behind them those of the padding. Kernels read either
// that or the ends; so they must say the same.
void check_token_offset(const OpCall& c, std::span<const std::int64_t> ends, std::int64_t tokens) {
  const auto offset = c.ints(std::size_t{4});
  const auto& dims = c.in(4).dims;
  if (dims.size() != 2 || dims[0] != static_cast<std::int64_t>(ends.size()) - 1) c.error("token_offset is {} for {} sequences", show(dims), ends.size() - 1);
  if (ends.front() != 0 || ends.back() != tokens) c.error("sequences from {} to {} of {} tokens", ends.front(), ends.back(), tokens);
  std::vector<std::int64_t> places, padding;
  for (std::int64_t row = 0; row < dims[0]; ++row)
    for (std::int64_t i = 0; i < dims[1]; ++i) (i < ends[at(row) + 1] - ends[at(row)] ? places : padding).push_back(row * dims[1] + i);
  if (static_cast<std::int64_t>(places.size()) != tokens)
    c.error("sequences of up to {} tokens, as token_offset says, are {} in all, expected {}", dims[1], places.size(), tokens);
  places.insert(places.end(), padding.begin(), padding.end());
  for (std::size_t i = 0; i < places.size(); ++i)
    if (offset[i] != places[i]) c.error("token_offset has {} at {}, expected {}", offset[i], i, places[i]);
}

Results packed_mha(const OpCall& c) {
  auto heads = c.required("num_heads");
  Array q, k, v;
  if (c.in(0).dims.size() == 4) {
    Array packed = c.in(0);
    packed.dims.insert(packed.dims.begin(), 1);
    q = unpacked(packed, 0);
    k = unpacked(packed, 1);
    v = unpacked(packed, 2);
  } else {
    auto by_head = [&](std::size_t i, std::int64_t begin) {
      Array x = c.in(i);
      if (x.dims.size() != 2) c.error("input {} is {}", i, show(x.dims));
      if (c.has(3)) x = with_bias(c, x, channels(c, c.in(3), begin, x.dims[1]));
      x.dims.insert(x.dims.begin(), 1);
      return split_heads(c, x, heads);
    };
    auto width = c.in(0).dims.at(1);
    q = by_head(0, 0);
    k = by_head(1, width);
    v = by_head(2, 2 * width);
  }
  auto ends = c.ints(std::size_t{5});
  auto tokens = q.dims[2];
  check_token_offset(c, ends, tokens);
  auto sequence = [&](std::int64_t token) { return std::upper_bound(ends.begin(), ends.end(), token) - ends.begin() - 1; };
  double scale = c.number("scale", 0);
  Attention a{q, k, v, scale == 0 ? 1 / std::sqrt(static_cast<double>(q.dims[3])) : scale};
  a.mask = [&](std::int64_t, std::int64_t n, std::int64_t i, std::int64_t j) {
    auto row = sequence(i);
    if (row != sequence(j)) return -infinity;
    return c.has(6) ? broadcast_at(c.in(6), row, n, i - ends[at(row)], j - ends[at(row)]) : 0.0;
  };
  Array y = merge_heads(a.attend());
  return {reshaped(y, {tokens, y.dims[2]})};
}

}  // namespace

void add_reference_ms_attention(ReferenceTable& table) {
  auto& ms = table.microsoft;
  ms["RotaryEmbedding"] = ms_rotary;
  ms["GemmaRotaryEmbedding"] = gemma_rotary;
  ms["GroupQueryAttention"] = gqa;
  ms["MultiHeadAttention"] = mha;
  ms["Attention"] = ms_attention;
  ms["PackedMultiHeadAttention"] = packed_mha;
}

}  // namespace mobius::ops
