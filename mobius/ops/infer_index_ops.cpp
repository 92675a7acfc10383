// Inference: operators that read or write at positions.
#include <algorithm>

#include "mobius/ops/infer_context.hpp"

namespace mobius::ops {
namespace {

using ir::DataType;
using ir::Dim;
using ir::Shape;

void want_indices(const InferContext& c, std::size_t i) {
  auto dtype = c.dtype(i);
  if (dtype != DataType::undefined && dtype != DataType::int64 && dtype != DataType::int32)
    c.error("indices are {}, expected int64 or int32", ir::text_name(dtype));
}

void infer_gather(InferContext& c) {
  want_indices(c, 1);
  if (!c.shape(0)) return c.output(0, c.dtype(0));
  const Shape& x = *c.shape(0);
  auto axis = c.axis(c.int_attribute("axis", 0), x.size());
  if (!c.shape(1)) return c.output(0, c.dtype(0));
  Shape result(x.begin(), x.begin() + static_cast<std::ptrdiff_t>(axis));
  result.insert(result.end(), c.shape(1)->begin(), c.shape(1)->end());
  result.insert(result.end(), x.begin() + static_cast<std::ptrdiff_t>(axis) + 1, x.end());
  c.output(0, c.dtype(0), std::move(result));

  auto elements = x.size() == 1 ? c.contents(0) : std::nullopt;
  auto indices = elements ? c.integers(1) : std::nullopt;
  if (!indices) return;
  Shape taken;
  auto n = static_cast<std::int64_t>(elements->size());
  for (auto i : *indices) {
    if (i < -n || i >= n) c.error("index {} is outside {} elements", i, n);
    taken.push_back((*elements)[static_cast<std::size_t>(i < 0 ? i + n : i)]);
  }
  c.output_contents(0, std::move(taken));
}

void infer_gather_elements(InferContext& c) {
  want_indices(c, 1);
  if (c.rank(0) && c.rank(1) && *c.rank(0) != *c.rank(1)) c.error("data is {}, indices are {}, expected one rank", c.show(0), c.show(1));
  if (c.rank(0)) c.axis(c.int_attribute("axis", 0), *c.rank(0));
  c.output(0, c.dtype(0), c.shape(1));
}

void infer_gather_nd(InferContext& c) {
  want_indices(c, 1);
  auto batch = c.int_attribute("batch_dims", 0);
  if (!c.shape(0) || !c.shape(1) || c.shape(1)->empty() || !c.shape(1)->back().is_static()) return c.output(0, c.dtype(0));
  const Shape &x = *c.shape(0), &indices = *c.shape(1);
  auto depth = indices.back().value();
  if (batch < 0 || depth < 1 || batch + depth > static_cast<std::int64_t>(x.size()))
    c.error("indices {} are too deep for {} with batch_dims {}", c.show(1), c.show(0), batch);
  Shape result(indices.begin(), indices.end() - 1);
  result.insert(result.end(), x.begin() + batch + depth, x.end());
  c.output(0, c.dtype(0), std::move(result));
}

void infer_scatter(InferContext& c) {
  want_indices(c, 1);
  c.want_same_dtype(0, 2);
  c.same_as_input();
}

void infer_scatter_elements(InferContext& c) {
  if (c.rank(0)) c.axis(c.int_attribute("axis", 0), *c.rank(0));
  if (c.rank(1) && c.rank(2) && *c.rank(1) != *c.rank(2)) c.error("indices are {}, updates are {}, expected one shape", c.show(1), c.show(2));
  infer_scatter(c);
}

// past [B, ..., M, ...], update [B, ..., S, ...], write_indices? [B]
void infer_tensor_scatter(InferContext& c) {
  c.want_same_dtype(0, 1);
  if (c.rank(0) && c.rank(1)) {
    if (*c.rank(0) != *c.rank(1)) c.error("past_cache is {}, update is {}, expected one rank", c.show(0), c.show(1));
    auto axis = c.axis(c.int_attribute("axis", -2), *c.rank(0));
    for (std::size_t i = 0; i < *c.rank(0); ++i) {
      if (i != axis && known_to_differ(c.dim(0, i), c.dim(1, i)))
        c.error("past_cache is {}, update is {}, expected equal sizes outside axis {}", c.show(0), c.show(1), axis);
    }
  }
  c.same_as_input();
}

void infer_one_hot(InferContext& c) {
  if (!c.shape(0)) return c.output(0, c.dtype(2));
  Shape result = *c.shape(0);
  auto depth = c.contents(1);
  auto axis = c.axis(c.int_attribute("axis", -1), result.size() + 1);
  result.insert(result.begin() + static_cast<std::ptrdiff_t>(axis), depth && depth->size() == 1 ? depth->front() : Dim());
  c.output(0, c.dtype(2), std::move(result));
}

void infer_compress(InferContext& c) {
  if (!c.node().attribute("axis")) return c.output(0, c.dtype(0), Shape{Dim()});
  auto result = c.shape(0);
  if (result) (*result)[c.axis(c.int_attribute("axis", 0), result->size())] = Dim();
  c.output(0, c.dtype(0), std::move(result));
}

}  // namespace

void add_infer_index_ops(InferTable& table) {
  auto& onnx = table.onnx;
  onnx["Gather"] = {infer_gather, 2};
  onnx["GatherElements"] = {infer_gather_elements, 2};
  onnx["GatherND"] = {infer_gather_nd, 2};
  onnx["Scatter"] = onnx["ScatterElements"] = {infer_scatter_elements, 3};
  onnx["ScatterND"] = {infer_scatter, 3};
  onnx["TensorScatter"] = {infer_tensor_scatter, 2};
  onnx["OneHot"] = {infer_one_hot, 3};
  onnx["Compress"] = {infer_compress, 2};
}

}  // namespace mobius::ops
