// References: operators that read or write at positions.
#include <algorithm>

#include "mobius/ops/interpreter_call.hpp"

namespace mobius::ops {
namespace {

using ir::DataType;
using ir::Dims;
using Results = std::vector<Array>;

std::int64_t index_in(const OpCall& c, double value, std::int64_t size) {
  auto i = to_integer(value);
  if (i < -size || i >= size) c.error("index {} is outside an axis of {}", i, size);
  return i < 0 ? i + size : i;
}

Results gather(const OpCall& c) {
  const Array &x = c.in(0), &indices = c.in(1);
  auto axis = axis_of(c, c.integer("axis", 0), x.dims.size());
  Dims dims(x.dims.begin(), x.dims.begin() + static_cast<std::ptrdiff_t>(axis));
  dims.insert(dims.end(), indices.dims.begin(), indices.dims.end());
  dims.insert(dims.end(), x.dims.begin() + static_cast<std::ptrdiff_t>(axis) + 1, x.dims.end());
  Array y = zeros(x.dtype, dims);
  auto outer = count_of(x.dims, 0, axis), size = x.dims[axis], inner = count_of(x.dims, axis + 1, x.dims.size()), n = size_of(indices);
  for (std::int64_t o = 0; o < outer; ++o) {
    for (std::int64_t i = 0; i < n; ++i) {
      auto from = index_in(c, indices.values[at(i)], size);
      std::copy_n(x.values.begin() + (o * size + from) * inner, inner, y.values.begin() + (o * n + i) * inner);
    }
  }
  return {std::move(y)};
}

// Where element n of `shape` lies in x when its coordinate on `axis` is replaced by `index`.
std::int64_t moved(std::int64_t n, const Dims& shape_steps, const Dims& shape, const Dims& x_steps, std::size_t axis, std::int64_t index) {
  std::int64_t offset = 0;
  for (std::size_t k = 0; k < shape.size(); ++k) offset += (k == axis ? index : n / shape_steps[k] % shape[k]) * x_steps[k];
  return offset;
}

void want_inside(const OpCall& c, const Array& x, const Array& indices, std::size_t axis) {
  bool fits = x.dims.size() == indices.dims.size();
  for (std::size_t k = 0; fits && k < x.dims.size(); ++k) fits = k == axis || indices.dims[k] <= x.dims[k];
  if (!fits) c.error("data is {}, indices are {}", show(x.dims), show(indices.dims));
}

Results gather_elements(const OpCall& c) {
  const Array &x = c.in(0), &indices = c.in(1);
  auto axis = axis_of(c, c.integer("axis", 0), x.dims.size());
  want_inside(c, x, indices, axis);
  Array y = zeros(x.dtype, indices.dims);
  Dims steps = strides_of(indices.dims), own = strides_of(x.dims);
  for (std::int64_t n = 0; n < size_of(y); ++n) {
    y.values[at(n)] = x.values[at(moved(n, steps, indices.dims, own, axis, index_in(c, indices.values[at(n)], x.dims[axis])))];
  }
  return {std::move(y)};
}

double combined(const OpCall& c, std::string_view reduction, double have, double update) {
  if (reduction == "none") return update;
  if (reduction == "add") return have + update;
  if (reduction == "mul") return have * update;
  if (reduction == "max") return std::max(have, update);
  if (reduction == "min") return std::min(have, update);
  c.error("reduction '{}'", reduction);
}

Results scatter_elements(const OpCall& c) {
  Array y = c.in(0);
  const Array &indices = c.in(1), &updates = c.in(2);
  auto axis = axis_of(c, c.integer("axis", 0), y.dims.size());
  want_inside(c, y, indices, axis);
  if (updates.dims != indices.dims) c.error("indices are {}, updates are {}", show(indices.dims), show(updates.dims));
  auto reduction = c.text("reduction", "none");
  Dims steps = strides_of(indices.dims), own = strides_of(y.dims);
  for (std::int64_t n = 0; n < size_of(updates); ++n) {
    double& v = y.values[at(moved(n, steps, indices.dims, own, axis, index_in(c, indices.values[at(n)], y.dims[axis])))];
    v = wrapped(y.dtype, combined(c, reduction, v, updates.values[at(n)]));
  }
  return {std::move(y)};
}

// The offset of the slice that tuple `i` names, below the given batch offset.
std::int64_t slice_offset(const OpCall& c, const Array& indices, std::int64_t i, std::int64_t depth, const Dims& dims, const Dims& steps, std::size_t first) {
  std::int64_t offset = 0;
  for (std::int64_t k = 0; k < depth; ++k) {
    auto axis = first + at(k);
    offset += index_in(c, indices.values[at(i * depth + k)], dims[axis]) * steps[axis];
  }
  return offset;
}

Results gather_nd(const OpCall& c) {
  const Array &x = c.in(0), &indices = c.in(1);
  auto batch_dims = c.integer("batch_dims", 0);
  auto depth = indices.dims.empty() ? 0 : indices.dims.back();
  if (batch_dims < 0 || depth < 1 || batch_dims >= static_cast<std::int64_t>(indices.dims.size()) ||
      batch_dims + depth > static_cast<std::int64_t>(x.dims.size())) {
    c.error("indices {} for {} with batch_dims {}", show(indices.dims), show(x.dims), batch_dims);
  }
  auto first = at(batch_dims);
  Dims dims(indices.dims.begin(), indices.dims.end() - 1), steps = strides_of(x.dims);
  dims.insert(dims.end(), x.dims.begin() + batch_dims + depth, x.dims.end());
  Array y = zeros(x.dtype, dims);
  auto batches = count_of(x.dims, 0, first), per_batch = batches == 0 ? 0 : size_of(indices) / depth / batches;
  auto batch_size = count_of(x.dims, first, x.dims.size()), size = count_of(x.dims, first + at(depth), x.dims.size());
  if (count_of(indices.dims, 0, first) != batches) c.error("batch sizes of {} and {} differ", show(x.dims), show(indices.dims));
  for (std::int64_t i = 0; i < batches * per_batch; ++i) {
    auto from = i / per_batch * batch_size + slice_offset(c, indices, i, depth, x.dims, steps, first);
    std::copy_n(x.values.begin() + from, size, y.values.begin() + i * size);
  }
  return {std::move(y)};
}

Results scatter_nd(const OpCall& c) {
  Array y = c.in(0);
  const Array &indices = c.in(1), &updates = c.in(2);
  auto depth = indices.dims.empty() ? 0 : indices.dims.back();
  if (depth < 1 || depth > static_cast<std::int64_t>(y.dims.size())) c.error("indices {} for {}", show(indices.dims), show(y.dims));
  auto size = count_of(y.dims, at(depth), y.dims.size()), n = size_of(indices) / depth;
  if (size_of(updates) != n * size) c.error("updates are {} for indices {} of {}", show(updates.dims), show(indices.dims), show(y.dims));
  auto reduction = c.text("reduction", "none");
  Dims steps = strides_of(y.dims);
  for (std::int64_t i = 0; i < n; ++i) {
    auto to = slice_offset(c, indices, i, depth, y.dims, steps, 0);
    for (std::int64_t k = 0; k < size; ++k) y.values[at(to + k)] = combined(c, reduction, y.values[at(to + k)], updates.values[at(i * size + k)]);
  }
  return {std::move(y)};
}

// past_cache, update, write_indices? -> present_cache
Results tensor_scatter(const OpCall& c) {
  Array y = c.in(0);
  const Array& update = c.in(1);
  auto axis = axis_of(c, c.integer("axis", -2), y.dims.size());
  Dims want = y.dims;
  if (update.dims.size() == want.size()) want[axis] = update.dims[axis];
  if (axis == 0 || update.dims != want) c.error("past_cache is {}, update is {}", show(y.dims), show(update.dims));
  bool circular = c.text("mode", "linear") == "circular";
  auto batch = y.dims[0], rows = count_of(y.dims, 1, axis), length = y.dims[axis], added = update.dims[axis], inner = count_of(y.dims, axis + 1, y.dims.size());
  for (std::int64_t b = 0; b < batch; ++b) {
    auto start = c.has(2) ? to_integer(c.in(2).values.at(at(b))) : 0;
    if (start < 0 || (!circular && start + added > length)) c.error("writes {} rows at {} of {}", added, start, length);
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t s = 0; s < added; ++s) {
        auto to = ((b * rows + r) * length + (start + s) % length) * inner, from = ((b * rows + r) * added + s) * inner;
        std::copy_n(update.values.begin() + from, inner, y.values.begin() + to);
      }
    }
  }
  return {std::move(y)};
}

Results one_hot(const OpCall& c) {
  const Array& indices = c.in(0);
  auto depth = c.integer(std::size_t{1});
  if (c.in(2).values.size() != 2 || depth <= 0) c.error("depth is {}, values are {}", depth, show(c.in(2).dims));
  auto axis = axis_of(c, c.integer("axis", -1), indices.dims.size() + 1);
  Dims dims = indices.dims;
  dims.insert(dims.begin() + static_cast<std::ptrdiff_t>(axis), depth);
  Array y = filled(c.in(2).dtype, dims, c.in(2).values[0]);
  auto inner = count_of(dims, axis + 1, dims.size());
  for (std::int64_t i = 0; i < size_of(indices); ++i) {
    auto k = to_integer(indices.values[at(i)]);
    if (k < 0) k += depth;
    if (k >= 0 && k < depth) y.values[at((i / inner * depth + k) * inner + i % inner)] = c.in(2).values[1];
  }
  return {std::move(y)};
}

Results compress(const OpCall& c) {
  Array x = c.in(0);
  const Array& condition = c.in(1);
  if (!c.attribute("axis")) x = reshaped(x, {size_of(c.in(0))});
  auto axis = axis_of(c, c.integer("axis", 0), x.dims.size());
  std::vector<std::int64_t> taken;
  for (std::int64_t i = 0; i < std::min(size_of(condition), x.dims[axis]); ++i) {
    if (condition.values[at(i)] != 0) taken.push_back(i);
  }
  Dims dims = x.dims;
  dims[axis] = static_cast<std::int64_t>(taken.size());
  Array y = zeros(x.dtype, dims);
  auto outer = count_of(dims, 0, axis), inner = count_of(dims, axis + 1, dims.size());
  for (std::int64_t o = 0; o < outer; ++o) {
    for (std::int64_t i = 0; i < dims[axis]; ++i) {
      std::copy_n(x.values.begin() + (o * x.dims[axis] + taken[at(i)]) * inner, inner, y.values.begin() + (o * dims[axis] + i) * inner);
    }
  }
  return {std::move(y)};
}

}  // namespace

void add_reference_index_ops(ReferenceTable& table) {
  auto& onnx = table.onnx;
  onnx["Gather"] = gather;
  onnx["GatherElements"] = gather_elements;
  onnx["GatherND"] = gather_nd;
  onnx["ScatterElements"] = scatter_elements;
  onnx["ScatterND"] = scatter_nd;
  onnx["TensorScatter"] = tensor_scatter;
  onnx["OneHot"] = one_hot;
  onnx["Compress"] = compress;
}

}  // namespace mobius::ops
