// References: normalisations.
#include <cmath>

#include "mobius/ops/interpreter_call.hpp"

namespace mobius::ops {
namespace {

using ir::DataType;
using ir::Dims;
using Results = std::vector<Array>;

// Statistics of one group of elements.
struct Moments {
  double mean = 0, inv_std = 0;
};

Moments moments_of(std::span<const double> x, double epsilon, bool centred) {
  Moments m;
  auto n = static_cast<double>(x.size());
  if (centred) {
    for (double v : x) m.mean += v / n;
  }
  double variance = 0;
  for (double v : x) variance += (v - m.mean) * (v - m.mean) / n;
  m.inv_std = 1 / std::sqrt(variance + epsilon);
  return m;
}

// Normalises rows of `width` elements, then scales and shifts by arrays that broadcast to the input.
Results normalize_rows(const OpCall& c, const Array& x, std::size_t axis, bool centred, const Array* scale, const Array* shift, double epsilon) {
  auto rows = count_of(x.dims, 0, axis), width = count_of(x.dims, axis, x.dims.size());
  Dims statistics = x.dims;
  for (auto i = axis; i < statistics.size(); ++i) statistics[i] = 1;
  Array y = x, mean = zeros(DataType::float32, statistics), inv_std = mean;
  for (std::int64_t r = 0; r < rows; ++r) {
    std::span row(y.values.data() + r * width, at(width));
    auto m = moments_of(row, epsilon, centred);
    for (auto& v : row) v = (v - m.mean) * m.inv_std;
    mean.values[at(r)] = m.mean;
    inv_std.values[at(r)] = m.inv_std;
  }
  auto dims = y.dims;
  if (scale) y = map2(c, x.dtype, y, *scale, [](double v, double s) { return v * s; });
  if (shift) y = map2(c, x.dtype, y, *shift, [](double v, double s) { return v + s; });
  if (y.dims != dims) c.error("weights don't fit {}", show(dims));
  return {std::move(y), std::move(mean), std::move(inv_std)};
}

Results layer_norm(const OpCall& c) {
  const Array& x = c.in(0);
  return normalize_rows(c, x, axis_of(c, c.integer("axis", -1), x.dims.size()), true, &c.in(1), c.maybe(2), c.number("epsilon", 1e-5F));
}

Results rms_norm(const OpCall& c) {
  const Array& x = c.in(0);
  auto results = normalize_rows(c, x, axis_of(c, c.integer("axis", -1), x.dims.size()), false, &c.in(1), nullptr, c.number("epsilon", 1e-5F));
  results[0].dtype = c.in(1).dtype;
  return {std::move(results[0]), std::move(results[2])};
}

Results skip_norm(const OpCall& c, bool centred, std::size_t shift, std::size_t bias) {
  Array sum = map2(c, c.in(0).dtype, c.in(0), c.in(1), [](double a, double b) { return a + b; });
  if (c.has(bias)) sum = map2(c, sum.dtype, sum, c.in(bias), [](double a, double b) { return a + b; });
  if (sum.dims != c.in(0).dims || sum.dims.empty()) c.error("input is {}, skip is {}", show(c.in(0).dims), show(c.in(1).dims));
  auto results = normalize_rows(c, sum, sum.dims.size() - 1, centred, &c.in(2), centred ? c.maybe(shift) : nullptr, c.number("epsilon", 1e-12F));
  results.push_back(std::move(sum));
  return results;
}
Results skip_layer_norm(const OpCall& c) { return skip_norm(c, true, 3, 4); }
Results skip_rms_norm(const OpCall& c) { return skip_norm(c, false, 3, 3); }

// Statistics per row of a [groups, width] view; scale and shift per channel of [B, C, ...].
Results normalize_channels(const OpCall& c, std::int64_t groups_per_image, const Array& scale, const Array& shift) {
  const Array& x = c.in(0);
  if (x.dims.size() < 2) c.error("input is {}", show(x.dims));
  auto channels = x.dims[1], inner = count_of(x.dims, 2, x.dims.size());
  if (groups_per_image <= 0 || channels % groups_per_image != 0) c.error("{} channels don't divide into {} groups", channels, groups_per_image);
  Array view = reshaped(x, {x.dims[0] * groups_per_image, channels / groups_per_image * inner});
  Array y = reshaped(normalize_rows(c, view, 1, true, nullptr, nullptr, c.number("epsilon", 1e-5F))[0], x.dims);
  // GroupNormalization up to opset 20 has one weight per group.
  auto weight = [&](const Array& w, std::int64_t channel) {
    if (size_of(w) == channels) return w.values[at(channel)];
    if (size_of(w) != groups_per_image) c.error("{} weights for {} channels", w.values.size(), channels);
    return w.values[at(channel / (channels / groups_per_image))];
  };
  for (std::int64_t i = 0; i < size_of(y); ++i) {
    auto channel = i / inner % channels;
    y.values[at(i)] = y.values[at(i)] * weight(scale, channel) + weight(shift, channel);
  }
  return {std::move(y)};
}

Results instance_norm(const OpCall& c) { return normalize_channels(c, c.in(0).dims.size() < 2 ? 1 : c.in(0).dims[1], c.in(1), c.in(2)); }
Results group_norm(const OpCall& c) { return normalize_channels(c, c.required("num_groups"), c.in(1), c.in(2)); }

// X, scale, B, mean, var: inference mode.
Results batch_norm(const OpCall& c) {
  if (c.integer("training_mode", 0) != 0) c.unsupported("training");
  Array y = c.in(0);
  if (y.dims.size() < 2) c.error("input is {}", show(y.dims));
  double epsilon = c.number("epsilon", 1e-5F);
  auto channels = y.dims[1], inner = count_of(y.dims, 2, y.dims.size());
  for (std::size_t i = 1; i < 5; ++i) {
    if (size_of(c.in(i)) != channels) c.error("input {} is {} for {} channels", i, show(c.in(i).dims), channels);
  }
  for (std::int64_t i = 0; i < size_of(y); ++i) {
    auto k = at(i / inner % channels);
    double& v = y.values[at(i)];
    v = (v - c.in(3).values[k]) / std::sqrt(c.in(4).values[k] + epsilon) * c.in(1).values[k] + c.in(2).values[k];
  }
  return {std::move(y)};
}

Results lp_norm(const OpCall& c) {
  Array y = c.in(0);
  auto axis = axis_of(c, c.integer("axis", -1), y.dims.size());
  auto p = c.integer("p", 2);
  for_each_line(y.dims, axis, [&](std::int64_t first, std::int64_t step) {
    double sum = 0;
    for (std::int64_t i = 0; i < y.dims[axis]; ++i) {
      double v = y.values[at(first + i * step)];
      sum += p == 1 ? std::abs(v) : v * v;
    }
    double norm = p == 1 ? sum : std::sqrt(sum);
    for (std::int64_t i = 0; i < y.dims[axis]; ++i) y.values[at(first + i * step)] = norm == 0 ? 0 : y.values[at(first + i * step)] / norm;
  });
  return {std::move(y)};
}

}  // namespace

void add_reference_norms(ReferenceTable& table) {
  auto& onnx = table.onnx;
  onnx["LayerNormalization"] = layer_norm;
  onnx["RMSNormalization"] = rms_norm;
  onnx["SimplifiedLayerNormalization"] = rms_norm;
  onnx["InstanceNormalization"] = instance_norm;
  onnx["GroupNormalization"] = group_norm;
  onnx["BatchNormalization"] = batch_norm;
  onnx["LpNormalization"] = lp_norm;
  table.microsoft["SkipLayerNormalization"] = skip_layer_norm;
  table.microsoft["SkipSimplifiedLayerNormalization"] = skip_rms_norm;
}

}  // namespace mobius::ops
