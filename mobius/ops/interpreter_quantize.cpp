// References: linear quantisation, and products and look-ups with packed weights.
#include <algorithm>
#include <cmath>

#include "mobius/ops/interpreter_call.hpp"

namespace mobius::ops {
namespace {

using ir::DataType;
using ir::Dims;
using Results = std::vector<Array>;

// The index of element n's scale: one for all, one per slice of the axis, or one per block of it.
class ScaleIndex {
 public:
  ScaleIndex(const OpCall& c, const Array& x, const Array& scale) : dims_(x.dims), steps_(strides_of(x.dims)), block_(c.integer("block_size", 0)) {
    if (scale.values.size() == 1) return;
    axis_ = axis_of(c, c.integer("axis", 1), x.dims.size());
    Dims want = x.dims;
    want[axis_] = block_ > 0 ? (want[axis_] + block_ - 1) / block_ : want[axis_];
    bool fits = block_ > 0 ? scale.dims == want : scale.dims == Dims{want[axis_]};
    if (!fits || block_ < 0) c.error("scale is {} for {} with block_size {} on axis {}", show(scale.dims), show(x.dims), block_, axis_);
    scale_steps_ = block_ > 0 ? strides_of(want) : Dims(want.size(), 0);
    if (block_ == 0) scale_steps_[axis_] = 1;
  }

  std::size_t operator()(std::int64_t n) const {
    std::int64_t index = 0;
    for (std::size_t k = 0; k < scale_steps_.size(); ++k) {
      auto i = n / steps_[k] % dims_[k];
      index += (k == axis_ && block_ > 0 ? i / block_ : i) * scale_steps_[k];
    }
    return at(index);
  }

 private:
  Dims dims_, steps_, scale_steps_;
  std::int64_t block_;
  std::size_t axis_ = 0;
};

Results dequantize(const OpCall& c) {
  const Array &x = c.in(0), &scale = c.in(1);
  ScaleIndex index(c, x, scale);
  auto dtype = static_cast<DataType>(c.integer("output_dtype", static_cast<std::int64_t>(scale.dtype)));
  Array y = zeros(dtype, x.dims);
  for (std::int64_t n = 0; n < size_of(x); ++n) {
    auto i = index(n);
    y.values[at(n)] = (x.values[at(n)] - (c.has(2) ? c.in(2).values.at(i) : 0)) * scale.values.at(i);
  }
  return {std::move(y)};
}

struct Limits {
  double low, high;
};

Limits limits_of(const OpCall& c, DataType dtype) {
  switch (dtype) {
    case DataType::int8: return {-128, 127};
    case DataType::uint8: return {0, 255};
    case DataType::int16: return {-32768, 32767};
    case DataType::uint16: return {0, 65535};
    case DataType::int4: return {-8, 7};
    case DataType::uint4: return {0, 15};
    case DataType::int2: return {-2, 1};
    case DataType::uint2: return {0, 3};
    default: c.unsupported("quantisation to {}", ir::text_name(dtype));
  }
}

Results quantize(const OpCall& c) {
  const Array &x = c.in(0), &scale = c.in(1);
  ScaleIndex index(c, x, scale);
  auto otherwise = c.has(2) ? c.in(2).dtype : DataType::uint8;
  auto declared = c.integer("output_dtype", 0);
  auto dtype = declared != 0 ? static_cast<DataType>(declared) : otherwise;
  auto limits = limits_of(c, dtype);
  Array y = zeros(dtype, x.dims);
  for (std::int64_t n = 0; n < size_of(x); ++n) {
    auto i = index(n);
    double q = std::nearbyint(x.values[at(n)] / scale.values.at(i)) + (c.has(2) ? c.in(2).values.at(i) : 0);
    y.values[at(n)] = std::clamp(q, limits.low, limits.high);
  }
  return {std::move(y)};
}

// Element i of a row of values packed into bytes, the lowest bits first.
double packed_at(const Array& bytes, std::int64_t row_start, std::int64_t i, std::int64_t bits) {
  auto per_byte = 8 / bits;
  auto byte = static_cast<std::int64_t>(bytes.values.at(at(row_start + i / per_byte)));
  return static_cast<double>(byte >> (i % per_byte * bits) & ((std::int64_t{1} << bits) - 1));
}

std::int64_t packed_bits(const OpCall& c) {
  auto bits = c.integer("bits", 4);
  if (bits != 2 && bits != 4 && bits != 8) c.error("bits is {}, expected 2, 4 or 8", bits);
  return bits;
}

// A [..., K], B [N, blocks, block bytes], scales [N, blocks], zero_points?, g_idx?, bias? -> [..., N]
Results matmul_nbits(const OpCall& c) {
  auto k = c.required("K"), n = c.required("N"), block = c.required("block_size"), bits = packed_bits(c);
  if (k <= 0 || n <= 0 || block < 16 || std::max({k, n, block}) > 1 << 27) c.error("K {}, N {}, block_size {}", k, n, block);
  auto blocks = (k + block - 1) / block, row_bytes = blocks * block * bits / 8;
  const Array &bytes = c.in(1), &scales = c.in(2);
  if (size_of(bytes) != n * row_bytes || size_of(scales) != n * blocks) c.error("B is {}, scales are {}", show(bytes.dims), show(scales.dims));
  bool packed_zeros = c.has(3) && c.in(3).dtype == DataType::uint8;
  auto zero_row = (blocks * bits + 7) / 8;
  Array weight = zeros(c.in(0).dtype, {k, n});
  for (std::int64_t column = 0; column < n; ++column) {
    for (std::int64_t i = 0; i < k; ++i) {
      auto group = c.has(4) ? to_integer(c.in(4).values.at(at(i))) : i / block;
      double zero = std::ldexp(1.0, static_cast<int>(bits) - 1);
      if (c.has(3)) zero = packed_zeros ? packed_at(c.in(3), column * zero_row, group, bits) : c.in(3).values.at(at(column * blocks + group));
      weight.values[at(i * n + column)] = (packed_at(bytes, column * row_bytes, i, bits) - zero) * scales.values.at(at(column * blocks + group));
    }
  }
  Array y = matmul(c, c.in(0), weight);
  if (c.has(5)) y = map2(c, y.dtype, y, c.in(5), [](double v, double b) { return v + b; });
  return {std::move(y)};
}

// data, indices, scales, zero_points? ; rows are gathered on axis 0, blocks lie on the last axis
Results gather_block_quantized(const OpCall& c) {
  const Array &data = c.in(0), &indices = c.in(1), &scales = c.in(2);
  bool packed = data.dtype == DataType::uint8;
  auto bits = packed ? packed_bits(c) : 8;
  auto rank = data.dims.size(), per_byte = at(packed ? 8 / bits : 1);
  auto block = c.integer("block_size", 128);
  if (rank < 2 || block < 16 || block > 1 << 27 || axis_of(c, c.integer("gather_axis", 0), rank) != 0 ||
      axis_of(c, c.integer("quantize_axis", 1), rank) != rank - 1) {
    c.unsupported("data {} with gather_axis {}, quantize_axis {}", show(data.dims), c.integer("gather_axis", 0), c.integer("quantize_axis", 1));
  }
  auto bytes = data.dims.back(), width = bytes * static_cast<std::int64_t>(per_byte), blocks = (width + block - 1) / block;
  auto rows = count_of(data.dims, 1, rank - 1), size = data.dims[0];
  Dims dims = indices.dims;
  dims.insert(dims.end(), data.dims.begin() + 1, data.dims.end());
  dims.back() = width;
  Array y = zeros(scales.dtype, dims);
  auto zero_bytes = (blocks * bits + 7) / 8;
  for (std::int64_t i = 0; i < size_of(indices) * rows; ++i) {
    auto index = to_integer(indices.values[at(i / rows)]);
    if (index < 0) index += size;
    if (index < 0 || index >= size) continue;  // zeros
    auto row = index * rows + i % rows;
    for (std::int64_t k = 0; k < width; ++k) {
      auto group = row * blocks + k / block;
      double zero = packed ? std::ldexp(1.0, static_cast<int>(bits) - 1) : 0;
      if (c.has(3)) zero = packed ? packed_at(c.in(3), row * zero_bytes, k / block, bits) : c.in(3).values.at(at(group));
      double q = packed ? packed_at(data, row * bytes, k, bits) : data.values[at(row * bytes + k)];
      y.values[at(i * width + k)] = (q - zero) * scales.values.at(at(group));
    }
  }
  return {std::move(y)};
}

}  // namespace

void add_reference_quantize(ReferenceTable& table) {
  table.onnx["DequantizeLinear"] = dequantize;
  table.onnx["QuantizeLinear"] = quantize;
  table.microsoft["MatMulNBits"] = matmul_nbits;
  table.microsoft["GatherBlockQuantized"] = gather_block_quantized;
}

}  // namespace mobius::ops
