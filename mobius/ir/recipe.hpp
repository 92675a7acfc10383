// Recipes: lazy steps over tensors. Making one costs nothing; reading a byte range evaluates just what it needs.
//
//   auto qkv = placeholder("qkv_proj.weight", bf16, {96, 64});
//   auto q = slice(qkv, 0, 0, 64);                        // rows 0..63
//   auto packed = concat({q, k, v}, 0);                  // three byte ranges, written one after the other
//   auto wt = transpose(packed, {1, 0});
//
// Steps that undo or contain each other compose: transpose of transpose, slice of concat, concat of adjacent slices,
// cast to the same type, all vanish. Casts move outward over steps that only move elements.
//
// A range of a transpose or take is gathered from all over its source: read 16 MiB or more at a time. Other steps stream.
#pragma once
#include <functional>

#include "mobius/ir/tensor_data.hpp"

namespace mobius::ir {

TensorPtr cast(TensorPtr x, DataType to);
TensorPtr reshape(TensorPtr x, Dims dims);  // same number of elements
TensorPtr transpose(TensorPtr x, std::vector<std::int64_t> perm);
TensorPtr slice(TensorPtr x, std::int64_t axis, std::int64_t begin, std::int64_t end);
TensorPtr concat(std::vector<TensorPtr> xs, std::int64_t axis);
TensorPtr stack(const std::vector<TensorPtr>& xs);                                  // adds a leading axis
TensorPtr take(TensorPtr x, std::int64_t axis, std::vector<std::int64_t> indices);  // rows in another order
TensorPtr affine(TensorPtr x, double scale, double offset);                         // x·scale + offset, computed in double, float types only
TensorPtr pad_end(TensorPtr x, std::int64_t axis, std::int64_t to, double value = 0);

// A tensor computed row by row (rows of the last axis) by a function that can start anywhere; e.g. rope tables.
// `fill(first_row, rows, out)` writes rows·dims.back() float32 values; the result is cast to dtype. `identity` names the function
// and all its parameters.
using RowFunction = std::function<void(std::int64_t first_row, std::int64_t rows, float* out)>;
TensorPtr computed(DataType dtype, Dims dims, std::string identity, RowFunction fill);

// An element-wise function of equally shaped (or one-element) float sources, computed in double.
using ElementFunction = std::function<double(std::span<const double>)>;
TensorPtr elementwise(std::vector<TensorPtr> xs, DataType dtype, std::string identity, ElementFunction f);

}  // namespace mobius::ir
