// References: reductions, softmax, running sums, sorting, searching.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "mobius/ops/interpreter_call.hpp"

namespace mobius::ops {
namespace {

using ir::DataType;
using ir::Dims;
using Results = std::vector<Array>;
constexpr double infinity = std::numeric_limits<double>::infinity();

// Folds the reduced axes: y = finish(step(... step(start, x0) ..., xn), n).
template <class Step, class Finish>
Results reduce(const OpCall& c, double start, Step step, Finish finish) {
  const Array& x = c.in(0);
  auto rank = x.dims.size();
  auto axes = c.ints_from(1, "axes").value_or(std::vector<std::int64_t>{});
  if (axes.empty() && c.integer("noop_with_empty_axes", 0) != 0) return {map(x, [&](double v) { return finish(step(start, v), 1); })};
  std::vector<bool> reduced(rank, axes.empty());
  for (auto a : axes) reduced[axis_of(c, a, rank)] = true;
  Dims kept = x.dims, squeezed;
  std::int64_t count = 1;
  for (std::size_t i = 0; i < rank; ++i) {
    if (reduced[i]) {
      count *= x.dims[i];
      kept[i] = 1;
    } else {
      squeezed.push_back(x.dims[i]);
    }
  }
  Array y = filled(x.dtype, kept, start);
  walk<1>(x.dims, {broadcast_strides(kept, x.dims)},
          [&](std::int64_t n, const std::array<std::int64_t, 1>& o) { y.values[at(o[0])] = step(y.values[at(o[0])], x.values[at(n)]); });
  for (auto& v : y.values) v = finish(v, count);
  if (ir::is_integer(x.dtype)) {
    for (auto& v : y.values) v = wrapped(x.dtype, std::trunc(v));
  }
  return {c.integer("keepdims", 1) != 0 ? std::move(y) : reshaped(std::move(y), std::move(squeezed))};
}

double same(double v, std::int64_t) { return v; }
double plus(double a, double v) { return a + v; }
double plus_square(double a, double v) { return a + v * v; }

Results reduce_sum(const OpCall& c) { return reduce(c, 0, plus, same); }
Results reduce_mean(const OpCall& c) {
  return reduce(c, 0, plus, [](double v, std::int64_t n) { return v / static_cast<double>(n); });
}
Results reduce_max(const OpCall& c) {
  return reduce(
      c, c.in(0).dtype == DataType::boolean ? 0 : -infinity, [](double a, double v) { return std::isnan(v) ? v : std::max(a, v); }, same);
}
Results reduce_min(const OpCall& c) {
  return reduce(
      c, c.in(0).dtype == DataType::boolean ? 1 : infinity, [](double a, double v) { return std::isnan(v) ? v : std::min(a, v); }, same);
}
Results reduce_prod(const OpCall& c) {
  return reduce(
      c, 1, [](double a, double v) { return a * v; }, same);
}
Results reduce_l1(const OpCall& c) {
  return reduce(
      c, 0, [](double a, double v) { return a + std::abs(v); }, same);
}
Results reduce_l2(const OpCall& c) {
  return reduce(c, 0, plus_square, [](double v, std::int64_t) { return std::sqrt(v); });
}
Results reduce_sum_square(const OpCall& c) { return reduce(c, 0, plus_square, same); }
Results reduce_log_sum(const OpCall& c) {
  return reduce(c, 0, plus, [](double v, std::int64_t) { return std::log(v); });
}
Results reduce_log_sum_exp(const OpCall& c) {
  double top = *std::max_element(c.in(0).values.begin(), c.in(0).values.end());
  if (!std::isfinite(top)) top = 0;
  return reduce(
      c, 0, [&](double a, double v) { return a + std::exp(v - top); }, [&](double v, std::int64_t) { return std::log(v) + top; });
}

template <bool largest>
Results arg_reduce(const OpCall& c) {
  const Array& x = c.in(0);
  auto axis = axis_of(c, c.integer("axis", 0), x.dims.size());
  bool last = c.integer("select_last_index", 0) != 0;
  Dims kept = x.dims;
  auto n = kept[axis];
  if (n == 0) c.error("axis {} of {} is empty", axis, show(x.dims));
  kept[axis] = 1;
  Array y = zeros(DataType::int64, kept);
  std::int64_t line = 0;
  for_each_line(x.dims, axis, [&](std::int64_t first, std::int64_t step) {
    std::int64_t best = 0;
    for (std::int64_t i = 1; i < n; ++i) {
      double v = x.values[at(first + i * step)], have = x.values[at(first + best * step)];
      if (largest ? v > have : v < have) best = i;
      if (last && v == have) best = i;
    }
    y.values[at(line++)] = static_cast<double>(best);
  });
  if (c.integer("keepdims", 1) != 0) return {std::move(y)};
  kept.erase(kept.begin() + static_cast<std::ptrdiff_t>(axis));
  return {reshaped(std::move(y), std::move(kept))};
}

template <bool product>
Results cumulative(const OpCall& c) {
  Array y = c.in(0);
  auto axis = axis_of(c, c.integer(std::size_t{1}), y.dims.size());
  bool exclusive = c.integer("exclusive", 0) != 0, reverse = c.integer("reverse", 0) != 0;
  auto n = y.dims[axis];
  for_each_line(y.dims, axis, [&](std::int64_t first, std::int64_t step) {
    double sum = product ? 1 : 0;
    for (std::int64_t i = 0; i < n; ++i) {
      double& v = y.values[at(first + (reverse ? n - 1 - i : i) * step)];
      double before = sum;
      sum = product ? sum * v : sum + v;
      v = wrapped(y.dtype, exclusive ? before : sum);
    }
  });
  return {std::move(y)};
}

Results top_k(const OpCall& c) {
  const Array& x = c.in(0);
  auto axis = axis_of(c, c.integer("axis", -1), x.dims.size());
  auto k = c.integer(std::size_t{1}), n = x.dims[axis];
  if (k < 0 || k > n) c.error("k is {} of {}", k, n);
  bool largest = c.integer("largest", 1) != 0;
  Dims dims = x.dims;
  dims[axis] = k;
  Array values = zeros(x.dtype, dims), indices = zeros(DataType::int64, dims);
  auto inner = count_of(dims, axis + 1, dims.size());
  std::int64_t line = 0;
  for_each_line(x.dims, axis, [&](std::int64_t first, std::int64_t step) {
    std::vector<std::int64_t> order(at(n));
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
      double va = x.values[at(first + a * step)], vb = x.values[at(first + b * step)];
      return largest ? va > vb : va < vb;
    });
    auto start = line / inner * k * inner + line % inner;
    for (std::int64_t i = 0; i < k; ++i) {
      values.values[at(start + i * inner)] = x.values[at(first + order[at(i)] * step)];
      indices.values[at(start + i * inner)] = static_cast<double>(order[at(i)]);
    }
    ++line;
  });
  return {std::move(values), std::move(indices)};
}

// ── softmax ──────────────────────────────────────────────────────────────────────────────────────────────────────────────

template <class F>
Results along_axis(const OpCall& c, F f) {
  Array y = c.in(0);
  if (y.dims.empty()) c.error("input has rank 0");
  auto axis = axis_of(c, c.integer("axis", -1), y.dims.size());
  for_each_line(y.dims, axis, [&](std::int64_t first, std::int64_t step) {
    std::vector<double> line;
    for (std::int64_t i = 0; i < y.dims[axis]; ++i) line.push_back(y.values[at(first + i * step)]);
    if (line.empty()) return;
    f(line);
    for (std::int64_t i = 0; i < y.dims[axis]; ++i) y.values[at(first + i * step)] = line[at(i)];
  });
  return {std::move(y)};
}

double exponentials(std::vector<double>& line) {
  double top = *std::max_element(line.begin(), line.end()), sum = 0;
  for (auto& v : line) sum += v = std::exp(v - top);
  return sum;
}

Results softmax(const OpCall& c) {
  return along_axis(c, [](std::vector<double>& line) {
    double sum = exponentials(line);
    for (auto& v : line) v /= sum;
  });
}
Results log_softmax(const OpCall& c) {
  return along_axis(c, [](std::vector<double>& line) {
    std::vector<double> copy = line;
    double top = *std::max_element(line.begin(), line.end()), log_sum = std::log(exponentials(copy)) + top;
    for (auto& v : line) v -= log_sum;
  });
}
Results hardmax(const OpCall& c) {
  return along_axis(c, [](std::vector<double>& line) {
    auto best = std::max_element(line.begin(), line.end()) - line.begin();
    std::fill(line.begin(), line.end(), 0.0);
    line[at(best)] = 1;
  });
}

Results non_zero(const OpCall& c) {
  const Array& x = c.in(0);
  Dims strides = strides_of(x.dims);
  std::vector<std::int64_t> found;
  for (std::int64_t i = 0; i < size_of(x); ++i) {
    if (x.values[at(i)] != 0) found.push_back(i);
  }
  auto n = static_cast<std::int64_t>(found.size());
  Array y = zeros(DataType::int64, {static_cast<std::int64_t>(x.dims.size()), n});
  for (std::int64_t i = 0; i < n; ++i) {
    auto rest = found[at(i)];
    for (std::size_t axis = 0; axis < strides.size(); ++axis) {
      y.values[axis * at(n) + at(i)] = static_cast<double>(rest / strides[axis]);
      rest %= strides[axis];
    }
  }
  return {std::move(y)};
}

// Of the flattened input: values, first positions, inverse, counts.
Results unique(const OpCall& c) {
  if (c.attribute("axis")) c.unsupported("an axis");
  const Array& x = c.in(0);
  bool sorted = c.integer("sorted", 1) != 0;
  std::vector<double> values;
  std::vector<std::int64_t> first, counts, inverse(x.values.size());
  for (std::size_t i = 0; i < x.values.size(); ++i) {
    auto found = std::find(values.begin(), values.end(), x.values[i]) - values.begin();
    if (at(found) == values.size()) {
      values.push_back(x.values[i]);
      first.push_back(static_cast<std::int64_t>(i));
      counts.push_back(0);
    }
    ++counts[at(found)];
    inverse[i] = found;
  }
  std::vector<std::size_t> order(values.size()), place(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  if (sorted) std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return values[a] < values[b]; });
  Array y = zeros(x.dtype, {static_cast<std::int64_t>(values.size())});
  std::vector<std::int64_t> sorted_first, sorted_counts;
  for (std::size_t i = 0; i < order.size(); ++i) {
    place[order[i]] = i;
    y.values[i] = values[order[i]];
    sorted_first.push_back(first[order[i]]);
    sorted_counts.push_back(counts[order[i]]);
  }
  for (auto& i : inverse) i = static_cast<std::int64_t>(place[at(i)]);
  return {std::move(y), vector_of(sorted_first), vector_of(inverse), vector_of(sorted_counts)};
}

}  // namespace

void add_reference_reduce(ReferenceTable& table) {
  auto& onnx = table.onnx;
  onnx["ReduceSum"] = reduce_sum;
  onnx["ReduceMean"] = reduce_mean;
  onnx["ReduceMax"] = reduce_max;
  onnx["ReduceMin"] = reduce_min;
  onnx["ReduceProd"] = reduce_prod;
  onnx["ReduceL1"] = reduce_l1;
  onnx["ReduceL2"] = reduce_l2;
  onnx["ReduceSumSquare"] = reduce_sum_square;
  onnx["ReduceLogSum"] = reduce_log_sum;
  onnx["ReduceLogSumExp"] = reduce_log_sum_exp;
  onnx["ArgMax"] = arg_reduce<true>;
  onnx["ArgMin"] = arg_reduce<false>;
  onnx["CumSum"] = cumulative<false>;
  onnx["CumProd"] = cumulative<true>;
  onnx["TopK"] = top_k;
  onnx["Softmax"] = softmax;
  onnx["LogSoftmax"] = log_softmax;
  onnx["Hardmax"] = hardmax;
  onnx["NonZero"] = non_zero;
  onnx["Unique"] = unique;
}

}  // namespace mobius::ops
