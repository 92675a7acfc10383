// Inference: convolution, pooling, resizing.
#include <algorithm>
#include <cmath>

#include "mobius/ops/infer_context.hpp"

namespace mobius::ops {
namespace {

using ir::DataType;
using ir::Dim;
using ir::Shape;

// Kernel geometry per spatial axis.
struct Window {
  std::vector<std::int64_t> kernel, strides, dilations, pads;  // pads: begins, then ends
  std::string auto_pad;
  bool ceil_mode = false;
};

std::vector<std::int64_t> per_axis(const InferContext& c, std::string_view name, std::size_t n, std::int64_t otherwise) {
  auto given = c.ints(name);
  if (!given) return std::vector<std::int64_t>(n, otherwise);
  if (given->size() != n) c.error("attribute '{}' has {} entries, expected {}", name, given->size(), n);
  for (auto v : *given) {
    if (v < 0 || v > 1 << 30) c.error("attribute '{}' holds {}", name, v);
  }
  return *given;
}

Window window_of(const InferContext& c, std::size_t spatial, std::vector<std::int64_t> kernel) {
  for (auto k : kernel) {
    if (k < 0 || k > 1 << 30) c.error("a kernel of {}", k);
  }
  Window w;
  w.kernel = std::move(kernel);
  w.strides = per_axis(c, "strides", spatial, 1);
  w.dilations = per_axis(c, "dilations", spatial, 1);
  w.pads = per_axis(c, "pads", 2 * spatial, 0);
  w.auto_pad = std::string(c.node().string_attribute("auto_pad", "NOTSET"));
  w.ceil_mode = c.int_attribute("ceil_mode", 0) != 0;
  for (auto s : w.strides) {
    if (s <= 0) c.error("stride {}", s);
  }
  return w;
}

Dim windowed_size(const InferContext& c, const Window& w, std::size_t i, const Dim& size) {
  auto n = w.kernel.size();
  auto stride = w.strides[i], extent = (w.kernel[i] - 1) * w.dilations[i] + 1;
  if (w.auto_pad == "SAME_UPPER" || w.auto_pad == "SAME_LOWER") {
    if (!size.is_static()) return stride == 1 ? size : Dim();
    return (size.value() + stride - 1) / stride;
  }
  auto pads = w.auto_pad == "VALID" ? 0 : w.pads[i] + w.pads[i + n];
  Dim room = size + Dim(pads - extent);
  if (!room.is_static()) {
    if (stride == 1) return room + Dim(1);
    auto steps = w.ceil_mode ? std::nullopt : room.divided_by(Dim(stride));
    return steps ? *steps + Dim(1) : Dim();
  }
  if (room.value() < 0) c.error("{} is smaller than the kernel of {} on spatial axis {}", c.show(0), extent, i);
  auto steps = w.ceil_mode ? (room.value() + stride - 1) / stride : room.value() / stride;
  // With ceil_mode a window may not start in the padding after the end.
  if (w.ceil_mode && steps * stride >= size.value() + (w.auto_pad == "VALID" ? 0 : w.pads[i])) --steps;
  return steps + 1;
}

void infer_conv(InferContext& c) {
  if (!c.shape(0) || !c.shape(1)) return c.output(0, c.dtype(0));
  const Shape &x = *c.shape(0), &w = *c.shape(1);
  if (x.size() < 3 || x.size() != w.size()) c.error("input is {}, weight is {}, expected one rank of 3 or more", c.show(0), c.show(1));
  auto group = c.int_attribute("group", 1);
  if (group <= 0) c.error("group is {}", group);
  c.want_equal(x[1], w[1] * Dim(group), "channels of input and weight");
  auto spatial = x.size() - 2;
  auto kernel = c.ints("kernel_shape").value_or(ir::static_shape(Shape(w.begin() + 2, w.end())).value_or(std::vector<std::int64_t>{}));
  Shape result{x[0], w[0]};
  if (kernel.size() != spatial) {
    result.resize(x.size());
    return c.output(0, c.dtype(0), std::move(result));
  }
  auto window = window_of(c, spatial, std::move(kernel));
  for (std::size_t i = 0; i < spatial; ++i) result.push_back(windowed_size(c, window, i, x[i + 2]));
  c.output(0, c.dtype(0), std::move(result));
}

void infer_conv_transpose(InferContext& c) {
  if (!c.shape(0) || !c.shape(1)) return c.output(0, c.dtype(0));
  const Shape &x = *c.shape(0), &w = *c.shape(1);
  if (x.size() < 3 || x.size() != w.size()) c.error("input is {}, weight is {}, expected one rank of 3 or more", c.show(0), c.show(1));
  c.want_equal(x[1], w[0], "channels of input and weight");
  auto group = c.int_attribute("group", 1);
  auto spatial = x.size() - 2;
  auto kernel = c.ints("kernel_shape").value_or(ir::static_shape(Shape(w.begin() + 2, w.end())).value_or(std::vector<std::int64_t>{}));
  Shape result{x[0], w[1] * Dim(group)};
  if (kernel.size() != spatial) {
    result.resize(x.size());
    return c.output(0, c.dtype(0), std::move(result));
  }
  auto window = window_of(c, spatial, std::move(kernel));
  auto extra = per_axis(c, "output_padding", spatial, 0);
  auto fixed = c.ints("output_shape");
  for (std::size_t i = 0; i < spatial; ++i) {
    if (fixed && fixed->size() >= spatial) {
      result.push_back(Dim((*fixed)[fixed->size() - spatial + i]));
    } else if (window.auto_pad.starts_with("SAME")) {
      result.push_back(x[i + 2] * Dim(window.strides[i]));
    } else {
      auto pads = window.auto_pad == "VALID" ? 0 : window.pads[i] + window.pads[i + spatial];
      auto constant = extra[i] + (window.kernel[i] - 1) * window.dilations[i] + 1 - pads;
      result.push_back((x[i + 2] - Dim(1)) * Dim(window.strides[i]) + Dim(constant));
    }
  }
  c.output(0, c.dtype(0), std::move(result));
}

void infer_pool(InferContext& c) {
  if (!c.shape(0)) return c.output(0, c.dtype(0));
  const Shape& x = *c.shape(0);
  if (x.size() < 3) c.error("input is {}, expected rank 3 or more", c.show(0));
  auto spatial = x.size() - 2;
  if (!c.ints("kernel_shape")) c.error("attribute 'kernel_shape' is required");
  auto window = window_of(c, spatial, per_axis(c, "kernel_shape", spatial, 1));
  Shape result{x[0], x[1]};
  for (std::size_t i = 0; i < spatial; ++i) result.push_back(windowed_size(c, window, i, x[i + 2]));
  c.output(1, DataType::int64, result);
  c.output(0, c.dtype(0), std::move(result));
}

void infer_global_pool(InferContext& c) {
  auto result = c.shape(0);
  if (result && result->size() > 2) std::fill(result->begin() + 2, result->end(), Dim(1));
  c.output(0, c.dtype(0), std::move(result));
}

// X, roi?, scales?, sizes?
void infer_resize(InferContext& c) {
  if (!c.shape(0)) return c.output(0, c.dtype(0));
  Shape result = *c.shape(0);
  auto rank = result.size();
  std::vector<std::int64_t> axes;
  if (auto given = c.ints("axes")) {
    axes = *given;
  } else {
    for (std::size_t i = 0; i < rank; ++i) axes.push_back(static_cast<std::int64_t>(i));
  }
  bool by_size = c.has(3);
  auto sizes = by_size ? c.contents(3) : std::nullopt;
  std::size_t scales_at = c.node().op.type == "Upsample" ? 1 : 2;
  std::optional<std::vector<double>> scales;
  if (!by_size && c.has(scales_at) && c.input(scales_at)->data()) scales = ir::as_doubles(*c.input(scales_at)->data());
  bool keeps_aspect = c.node().string_attribute("keep_aspect_ratio_policy", "stretch") != "stretch";
  if (sizes && sizes->size() != axes.size()) c.error("{} sizes for {} axes", sizes->size(), axes.size());
  if (scales && scales->size() != axes.size()) c.error("{} scales for {} axes", scales->size(), axes.size());
  for (std::size_t i = 0; i < axes.size(); ++i) {
    Dim& d = result[c.axis(axes[i], rank)];
    if (sizes && !keeps_aspect) {
      d = (*sizes)[i];
    } else if (scales && ((*scales)[i] == 1.0 || (d.is_static() && (*scales)[i] > 0))) {
      if (static_cast<double>(d.as_static().value_or(0)) * (*scales)[i] > 9e15) c.error("scale {} is too large", (*scales)[i]);
      if ((*scales)[i] != 1.0) d = Dim(static_cast<std::int64_t>(std::floor(static_cast<double>(d.value()) * (*scales)[i])));
    } else if (scales && (*scales)[i] == std::floor((*scales)[i]) && (*scales)[i] > 0 && (*scales)[i] < 1 << 20) {
      d = d * Dim(static_cast<std::int64_t>((*scales)[i]));
    } else {
      d = Dim();
    }
  }
  c.output(0, c.dtype(0), std::move(result));
}

}  // namespace

void add_infer_conv(InferTable& table) {
  auto& onnx = table.onnx;
  onnx["Conv"] = {infer_conv, 2};
  onnx["ConvTranspose"] = {infer_conv_transpose, 2};
  onnx["MaxPool"] = onnx["AveragePool"] = onnx["LpPool"] = {infer_pool, 1};
  onnx["GlobalMaxPool"] = onnx["GlobalAveragePool"] = onnx["GlobalLpPool"] = {infer_global_pool, 1};
  onnx["Resize"] = onnx["Upsample"] = {infer_resize, 1};
}

}  // namespace mobius::ops
