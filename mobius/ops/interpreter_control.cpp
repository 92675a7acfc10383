// References: If, Loop and Scan, by running their bodies.
#include <algorithm>

#include "mobius/ops/interpreter_call.hpp"

namespace mobius::ops {
namespace {

using ir::DataType;
using ir::Dims;
using Results = std::vector<Array>;
constexpr std::int64_t max_trips = 1 << 20;

Results if_op(const OpCall& c) { return (*c.run)(c.graph(c.number(std::size_t{0}) != 0 ? "then_branch" : "else_branch"), {}); }

// Joins slices along a new axis.
Array stacked(const OpCall& c, const std::vector<Array>& slices, std::int64_t axis) {
  if (slices.empty()) return zeros(DataType::float32, {0});
  auto where = axis_of(c, axis, slices[0].dims.size() + 1);
  Dims dims = slices[0].dims;
  dims.insert(dims.begin() + static_cast<std::ptrdiff_t>(where), static_cast<std::int64_t>(slices.size()));
  Array y = zeros(slices[0].dtype, dims);
  auto outer = count_of(dims, 0, where), inner = count_of(dims, where + 1, dims.size()), n = dims[where];
  for (std::int64_t i = 0; i < n; ++i) {
    if (slices[at(i)].dims != slices[0].dims) c.error("slices are {} and {}", show(slices[0].dims), show(slices[at(i)].dims));
    for (std::int64_t o = 0; o < outer; ++o) std::copy_n(slices[at(i)].values.begin() + o * inner, inner, y.values.begin() + (o * n + i) * inner);
  }
  return y;
}

Array slice_of(const Array& x, std::size_t axis, std::int64_t i) {
  Dims dims = x.dims;
  dims.erase(dims.begin() + static_cast<std::ptrdiff_t>(axis));
  Array y = zeros(x.dtype, dims);
  auto outer = count_of(x.dims, 0, axis), inner = count_of(x.dims, axis + 1, x.dims.size());
  for (std::int64_t o = 0; o < outer; ++o) std::copy_n(x.values.begin() + (o * x.dims[axis] + i) * inner, inner, y.values.begin() + o * inner);
  return y;
}

// M?, cond?, v... ; body: iteration, condition, v... -> condition, v..., slices...
Results loop(const OpCall& c) {
  const ir::Graph& body = c.graph("body");
  auto carried = c.inputs.size() < 2 ? 0 : c.inputs.size() - 2;
  auto trips = c.has(0) ? c.integer(std::size_t{0}) : max_trips;
  if (trips > max_trips) c.unsupported("{} iterations", trips);
  bool goes_on = !c.has(1) || c.number(1) != 0;
  Results state;
  for (std::size_t i = 0; i < carried; ++i) state.push_back(c.in(i + 2));
  if (body.outputs().size() < carried + 1) c.error("the body has {} outputs for {} carried values", body.outputs().size(), carried);
  std::vector<std::vector<Array>> slices(body.outputs().size() - carried - 1);
  std::int64_t trip = 0;
  for (; goes_on && trip < trips; ++trip) {
    Results inputs{scalar_of(DataType::int64, static_cast<double>(trip)), scalar_of(DataType::boolean, 1)};
    inputs.insert(inputs.end(), state.begin(), state.end());
    auto results = (*c.run)(body, inputs);
    goes_on = results[0].values.at(0) != 0;
    for (std::size_t i = 0; i < carried; ++i) state[i] = std::move(results[i + 1]);
    for (std::size_t i = 0; i < slices.size(); ++i) slices[i].push_back(std::move(results[carried + 1 + i]));
  }
  if (goes_on && !c.has(0)) c.unsupported("more than {} iterations", max_trips);
  for (const auto& s : slices) state.push_back(stacked(c, s, 0));
  return state;
}

Results scan(const OpCall& c) {
  const ir::Graph& body = c.graph("body");
  auto n = c.inputs.size();
  auto scanned = at(std::clamp<std::int64_t>(c.required("num_scan_inputs"), 0, static_cast<std::int64_t>(n)));
  auto states = n - scanned;
  if (scanned == 0 || body.outputs().size() < states) c.error("{} scan inputs, {} body outputs for {} states", scanned, body.outputs().size(), states);
  auto outs = body.outputs().size() - states;
  auto option = [&](std::string_view name, std::size_t size) {
    auto values = c.ints(name).value_or(std::vector<std::int64_t>(size, 0));
    if (values.size() != size) c.error("attribute '{}' has {} entries, expected {}", name, values.size(), size);
    return values;
  };
  auto in_axes = option("scan_input_axes", scanned), in_directions = option("scan_input_directions", scanned);
  auto out_axes = option("scan_output_axes", outs), out_directions = option("scan_output_directions", outs);
  Results state;
  for (std::size_t i = 0; i < states; ++i) state.push_back(c.in(i));
  std::vector<std::vector<Array>> slices(outs);
  auto length = c.in(states).dims.at(axis_of(c, in_axes[0], c.in(states).dims.size()));
  for (std::int64_t t = 0; t < length; ++t) {
    Results inputs = state;
    for (std::size_t i = 0; i < scanned; ++i) {
      const Array& x = c.in(states + i);
      auto axis = axis_of(c, in_axes[i], x.dims.size());
      if (x.dims[axis] != length) c.error("scan lengths {} and {}", length, x.dims[axis]);
      inputs.push_back(slice_of(x, axis, in_directions[i] != 0 ? length - 1 - t : t));
    }
    auto results = (*c.run)(body, inputs);
    for (std::size_t i = 0; i < states; ++i) state[i] = std::move(results[i]);
    for (std::size_t i = 0; i < outs; ++i) slices[i].push_back(std::move(results[states + i]));
  }
  for (std::size_t i = 0; i < outs; ++i) {
    if (out_directions[i] != 0) std::reverse(slices[i].begin(), slices[i].end());
    state.push_back(stacked(c, slices[i], out_axes[i]));
  }
  return state;
}

}  // namespace

void add_reference_control(ReferenceTable& table) {
  table.onnx["If"] = if_op;
  table.onnx["Loop"] = loop;
  table.onnx["Scan"] = scan;
}

}  // namespace mobius::ops
