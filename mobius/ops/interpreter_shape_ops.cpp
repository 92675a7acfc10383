// References: operators that make, read or change shapes.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "mobius/ops/interpreter_call.hpp"

namespace mobius::ops {
namespace {

using ir::DataType;
using ir::Dims;
using Results = std::vector<Array>;

Results constant(const OpCall& c) {
  for (const auto& [name, attribute] : c.attributes) {
    if (auto v = std::get_if<ir::TensorPtr>(&attribute); v && *v) return {to_array(**v)};
    if (auto v = std::get_if<std::int64_t>(&attribute)) return {scalar_of(DataType::int64, static_cast<double>(*v))};
    if (auto v = std::get_if<std::vector<std::int64_t>>(&attribute)) return {vector_of(*v)};
    if (auto v = std::get_if<float>(&attribute)) return {scalar_of(DataType::float32, static_cast<double>(*v))};
    if (auto v = std::get_if<std::vector<float>>(&attribute)) {
      return {{DataType::float32, {static_cast<std::int64_t>(v->size())}, std::vector<double>(v->begin(), v->end())}};
    }
  }
  c.unsupported("a constant of this kind");
}

Results constant_of_shape(const OpCall& c) {
  auto dims = c.ints(std::size_t{0});
  auto value = c.attribute("value");
  if (!value) return {zeros(DataType::float32, dims)};
  auto tensor = std::get_if<ir::TensorPtr>(value);
  if (!tensor || !*tensor || (*tensor)->elements() != 1) c.error("attribute 'value' is no tensor of one element");
  return {filled((*tensor)->dtype(), dims, to_array(**tensor).values[0])};
}

Results eye_like(const OpCall& c) {
  const Array& x = c.in(0);
  if (x.dims.size() != 2) c.error("input is {}, expected rank 2", show(x.dims));
  Array y = zeros(static_cast<DataType>(c.integer("dtype", static_cast<std::int64_t>(x.dtype))), x.dims);
  auto k = c.integer("k", 0);
  for (std::int64_t i = 0; i < x.dims[0]; ++i) {
    if (i + k >= 0 && i + k < x.dims[1]) y.values[at(i * x.dims[1] + i + k)] = 1;
  }
  return {std::move(y)};
}

Results range(const OpCall& c) {
  double start = c.number(std::size_t{0}), limit = c.number(std::size_t{1}), delta = c.number(std::size_t{2});
  if (delta == 0) c.error("delta is 0");
  double n = std::max(0.0, std::ceil((limit - start) / delta));
  Array y = zeros(c.in(0).dtype, {to_integer(n)});
  for (std::size_t i = 0; i < y.values.size(); ++i) y.values[i] = start + static_cast<double>(i) * delta;
  return {std::move(y)};
}

Results shape(const OpCall& c) {
  const Dims& dims = c.in(0).dims;
  auto n = static_cast<std::int64_t>(dims.size());
  auto clamp = [n](std::int64_t i) { return std::clamp<std::int64_t>(i < 0 ? i + n : i, 0, n); };
  auto begin = clamp(c.integer("start", 0)), end = std::max(begin, clamp(c.integer("end", n)));
  return {vector_of(std::vector<std::int64_t>(dims.begin() + begin, dims.begin() + end))};
}

Results size(const OpCall& c) { return {scalar_of(DataType::int64, static_cast<double>(c.in(0).values.size()))}; }

Results reshape(const OpCall& c) {
  const Array& x = c.in(0);
  auto dims = c.ints_from(1, "shape");
  if (!dims) c.error("no shape is given");
  std::int64_t known = 1;
  std::optional<std::size_t> open;
  for (std::size_t i = 0; i < dims->size(); ++i) {
    auto& d = (*dims)[i];
    if (d == 0 && c.integer("allowzero", 0) == 0) {
      if (i >= x.dims.size()) c.error("can't reshape {} to {}", show(x.dims), show(*dims));
      d = x.dims[i];
    }
    if (d == -1 && !open) {
      open = i;
    } else if (d < 0 || __builtin_mul_overflow(known, d, &known)) {
      c.error("can't reshape {} to {}", show(x.dims), show(*dims));
    }
  }
  if (open) (*dims)[*open] = known == 0 ? 0 : size_of(x) / known;
  if (known * (open ? (*dims)[*open] : 1) != size_of(x)) c.error("can't reshape {} to {}", show(x.dims), show(*dims));
  return {reshaped(x, *dims)};
}

Results flatten(const OpCall& c) {
  const Array& x = c.in(0);
  auto n = static_cast<std::int64_t>(x.dims.size()), axis = c.integer("axis", 1);
  if (axis < -n || axis > n) c.error("axis {} is outside a tensor of rank {}", axis, n);
  auto split = at(axis < 0 ? axis + n : axis);
  return {reshaped(x, {count_of(x.dims, 0, split), count_of(x.dims, split, x.dims.size())})};
}

Results squeeze(const OpCall& c) {
  const Array& x = c.in(0);
  auto axes = c.ints_from(1, "axes");
  std::vector<bool> drop(x.dims.size());
  for (std::size_t i = 0; i < drop.size(); ++i) drop[i] = !axes && x.dims[i] == 1;
  for (auto a : axes.value_or(std::vector<std::int64_t>{})) {
    auto i = axis_of(c, a, x.dims.size());
    if (x.dims[i] != 1) c.error("axis {} of {} is not 1", a, show(x.dims));
    drop[i] = true;
  }
  Dims dims;
  for (std::size_t i = 0; i < drop.size(); ++i) {
    if (!drop[i]) dims.push_back(x.dims[i]);
  }
  return {reshaped(x, std::move(dims))};
}

Results unsqueeze(const OpCall& c) {
  const Array& x = c.in(0);
  auto axes = c.ints_from(1, "axes").value_or(std::vector<std::int64_t>{});
  std::vector<bool> added(x.dims.size() + axes.size());
  for (auto a : axes) {
    auto i = axis_of(c, a, added.size());
    if (added[i]) c.error("axis {} is given twice", a);
    added[i] = true;
  }
  Dims dims;
  std::size_t from = 0;
  for (bool one : added) dims.push_back(one ? 1 : x.dims[from++]);
  return {reshaped(x, std::move(dims))};
}

Results transpose(const OpCall& c) {
  const Array& x = c.in(0);
  auto rank = x.dims.size();
  std::vector<std::size_t> perm(rank);
  for (std::size_t i = 0; i < rank; ++i) perm[i] = rank - 1 - i;
  if (auto given = c.ints("perm")) {
    if (given->size() != rank) c.error("perm has {} entries for {}", given->size(), show(x.dims));
    std::vector<bool> seen(rank);
    for (std::size_t i = 0; i < rank; ++i) {
      perm[i] = axis_of(c, (*given)[i], rank);
      if (seen[perm[i]]) c.error("perm names axis {} twice", perm[i]);
      seen[perm[i]] = true;
    }
  }
  return {transposed(x, perm)};
}

Results concat(const OpCall& c) {
  Dims dims = c.in(0).dims;
  auto axis = axis_of(c, c.required("axis"), dims.size());
  dims[axis] = 0;
  for (std::size_t i = 0; i < c.inputs.size(); ++i) {
    Dims other = c.in(i).dims;
    if (other.size() != dims.size()) c.error("inputs are {} and {}", show(c.in(0).dims), show(other));
    dims[axis] += other[axis];
    other[axis] = dims[axis];
    if (other != dims) c.error("inputs are {} and {}", show(c.in(0).dims), show(c.in(i).dims));
  }
  Array y = zeros(c.in(0).dtype, dims);
  auto outer = count_of(dims, 0, axis), row = count_of(dims, axis, dims.size());
  std::int64_t start = 0;
  for (std::size_t i = 0; i < c.inputs.size(); ++i) {
    const Array& x = c.in(i);
    auto width = count_of(x.dims, axis, x.dims.size());
    for (std::int64_t o = 0; o < outer; ++o) std::copy_n(x.values.begin() + o * width, width, y.values.begin() + o * row + start);
    start += width;
  }
  return {std::move(y)};
}

// Elements [begin, begin + count) of an axis.
Array part(const Array& x, std::size_t axis, std::int64_t begin, std::int64_t count) {
  Dims dims = x.dims;
  dims[axis] = count;
  Array y = zeros(x.dtype, dims);
  auto outer = count_of(dims, 0, axis), inner = count_of(dims, axis + 1, dims.size());
  for (std::int64_t o = 0; o < outer; ++o)
    std::copy_n(x.values.begin() + (o * x.dims[axis] + begin) * inner, count * inner, y.values.begin() + o * count * inner);
  return y;
}

Results split(const OpCall& c) {
  const Array& x = c.in(0);
  auto axis = axis_of(c, c.integer("axis", 0), x.dims.size());
  auto sizes = c.ints_from(1, "split");
  auto n = c.integer("num_outputs", static_cast<std::int64_t>(c.outputs)), total = x.dims[axis];
  if (!sizes) {
    if (n <= 0) c.error("{} outputs", n);
    auto each = (total + n - 1) / n;
    sizes.emplace();
    for (std::int64_t i = 0; i < n; ++i) sizes->push_back(std::clamp<std::int64_t>(total - i * each, 0, each));
  }
  Results parts;
  std::int64_t begin = 0;
  for (auto size : *sizes) {
    if (size < 0 || size > total - begin) c.error("split {} of an axis of {}", show(*sizes), total);
    parts.push_back(part(x, axis, begin, size));
    begin += size;
  }
  if (begin != total) c.error("split {} of an axis of {}", show(*sizes), total);
  return parts;
}

Results slice(const OpCall& c) {
  const Array& x = c.in(0);
  auto starts = c.ints_from(1, "starts"), ends = c.ints_from(2, "ends"), axes = c.ints_from(3, "axes");
  if (!starts || !ends) c.error("no starts or ends");
  if (!axes) {
    axes.emplace(starts->size());
    std::iota(axes->begin(), axes->end(), std::int64_t{0});
  }
  auto steps = c.has(4) ? c.ints(4) : std::vector<std::int64_t>(starts->size(), 1);
  if (ends->size() != starts->size() || axes->size() != starts->size() || steps.size() != starts->size())
    c.error("starts, ends, axes and steps differ in length");
  Dims dims = x.dims, own = strides_of(x.dims), strides = own;
  std::int64_t first = 0;
  for (std::size_t i = 0; i < axes->size(); ++i) {
    auto axis = axis_of(c, (*axes)[i], x.dims.size());
    auto n = x.dims[axis], by = steps[i];
    if (by == 0) c.error("step 0 on axis {}", axis);
    by = std::clamp(by, -n - 1, n + 1);
    auto wrap = [n](std::int64_t v) { return v < 0 ? v + n : v; };
    auto low = by > 0 ? 0 : std::int64_t{-1}, high = std::max(by > 0 ? n : n - 1, low);
    auto from = std::clamp(wrap((*starts)[i]), low, high), to = std::clamp(wrap((*ends)[i]), low, high);
    dims[axis] = by > 0 ? (to > from ? (to - from - 1) / by + 1 : 0) : (from > to ? (from - to - 1) / -by + 1 : 0);
    if (dims[axis] > 0) first += from * own[axis];
    strides[axis] = by * own[axis];
  }
  Array y = zeros(x.dtype, dims);
  walk<1>(dims, {strides}, [&](std::int64_t k, const std::array<std::int64_t, 1>& o) { y.values[at(k)] = x.values[at(first + o[0])]; });
  return {std::move(y)};
}

Results expand(const OpCall& c) {
  const Array& x = c.in(0);
  Array y = zeros(x.dtype, broadcast_dims(c, x.dims, c.ints(std::size_t{1})));
  walk<1>(y.dims, {broadcast_strides(x.dims, y.dims)}, [&](std::int64_t n, const std::array<std::int64_t, 1>& o) { y.values[at(n)] = x.values[at(o[0])]; });
  return {std::move(y)};
}

Results tile(const OpCall& c) {
  const Array& x = c.in(0);
  auto repeats = c.ints(std::size_t{1});
  if (repeats.size() != x.dims.size()) c.error("{} repeats for {}", repeats.size(), show(x.dims));
  Dims dims = x.dims, own = strides_of(x.dims);
  for (std::size_t i = 0; i < dims.size(); ++i) {
    if (repeats[i] < 0 || repeats[i] > 1 << 27) c.error("{} repeats", repeats[i]);
    dims[i] *= repeats[i];
  }
  Array y = zeros(x.dtype, dims);
  Dims steps = strides_of(dims);
  for (std::int64_t n = 0; n < size_of(y); ++n) {
    std::int64_t from = 0;
    for (std::size_t i = 0; i < dims.size(); ++i) from += n / steps[i] % dims[i] % x.dims[i] * own[i];
    y.values[at(n)] = x.values[at(from)];
  }
  return {std::move(y)};
}

Results pad(const OpCall& c) {
  const Array& x = c.in(0);
  auto rank = x.dims.size();
  auto pads = c.ints_from(1, "pads");
  if (!pads) c.error("no pads");
  double value = c.has(2) ? c.number(std::size_t{2}) : c.number("value", 0);
  std::vector<std::int64_t> axes(rank);
  std::iota(axes.begin(), axes.end(), std::int64_t{0});
  if (c.has(3)) axes = c.ints(3);
  if (pads->size() != 2 * axes.size()) c.error("{} pads for {} axes", pads->size(), axes.size());
  auto mode = c.text("mode", "constant");
  Dims dims = x.dims, begin(rank, 0), own = strides_of(x.dims);
  for (std::size_t i = 0; i < axes.size(); ++i) {
    auto a = axis_of(c, axes[i], rank);
    if (std::max(std::abs((*pads)[i]), std::abs((*pads)[i + axes.size()])) > 1 << 27) c.unsupported("pads {}", show(*pads));
    begin[a] = (*pads)[i];
    dims[a] += (*pads)[i] + (*pads)[i + axes.size()];
  }
  Array y = filled(x.dtype, dims, value);
  Dims steps = strides_of(dims);
  for (std::int64_t n = 0; n < size_of(y); ++n) {
    std::int64_t from = 0;
    bool inside = true;
    for (std::size_t i = 0; i < rank && inside; ++i) {
      auto size = x.dims[i], k = n / steps[i] % dims[i] - begin[i];
      if (mode == "edge") {
        k = std::clamp<std::int64_t>(k, 0, size - 1);
      } else if (mode == "wrap" && size > 0) {
        k = (k % size + size) % size;
      } else if (mode == "reflect" && size > 1) {
        auto period = 2 * (size - 1);
        k = (k % period + period) % period;
        if (k >= size) k = period - k;
      }
      inside = k >= 0 && k < size;
      from += k * own[i];
    }
    if (inside) y.values[at(n)] = x.values[at(from)];
  }
  return {std::move(y)};
}

Results trilu(const OpCall& c) {
  Array y = c.in(0);
  if (y.dims.size() < 2) c.error("input is {}, expected rank 2 or more", show(y.dims));
  auto k = c.has(1) ? c.integer(std::size_t{1}) : 0, columns = y.dims.back(), rows = y.dims[y.dims.size() - 2];
  bool upper = c.integer("upper", 1) != 0;
  for (std::int64_t n = 0; n < size_of(y); ++n) {
    auto row = n / columns % rows, column = n % columns;
    if (upper ? column < row + k : column > row + k) y.values[at(n)] = 0;
  }
  return {std::move(y)};
}

Results depth_to_space(const OpCall& c) {
  const Array& x = c.in(0);
  auto b = c.required("blocksize");
  if (x.dims.size() != 4 || b <= 0 || b > 1 << 20 || x.dims[1] % (b * b) != 0) c.error("blocksize {} for {}", b, show(x.dims));
  auto n = x.dims[0], channels = x.dims[1] / (b * b), h = x.dims[2], w = x.dims[3];
  bool crd = c.text("mode", "DCR") == "CRD";
  Array six = reshaped(x, crd ? Dims{n, channels, b, b, h, w} : Dims{n, b, b, channels, h, w});
  auto perm = crd ? std::vector<std::size_t>{0, 1, 4, 2, 5, 3} : std::vector<std::size_t>{0, 3, 4, 1, 5, 2};
  return {reshaped(transposed(six, perm), {n, channels, h * b, w * b})};
}

Results space_to_depth(const OpCall& c) {
  const Array& x = c.in(0);
  auto b = c.required("blocksize");
  if (x.dims.size() != 4 || b <= 0 || x.dims[2] % b != 0 || x.dims[3] % b != 0) c.error("blocksize {} for {}", b, show(x.dims));
  auto n = x.dims[0], channels = x.dims[1], h = x.dims[2] / b, w = x.dims[3] / b;
  return {reshaped(transposed(reshaped(x, {n, channels, h, b, w, b}), {0, 3, 5, 1, 2, 4}), {n, channels * b * b, h, w})};
}

}  // namespace

void add_reference_shape_ops(ReferenceTable& table) {
  auto& onnx = table.onnx;
  onnx["Constant"] = constant;
  onnx["ConstantOfShape"] = constant_of_shape;
  onnx["EyeLike"] = eye_like;
  onnx["Range"] = range;
  onnx["Shape"] = shape;
  onnx["Size"] = size;
  onnx["Reshape"] = reshape;
  onnx["Flatten"] = flatten;
  onnx["Squeeze"] = squeeze;
  onnx["Unsqueeze"] = unsqueeze;
  onnx["Transpose"] = transpose;
  onnx["Concat"] = concat;
  onnx["Split"] = split;
  onnx["Slice"] = slice;
  onnx["Expand"] = expand;
  onnx["Tile"] = tile;
  onnx["Pad"] = pad;
  onnx["Trilu"] = trilu;
  onnx["DepthToSpace"] = depth_to_space;
  onnx["SpaceToDepth"] = space_to_depth;
}

}  // namespace mobius::ops
