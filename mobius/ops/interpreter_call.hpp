// What a reference implementation sees: one call of an operator, and the array helpers they all share. Internal to ops/.
//
//   std::vector<Array> relu(const OpCall& c) { return {map(c.in(0), [](double x) { return std::max(x, 0.0); })}; }
#pragma once
#include <fmt/core.h>

#include <array>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "mobius/base/error.hpp"
#include "mobius/ops/interpreter.hpp"

namespace mobius::ops {

// Evaluates a subgraph of the node on inputs in order; values of outer graphs are found by whoever made the runner.
using SubgraphRunner = std::function<std::vector<Array>(const ir::Graph&, const std::vector<Array>&)>;

struct OpCall {
  const ir::Node& node;
  const ir::Attributes& attributes;  // references to a function's attributes are resolved here
  std::span<const Array* const> inputs;
  std::size_t outputs = 1;
  const SubgraphRunner* run = nullptr;

  const Array* maybe(std::size_t i) const { return i < inputs.size() ? inputs[i] : nullptr; }
  bool has(std::size_t i) const { return maybe(i) != nullptr; }
  const Array& in(std::size_t i) const;                 // Error when absent
  std::vector<std::int64_t> ints(std::size_t i) const;  // an input's elements
  std::int64_t integer(std::size_t i) const;            // the only element of an input
  double number(std::size_t i) const;

  std::int64_t integer(std::string_view name, std::int64_t otherwise) const;
  std::int64_t required(std::string_view name) const;
  double number(std::string_view name, double otherwise) const;
  std::string_view text(std::string_view name, std::string_view otherwise) const;
  std::optional<std::vector<std::int64_t>> ints(std::string_view name) const;
  const ir::Attribute* attribute(std::string_view name) const;
  const ir::Graph& graph(std::string_view name) const;
  // Input `i` if present, else attribute `name`.
  std::optional<std::vector<std::int64_t>> ints_from(std::size_t i, std::string_view name) const;

  template <class... Args>
  [[noreturn]] void error(fmt::format_string<Args...> format, Args&&... args) const {
    fail(ErrorKind::invalid_argument, "{}: {}", place(), fmt::vformat(format, fmt::make_format_args(args...)));
  }
  template <class... Args>
  [[noreturn]] void unsupported(fmt::format_string<Args...> format, Args&&... args) const {
    fail(ErrorKind::unsupported, "{}: {}", place(), fmt::vformat(format, fmt::make_format_args(args...)));
  }
  std::string place() const;
};

using ReferenceFunction = std::vector<Array> (*)(const OpCall& call);
struct ReferenceTable {
  std::unordered_map<std::string_view, ReferenceFunction> onnx, microsoft;
};
void add_reference_unary(ReferenceTable& table);
void add_reference_binary(ReferenceTable& table);
void add_reference_linear(ReferenceTable& table);
void add_reference_reduce(ReferenceTable& table);
void add_reference_norms(ReferenceTable& table);
void add_reference_shape_ops(ReferenceTable& table);
void add_reference_index_ops(ReferenceTable& table);
void add_reference_quantize(ReferenceTable& table);
void add_reference_conv(ReferenceTable& table);
void add_reference_attention(ReferenceTable& table);
void add_reference_ms_attention(ReferenceTable& table);
void add_reference_experts(ReferenceTable& table);
void add_reference_control(ReferenceTable& table);
ReferenceFunction find_reference(ir::OpName op);

// ── arrays ───────────────────────────────────────────────────────────────────────────────────────────────────────────────

// Sizes are checked: an Error unsupported for more elements than a reference is meant for.
Array filled(ir::DataType dtype, ir::Dims dims, double value = 0);
inline Array zeros(ir::DataType dtype, ir::Dims dims) { return filled(dtype, std::move(dims), 0); }
Array vector_of(const std::vector<std::int64_t>& values);  // int64 [n]
Array scalar_of(ir::DataType dtype, double value);

inline std::int64_t size_of(const Array& a) { return static_cast<std::int64_t>(a.values.size()); }
inline std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }
std::int64_t count_of(const ir::Dims& dims, std::size_t begin, std::size_t end);
std::size_t axis_of(const OpCall& c, std::int64_t axis, std::size_t rank);
std::int64_t to_integer(double value);             // truncates, stops at int64's ends
double wrapped(ir::DataType dtype, double value);  // an integer as its type holds it
std::string show(const ir::Dims& dims);
Array reshaped(Array a, ir::Dims dims);  // the same number of elements

ir::Dims strides_of(const ir::Dims& dims);
// Strides that read `from` as if it had been broadcast to `to`.
ir::Dims broadcast_strides(const ir::Dims& from, const ir::Dims& to);
ir::Dims broadcast_dims(const OpCall& c, const ir::Dims& a, const ir::Dims& b);
Array transposed(const Array& x, const std::vector<std::size_t>& perm);

// Visits every index of `dims` in row-major order: f(n, offsets), where offset k moves by strides[k].
template <std::size_t N, class F>
void walk(const ir::Dims& dims, const std::array<ir::Dims, N>& strides, F f) {
  auto count = ir::element_count(dims);
  std::array<std::int64_t, N> offset{};
  ir::Dims index(dims.size(), 0);
  for (std::int64_t n = 0; n < count; ++n) {
    f(n, offset);
    for (auto axis = dims.size(); axis-- > 0;) {
      bool stays = ++index[axis] < dims[axis];
      for (std::size_t k = 0; k < N; ++k) offset[k] += stays ? strides[k][axis] : -strides[k][axis] * (dims[axis] - 1);
      if (stays) break;
      index[axis] = 0;
    }
  }
}

template <class F>
Array map(const Array& x, F f) {
  Array y = x;
  for (auto& v : y.values) v = f(v);
  return y;
}

template <class F>
Array map2(const OpCall& c, ir::DataType dtype, const Array& a, const Array& b, F f) {
  Array y = zeros(dtype, broadcast_dims(c, a.dims, b.dims));
  walk<2>(y.dims, {broadcast_strides(a.dims, y.dims), broadcast_strides(b.dims, y.dims)},
          [&](std::int64_t n, const std::array<std::int64_t, 2>& o) { y.values[at(n)] = f(a.values[at(o[0])], b.values[at(o[1])]); });
  return y;
}

// x as [outer, axis, inner]: f is called with the first element's offset and the step, for every outer and inner index.
template <class F>
void for_each_line(const ir::Dims& dims, std::size_t axis, F f) {
  auto outer = count_of(dims, 0, axis), n = dims[axis], inner = count_of(dims, axis + 1, dims.size());
  for (std::int64_t o = 0; o < outer; ++o) {
    for (std::int64_t i = 0; i < inner; ++i) f(o * n * inner + i, inner);
  }
}

// Shared by several files.
Array matmul(const OpCall& c, const Array& a, const Array& b);
double activate(const OpCall& c, std::string_view name, double x);  // relu, gelu, silu, identity, tanh, sigmoid

// softmax(mask(cap(scale·QKᵀ)))·V in [B, heads, length, size]; every group of query heads shares a key head.
struct Attention {
  const Array &q, &k, &v;
  double scale = 1, softcap = 0;
  // Added to a score; -infinity hides key j from query i.
  std::function<double(std::int64_t b, std::int64_t n, std::int64_t i, std::int64_t j)> mask = {};
  // One more score in the denominator of head n, without a value.
  std::function<double(std::int64_t n)> sink = {};
  Array scores = {}, capped = {}, masked = {}, weights = {};  // [B, N, S, T], filled by attend

  Array attend();  // [B, N, S, Dv]; a row that sees no key is zero
};
Array split_heads(const OpCall& c, const Array& x, std::int64_t heads);   // [B, S, heads·D] -> [B, heads, S, D]
Array merge_heads(const Array& x);                                        // [B, heads, S, D] -> [B, S, heads·D]
Array concat_length(const OpCall& c, const Array& past, const Array& x);  // along axis 2 of 4

// Rotates x [B, heads, S, D]: channel pairs (i, i + R/2), or (2i, 2i + 1) when interleaved, by the angles of row position(b, s).
struct RotaryTable {
  const Array &cos, &sin;  // [.., R/2]
  bool interleaved = false;
  std::function<std::int64_t(std::int64_t b, std::int64_t s)> row;
};
Array rotate(const OpCall& c, Array x, const RotaryTable& table, std::int64_t rotary_dim = 0);

}  // namespace mobius::ops
