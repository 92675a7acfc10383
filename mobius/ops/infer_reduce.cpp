// Inference: reductions, arg-reductions, running sums, sorting.
#include <algorithm>

#include "mobius/ops/infer_context.hpp"

namespace mobius::ops {
namespace {

using ir::DataType;
using ir::Dim;
using ir::Shape;

std::optional<Shape> reduced_shape(const InferContext& c, bool keepdims) {
  if (!c.shape(0)) return std::nullopt;
  const Shape& x = *c.shape(0);
  auto axes = c.axes(1);
  if (!axes) return keepdims ? std::optional(unknown_shape(x.size())) : std::nullopt;
  std::vector<bool> reduced(x.size(), false);
  for (auto a : *axes) reduced[c.axis(a, x.size())] = true;
  if (axes->empty()) {
    if (c.int_attribute("noop_with_empty_axes", 0) != 0) return x;
    reduced.assign(x.size(), true);
  }
  Shape result;
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (!reduced[i]) {
      result.push_back(x[i]);
    } else if (keepdims) {
      result.push_back(Dim(1));
    }
  }
  return result;
}

void infer_reduce(InferContext& c) { c.output(0, c.dtype(0), reduced_shape(c, c.int_attribute("keepdims", 1) != 0)); }

// The elements of a vector that is reduced to one number.
std::optional<Shape> reduced_contents(const InferContext& c) {
  const ir::Value* out = c.node().output();
  if (!out || !out->shape() || ir::element_count(*out->shape()) != 1) return std::nullopt;
  return c.contents(0);
}

void infer_reduce_prod(InferContext& c) {
  infer_reduce(c);
  auto elements = reduced_contents(c);
  if (elements) c.output_contents(0, {product(*elements, 0, elements->size())});
}

void infer_reduce_sum(InferContext& c) {
  infer_reduce(c);
  auto elements = reduced_contents(c);
  if (!elements) return;
  Dim sum = 0;
  for (const auto& e : *elements) sum = sum + e;
  c.output_contents(0, {sum});
}

void infer_arg(InferContext& c) {
  if (!c.shape(0)) return c.output(0, DataType::int64);
  Shape result = *c.shape(0);
  auto axis = c.axis(c.int_attribute("axis", 0), result.size());
  if (c.int_attribute("keepdims", 1) != 0) {
    result[axis] = Dim(1);
  } else {
    result.erase(result.begin() + static_cast<std::ptrdiff_t>(axis));
  }
  c.output(0, DataType::int64, std::move(result));
}

void infer_cumulative(InferContext& c) {
  if (auto axis = c.integer(1); axis && c.rank(0)) c.axis(*axis, *c.rank(0));
  c.same_as_input();
}

void infer_top_k(InferContext& c) {
  std::optional<Shape> result = c.shape(0);
  if (result) {
    auto axis = c.axis(c.int_attribute("axis", -1), result->size());
    auto k = c.contents(1);
    Dim count = c.node().attribute("k") ? Dim(c.int_attribute("k", 1)) : (k && k->size() == 1 ? k->front() : Dim());
    const Dim& have = (*result)[axis];
    if (count.is_static() && have.is_static() && (count.value() < 0 || count.value() > have.value())) {
      c.error("k is {}, but {} has {} elements on axis {}", count.value(), c.show(0), have.value(), axis);
    }
    (*result)[axis] = count;
  }
  c.output(0, c.dtype(0), result);
  c.output(1, DataType::int64, std::move(result));
}

void infer_non_zero(InferContext& c) {
  auto rank = c.rank(0);
  c.output(0, DataType::int64, Shape{rank ? Dim(static_cast<std::int64_t>(*rank)) : Dim(), Dim()});
}

void infer_unique(InferContext& c) {
  std::optional<Shape> y = Shape{Dim()};
  if (c.node().attribute("axis")) {
    y = c.shape(0);
    if (y) (*y)[c.axis(c.int_attribute("axis", 0), y->size())] = Dim();
  }
  c.output(0, c.dtype(0), std::move(y));
  for (std::size_t i = 1; i < 4; ++i) c.output(i, DataType::int64, Shape{Dim()});
}

}  // namespace

void add_infer_reduce(InferTable& table) {
  auto& onnx = table.onnx;
  for (auto name : {"ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceSumSquare"}) {
    onnx[name] = {infer_reduce, 1};
  }
  onnx["ReduceProd"] = {infer_reduce_prod, 1};
  onnx["ReduceSum"] = {infer_reduce_sum, 1};
  onnx["ArgMax"] = onnx["ArgMin"] = {infer_arg, 1};
  onnx["CumSum"] = onnx["CumProd"] = {infer_cumulative, 2};
  onnx["TopK"] = {infer_top_k, 1};
  onnx["NonZero"] = {infer_non_zero, 1};
  onnx["Unique"] = {infer_unique, 1};
}

}  // namespace mobius::ops
