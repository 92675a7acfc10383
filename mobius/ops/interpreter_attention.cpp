// References: scaled dot-product attention and rotary embedding of ai.onnx.
//   y = softmax(mask(cap(scale · q kᵀ))) v,   cap(s) = softcap · tanh(s / softcap)
#include <algorithm>
#include <cmath>
#include <limits>

#include "mobius/ops/interpreter_call.hpp"

namespace mobius::ops {

using ir::DataType;
using ir::Dims;
using Results = std::vector<Array>;

namespace {
constexpr double infinity = std::numeric_limits<double>::infinity();
}

Array split_heads(const OpCall& c, const Array& x, std::int64_t heads) {
  if (x.dims.size() != 3 || heads <= 0 || x.dims[2] % heads != 0) c.error("{} does not divide into {} heads", show(x.dims), heads);
  return transposed(reshaped(x, {x.dims[0], x.dims[1], heads, x.dims[2] / heads}), {0, 2, 1, 3});
}

Array merge_heads(const Array& x) { return reshaped(transposed(x, {0, 2, 1, 3}), {x.dims[0], x.dims[2], x.dims[1] * x.dims[3]}); }

Array concat_length(const OpCall& c, const Array& past, const Array& x) {
  if (past.dims.size() != 4 || x.dims.size() != 4 || past.dims[0] != x.dims[0] || past.dims[1] != x.dims[1] || past.dims[3] != x.dims[3]) {
    c.error("past is {}, new is {}", show(past.dims), show(x.dims));
  }
  auto before = past.dims[2] * past.dims[3], added = x.dims[2] * x.dims[3];
  Array y = zeros(x.dtype, {x.dims[0], x.dims[1], past.dims[2] + x.dims[2], x.dims[3]});
  for (std::int64_t i = 0; i < x.dims[0] * x.dims[1]; ++i) {
    std::copy_n(past.values.begin() + i * before, before, y.values.begin() + i * (before + added));
    std::copy_n(x.values.begin() + i * added, added, y.values.begin() + i * (before + added) + before);
  }
  return y;
}

Array Attention::attend() {
  auto batch = q.dims[0], heads = q.dims[1], length = q.dims[2], size = q.dims[3];
  auto kv_heads = k.dims[1], total = k.dims[2], value_size = v.dims[3], group = heads / kv_heads;
  scores = zeros(q.dtype, {batch, heads, length, total});
  capped = masked = weights = scores;
  Array y = zeros(q.dtype, {batch, heads, length, value_size});
  for (std::int64_t b = 0; b < batch; ++b) {
    for (std::int64_t n = 0; n < heads; ++n) {
      auto kv = b * kv_heads + n / group;
      for (std::int64_t i = 0; i < length; ++i) {
        auto row = (b * heads + n) * length + i;
        double top = sink ? sink(n) : -infinity;
        for (std::int64_t j = 0; j < total; ++j) {
          double s = 0;
          for (std::int64_t d = 0; d < size; ++d) s += q.values[at(row * size + d)] * k.values[at((kv * total + j) * size + d)];
          s *= scale;
          scores.values[at(row * total + j)] = s;
          if (softcap > 0) s = softcap * std::tanh(s / softcap);
          capped.values[at(row * total + j)] = s;
          if (mask) s += mask(b, n, i, j);
          masked.values[at(row * total + j)] = s;
          top = std::max(top, s);
        }
        if (top == -infinity) continue;  // sees nothing: zeros
        double sum = sink ? std::exp(sink(n) - top) : 0;
        for (std::int64_t j = 0; j < total; ++j) sum += weights.values[at(row * total + j)] = std::exp(masked.values[at(row * total + j)] - top);
        for (std::int64_t j = 0; j < total; ++j) {
          double w = weights.values[at(row * total + j)] /= sum;
          for (std::int64_t d = 0; d < value_size; ++d) y.values[at(row * value_size + d)] += w * v.values[at((kv * total + j) * value_size + d)];
        }
      }
    }
  }
  return y;
}

Array rotate(const OpCall& c, Array x, const RotaryTable& table, std::int64_t rotary_dim) {
  auto size = x.dims[3], rotated = rotary_dim > 0 ? rotary_dim : size, half = rotated / 2;
  if (rotated > size || rotated % 2 != 0 || table.cos.dims.empty() || table.cos.dims.back() != half || table.sin.dims != table.cos.dims) {
    c.error("cos is {}, sin is {}, for {} rotated channels of {}", show(table.cos.dims), show(table.sin.dims), rotated, size);
  }
  auto rows = size_of(table.cos) / std::max<std::int64_t>(half, 1);
  const Array from = x;
  for (std::int64_t r = 0; r < x.dims[0] * x.dims[1] * x.dims[2]; ++r) {
    auto b = r / (x.dims[1] * x.dims[2]), s = r % x.dims[2], row = table.row(b, s);
    if (row < 0 || row >= rows) c.error("position {} of {}", row, rows);
    for (std::int64_t i = 0; i < half; ++i) {
      auto first = at(r * size + (table.interleaved ? 2 * i : i)), second = at(r * size + (table.interleaved ? 2 * i + 1 : i + half));
      double cos = table.cos.values[at(row * half + i)], sin = table.sin.values[at(row * half + i)];
      x.values[first] = from.values[first] * cos - from.values[second] * sin;
      x.values[second] = from.values[second] * cos + from.values[first] * sin;
    }
  }
  return x;
}

namespace {

// X, cos_cache, sin_cache, position_ids?
Results rotary_embedding(const OpCall& c) {
  const Array& x = c.in(0);
  bool flat = x.dims.size() == 3;
  Array heads = flat ? split_heads(c, x, c.required("num_heads")) : x;
  if (heads.dims.size() != 4) c.error("input is {}", show(x.dims));
  auto length = heads.dims[2];
  auto row = [&](std::int64_t b, std::int64_t s) { return c.has(3) ? to_integer(c.in(3).values.at(at(b * length + s))) : b * length + s; };
  Array y = rotate(c, std::move(heads), {c.in(1), c.in(2), c.integer("interleaved", 0) != 0, row}, c.integer("rotary_embedding_dim", 0));
  return {flat ? merge_heads(y) : std::move(y)};
}

// The attention mask as a number to add. Keys beyond the mask's last axis are hidden.
class Mask {
 public:
  Mask(const OpCall& c, const Array* mask, const Dims& scores) : mask_(mask) {
    if (!mask) return;
    Dims dims = mask->dims;
    if (dims.empty() || dims.size() > 4 || dims.back() > scores[3]) c.error("attn_mask is {} for scores {}", show(dims), show(scores));
    length_ = dims.back() == 1 ? scores[3] : dims.back();
    Dims covered = scores;
    covered[3] = length_;
    if (broadcast_dims(c, dims, covered) != covered) c.error("attn_mask is {} for scores {}", show(dims), show(scores));
    strides_ = broadcast_strides(dims, covered);
  }

  double operator()(std::int64_t b, std::int64_t n, std::int64_t i, std::int64_t j) const {
    if (!mask_) return 0;
    if (j >= length_) return -infinity;
    double value = mask_->values[at(b * strides_[0] + n * strides_[1] + i * strides_[2] + j * strides_[3])];
    return mask_->dtype == DataType::boolean ? (value != 0 ? 0 : -infinity) : value;
  }

 private:
  const Array* mask_;
  std::int64_t length_ = 0;
  Dims strides_;
};

// Q, K, V, attn_mask?, past_key?, past_value?, nonpad_kv_seqlen? -> Y, present_key, present_value, qk_matmul_output
Results attention(const OpCall& c) {
  bool flat = c.in(0).dims.size() == 3;
  Array q = flat ? split_heads(c, c.in(0), c.required("q_num_heads")) : c.in(0);
  Array k = flat ? split_heads(c, c.in(1), c.required("kv_num_heads")) : c.in(1);
  Array v = flat ? split_heads(c, c.in(2), c.required("kv_num_heads")) : c.in(2);
  auto past = c.has(4) ? c.in(4).dims.at(2) : 0;
  if (c.has(4)) {
    k = concat_length(c, c.in(4), k);
    v = concat_length(c, c.in(5), v);
  }
  bool fits = q.dims.size() == 4 && k.dims.size() == 4 && v.dims.size() == 4 && q.dims[3] == k.dims[3] && k.dims[2] == v.dims[2] && k.dims[1] == v.dims[1] &&
              k.dims[1] > 0 && q.dims[1] % k.dims[1] == 0 && q.dims[0] == k.dims[0] && k.dims[0] == v.dims[0];
  if (!fits) c.error("Q {}, K {}, V {}", show(q.dims), show(k.dims), show(v.dims));
  auto length = q.dims[2], total = k.dims[2];
  Mask mask(c, c.maybe(3), {q.dims[0], q.dims[1], length, total});
  bool causal = c.integer("is_causal", 0) != 0;
  auto left = c.integer("left_window_size", -1), right = c.integer("right_window_size", -1);
  auto hides = [&](std::int64_t b, std::int64_t i, std::int64_t j) {
    auto valid = c.has(6) ? to_integer(c.in(6).values.at(at(b))) : total;
    auto position = i + (c.has(6) ? valid - length : past);
    return j >= valid || (causal && j > position) || (left >= 0 && j < position - left) || (right >= 0 && j > position + right);
  };
  double scale = c.number("scale", 1 / std::sqrt(static_cast<double>(q.dims[3])));
  Attention a{q, k, v, scale, c.number("softcap", 0)};
  a.mask = [&](std::int64_t b, std::int64_t n, std::int64_t i, std::int64_t j) { return hides(b, i, j) ? -infinity : mask(b, n, i, j); };
  Array y = a.attend();
  auto mode = c.integer("qk_matmul_output_mode", 0);
  Array qk = mode == 0 ? a.scores : (mode == 1 ? a.capped : (mode == 2 ? a.masked : a.weights));
  return {flat ? merge_heads(y) : std::move(y), std::move(k), std::move(v), std::move(qk)};
}

}  // namespace

void add_reference_attention(ReferenceTable& table) {
  table.onnx["RotaryEmbedding"] = rotary_embedding;
  table.onnx["Attention"] = attention;
}

}  // namespace mobius::ops
