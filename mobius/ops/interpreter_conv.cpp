// References: convolution and pooling over any number of spatial axes.
#include <algorithm>
#include <cmath>
#include <limits>

#include "mobius/ops/interpreter_call.hpp"

namespace mobius::ops {
namespace {

using ir::DataType;
using ir::Dims;
using Results = std::vector<Array>;

struct Window {
  Dims kernel, strides, dilations, begins, sizes;  // sizes: of the output
};

Dims per_axis(const OpCall& c, std::string_view name, std::size_t n, std::int64_t otherwise) {
  auto given = c.ints(name).value_or(std::vector<std::int64_t>(n, otherwise));
  if (given.size() != n) c.error("attribute '{}' has {} entries, expected {}", name, given.size(), n);
  for (auto v : given) {
    if (v < 0 || v > 1 << 20) c.error("attribute '{}' holds {}", name, v);
  }
  return given;
}

Window window_of(const OpCall& c, const Array& x, Dims kernel) {
  auto n = kernel.size();
  Window w{std::move(kernel), per_axis(c, "strides", n, 1), per_axis(c, "dilations", n, 1), Dims(n), Dims(n)};
  auto pads = per_axis(c, "pads", 2 * n, 0);
  auto mode = c.text("auto_pad", "NOTSET");
  bool ceils = c.integer("ceil_mode", 0) != 0;
  for (std::size_t i = 0; i < n; ++i) {
    auto size = x.dims[i + 2], stride = w.strides[i], extent = (w.kernel[i] - 1) * w.dilations[i] + 1;
    if (stride == 0) c.error("stride 0");
    auto begin = pads[i], end = pads[i + n];
    if (mode.starts_with("SAME")) {
      auto out = (size + stride - 1) / stride, all = std::max<std::int64_t>((out - 1) * stride + extent - size, 0);
      begin = mode == "SAME_UPPER" ? all / 2 : all - all / 2;
      end = all - begin;
    } else if (mode == "VALID") {
      begin = end = 0;
    }
    auto room = size + begin + end - extent;
    if (room < 0) c.error("{} is smaller than the kernel", show(x.dims));
    auto steps = ceils ? (room + stride - 1) / stride : room / stride;
    if (ceils && steps * stride >= size + begin) --steps;
    w.begins[i] = begin;
    w.sizes[i] = steps + 1;
  }
  return w;
}

// Visits the taps of the window at output position `out`: f(kernel index, input offset), offset -1 in the padding.
template <class F>
void for_each_tap(const Window& w, const Dims& spatial, std::int64_t out, F f) {
  Dims out_steps = strides_of(w.sizes), taps = strides_of(w.kernel), steps = strides_of(spatial);
  for (std::int64_t k = 0; k < ir::element_count(w.kernel); ++k) {
    std::int64_t offset = 0;
    bool inside = true;
    for (std::size_t i = 0; i < spatial.size() && inside; ++i) {
      auto p = out / out_steps[i] % w.sizes[i] * w.strides[i] + k / taps[i] % w.kernel[i] * w.dilations[i] - w.begins[i];
      inside = p >= 0 && p < spatial[i];
      offset += p * steps[i];
    }
    f(k, inside ? offset : -1);
  }
}

Dims spatial_dims(const OpCall& c, const Array& x) {
  if (x.dims.size() < 3) c.error("input is {}, expected rank 3 or more", show(x.dims));
  return Dims(x.dims.begin() + 2, x.dims.end());
}

// X [B, C, ...], W [M, C/group, ...], bias? [M]
Results conv(const OpCall& c) {
  const Array &x = c.in(0), &w = c.in(1);
  Dims spatial = spatial_dims(c, x);
  auto group = c.integer("group", 1);
  if (w.dims.size() != x.dims.size() || group <= 0 || w.dims[1] * group != x.dims[1] || w.dims[0] % group != 0) {
    c.error("input is {}, weight is {}, group {}", show(x.dims), show(w.dims), group);
  }
  Window window = window_of(c, x, Dims(w.dims.begin() + 2, w.dims.end()));
  auto batch = x.dims[0], outs = w.dims[0], ins = w.dims[1], per_group = outs / group;
  auto in_size = ir::element_count(spatial), out_size = ir::element_count(window.sizes), taps = ir::element_count(window.kernel);
  Dims dims{batch, outs};
  dims.insert(dims.end(), window.sizes.begin(), window.sizes.end());
  Array y = zeros(x.dtype, dims);
  for (std::int64_t n = 0; n < batch * outs; ++n) {
    auto b = n / outs, m = n % outs, first = b * x.dims[1] + m / per_group * ins;
    for (std::int64_t p = 0; p < out_size; ++p) {
      double sum = c.has(2) ? c.in(2).values.at(at(m)) : 0;
      for_each_tap(window, spatial, p, [&](std::int64_t k, std::int64_t offset) {
        if (offset < 0) return;
        for (std::int64_t i = 0; i < ins; ++i) sum += w.values[at((m * ins + i) * taps + k)] * x.values[at((first + i) * in_size + offset)];
      });
      y.values[at(n * out_size + p)] = sum;
    }
  }
  return {std::move(y)};
}

// X [B, C, ...], W [C, M/group, ...], bias? [M]: the transpose of a convolution, written as a scatter.
Results conv_transpose(const OpCall& c) {
  const Array &x = c.in(0), &w = c.in(1);
  Dims spatial = spatial_dims(c, x);
  auto group = c.integer("group", 1);
  if (w.dims.size() != x.dims.size() || group <= 0 || w.dims[0] != x.dims[1] || x.dims[1] % group != 0)
    c.error("input is {}, weight is {}, group {}", show(x.dims), show(w.dims), group);
  if (c.attribute("output_shape") || c.text("auto_pad", "NOTSET") != "NOTSET") c.unsupported("output_shape and auto_pad");
  auto n = spatial.size();
  Window window{Dims(w.dims.begin() + 2, w.dims.end()), per_axis(c, "strides", n, 1), per_axis(c, "dilations", n, 1), {}, spatial};
  auto pads = per_axis(c, "pads", 2 * n, 0), extra = per_axis(c, "output_padding", n, 0);
  Dims out_spatial;
  for (std::size_t i = 0; i < n; ++i) {
    window.begins.push_back(pads[i]);
    out_spatial.push_back((spatial[i] - 1) * window.strides[i] + extra[i] + (window.kernel[i] - 1) * window.dilations[i] + 1 - pads[i] - pads[i + n]);
  }
  auto ins = x.dims[1], per_group = w.dims[1], outs = per_group * group, taps = ir::element_count(window.kernel), in_size = ir::element_count(spatial);
  Dims dims{x.dims[0], outs};
  dims.insert(dims.end(), out_spatial.begin(), out_spatial.end());
  Array y = zeros(x.dtype, dims);
  auto out_size = ir::element_count(out_spatial);
  for (std::int64_t i = 0; i < x.dims[0] * ins; ++i) {
    auto b = i / ins, channel = i % ins, first = b * outs + channel / (ins / group) * per_group;
    for (std::int64_t p = 0; p < in_size; ++p) {
      for_each_tap(window, out_spatial, p, [&](std::int64_t k, std::int64_t offset) {
        if (offset < 0) return;
        for (std::int64_t m = 0; m < per_group; ++m) {
          y.values[at((first + m) * out_size + offset)] += x.values[at(i * in_size + p)] * w.values[at((channel * per_group + m) * taps + k)];
        }
      });
    }
  }
  if (c.has(2)) {
    for (std::int64_t i = 0; i < size_of(y); ++i) y.values[at(i)] += c.in(2).values.at(at(i / out_size % outs));
  }
  return {std::move(y)};
}

template <bool maximum>
Results pool(const OpCall& c) {
  const Array& x = c.in(0);
  Dims spatial = spatial_dims(c, x);
  Window window = window_of(c, x, per_axis(c, "kernel_shape", spatial.size(), 1));
  bool counts_pads = c.integer("count_include_pad", 0) != 0;
  if (counts_pads && c.integer("ceil_mode", 0) != 0) c.unsupported("ceil_mode with count_include_pad");
  auto in_size = ir::element_count(spatial), out_size = ir::element_count(window.sizes);
  Dims dims{x.dims[0], x.dims[1]};
  dims.insert(dims.end(), window.sizes.begin(), window.sizes.end());
  Array y = zeros(x.dtype, dims);
  for (std::int64_t n = 0; n < size_of(y); ++n) {
    double best = -std::numeric_limits<double>::infinity(), sum = 0;
    std::int64_t count = 0;
    for_each_tap(window, spatial, n % out_size, [&](std::int64_t, std::int64_t offset) {
      if (offset < 0) {
        count += counts_pads ? 1 : 0;
        return;
      }
      double v = x.values[at(n / out_size * in_size + offset)];
      best = std::max(best, v);
      sum += v;
      ++count;
    });
    y.values[at(n)] = maximum ? best : sum / static_cast<double>(count);
  }
  return {std::move(y)};
}

template <bool maximum>
Results global_pool(const OpCall& c) {
  const Array& x = c.in(0);
  auto size = ir::element_count(spatial_dims(c, x));
  if (size == 0) c.error("input is {}", show(x.dims));
  Dims dims(x.dims.size(), 1);
  dims[0] = x.dims[0];
  dims[1] = x.dims[1];
  Array y = zeros(x.dtype, dims);
  for (std::int64_t n = 0; n < size_of(y); ++n) {
    auto first = x.values.begin() + n * size;
    double sum = 0;
    for (auto v = first; v != first + size; ++v) sum += *v;
    y.values[at(n)] = maximum ? *std::max_element(first, first + size) : sum / static_cast<double>(size);
  }
  return {std::move(y)};
}

}  // namespace

void add_reference_conv(ReferenceTable& table) {
  auto& onnx = table.onnx;
  onnx["Conv"] = conv;
  onnx["ConvTranspose"] = conv_transpose;
  onnx["MaxPool"] = pool<true>;
  onnx["AveragePool"] = pool<false>;
  onnx["GlobalMaxPool"] = global_pool<true>;
  onnx["GlobalAveragePool"] = global_pool<false>;
}

}  // namespace mobius::ops
