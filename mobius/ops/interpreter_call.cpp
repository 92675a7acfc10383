// Reading a call's operands and attributes; array helpers.
#include "mobius/ops/interpreter_call.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace mobius::ops {

using ir::DataType;
using ir::Dims;

namespace {

constexpr std::int64_t max_elements = std::int64_t{1} << 27;  // 1 GB of doubles: far above what a reference is for

template <class T>
const T* typed(const OpCall& c, std::string_view name) {
  auto found = c.attribute(name);
  if (!found) return nullptr;
  auto value = std::get_if<T>(found);
  if (!value) c.error("attribute '{}' has another type than the operator says", name);
  return value;
}

}  // namespace

std::string OpCall::place() const {
  auto op = ir::to_string(node.op);
  return node.name.empty() ? op : fmt::format("{} ({})", node.name, op);
}

const Array& OpCall::in(std::size_t i) const {
  if (!has(i)) error("input {} is missing", i);
  return *inputs[i];
}

std::vector<std::int64_t> OpCall::ints(std::size_t i) const {
  std::vector<std::int64_t> result;
  for (double v : in(i).values) result.push_back(to_integer(v));
  return result;
}

double OpCall::number(std::size_t i) const {
  if (in(i).values.size() != 1) error("input {} is {}, expected one element", i, show(in(i).dims));
  return in(i).values[0];
}

std::int64_t OpCall::integer(std::size_t i) const { return to_integer(number(i)); }

const ir::Attribute* OpCall::attribute(std::string_view name) const {
  auto found = attributes.find(name);
  return found == attributes.end() ? nullptr : &found->second;
}

std::int64_t OpCall::integer(std::string_view name, std::int64_t otherwise) const {
  auto value = typed<std::int64_t>(*this, name);
  return value ? *value : otherwise;
}

std::int64_t OpCall::required(std::string_view name) const {
  auto value = typed<std::int64_t>(*this, name);
  if (!value) error("attribute '{}' is required", name);
  return *value;
}

double OpCall::number(std::string_view name, double otherwise) const {
  auto value = typed<float>(*this, name);
  return value ? static_cast<double>(*value) : otherwise;
}

std::string_view OpCall::text(std::string_view name, std::string_view otherwise) const {
  auto value = typed<std::string>(*this, name);
  return value ? std::string_view(*value) : otherwise;
}

std::optional<std::vector<std::int64_t>> OpCall::ints(std::string_view name) const {
  auto value = typed<std::vector<std::int64_t>>(*this, name);
  return value ? std::optional(*value) : std::nullopt;
}

const ir::Graph& OpCall::graph(std::string_view name) const {
  auto value = typed<ir::GraphPtr>(*this, name);
  if (!value || !*value) error("attribute '{}' is no graph", name);
  return **value;
}

std::optional<std::vector<std::int64_t>> OpCall::ints_from(std::size_t i, std::string_view name) const { return has(i) ? std::optional(ints(i)) : ints(name); }

// ── arrays ───────────────────────────────────────────────────────────────────────────────────────────────────────────────

Array filled(DataType dtype, Dims dims, double value) {
  std::int64_t count = 1;
  for (auto d : dims) {
    if (d < 0) fail(ErrorKind::invalid_argument, "a size of {}", d);
    if (__builtin_mul_overflow(count, d, &count)) count = max_elements + 1;
  }
  if (count > max_elements) fail(ErrorKind::unsupported, "{} is too large for the reference interpreter", show(dims));
  return {dtype, std::move(dims), std::vector<double>(at(count), value)};
}

Array vector_of(const std::vector<std::int64_t>& values) {
  return {DataType::int64, {static_cast<std::int64_t>(values.size())}, std::vector<double>(values.begin(), values.end())};
}

Array scalar_of(DataType dtype, double value) { return {dtype, {}, {value}}; }

std::int64_t count_of(const Dims& dims, std::size_t begin, std::size_t end) {
  std::int64_t n = 1;
  for (auto i = begin; i < end; ++i) n *= dims[i];
  return n;
}

std::size_t axis_of(const OpCall& c, std::int64_t axis, std::size_t rank) {
  auto n = static_cast<std::int64_t>(rank);
  if (axis < -n || axis >= n) c.error("axis {} is outside a tensor of rank {}", axis, n);
  return at(axis < 0 ? axis + n : axis);
}

std::int64_t to_integer(double value) {
  if (std::isnan(value)) return 0;
  if (value >= 9223372036854775807.0) return std::numeric_limits<std::int64_t>::max();
  if (value <= -9223372036854775808.0) return std::numeric_limits<std::int64_t>::min();
  return static_cast<std::int64_t>(value);
}

double wrapped(DataType dtype, double value) {
  if (!ir::is_integer(dtype) || ir::bit_width(dtype) >= 64) return value;
  double span = std::ldexp(1.0, ir::bit_width(dtype));
  bool is_signed = dtype == DataType::int32 || dtype == DataType::int16 || dtype == DataType::int8 || dtype == DataType::int4 || dtype == DataType::int2;
  double low = is_signed ? -span / 2 : 0;
  if (value >= low && value < low + span) return value;
  double rest = std::fmod(value - low, span);
  return (rest < 0 ? rest + span : rest) + low;
}

std::string show(const Dims& dims) {
  std::string result = "[";
  for (std::size_t i = 0; i < dims.size(); ++i) result += (i ? ", " : "") + std::to_string(dims[i]);
  return result + "]";
}

Array reshaped(Array a, Dims dims) {
  expect(ir::element_count(dims) == size_of(a), "a reshape that changes the number of elements");
  a.dims = std::move(dims);
  return a;
}

Dims strides_of(const Dims& dims) {
  Dims strides(dims.size());
  std::int64_t step = 1;
  for (auto i = dims.size(); i-- > 0;) {
    strides[i] = step;
    step *= dims[i];
  }
  return strides;
}

Dims broadcast_strides(const Dims& from, const Dims& to) {
  Dims own = strides_of(from), result(to.size(), 0);
  auto shift = to.size() - from.size();
  for (std::size_t i = 0; i < from.size(); ++i) result[i + shift] = from[i] == 1 ? 0 : own[i];
  return result;
}

Dims broadcast_dims(const OpCall& c, const Dims& a, const Dims& b) {
  Dims result(std::max(a.size(), b.size()));
  for (std::size_t i = 0; i < result.size(); ++i) {
    auto x = i < a.size() ? a[a.size() - 1 - i] : 1, y = i < b.size() ? b[b.size() - 1 - i] : 1;
    if (x != y && x != 1 && y != 1) c.error("{} and {} can't be broadcast", show(a), show(b));
    result[result.size() - 1 - i] = x == 1 ? y : x;
  }
  return result;
}

Array transposed(const Array& x, const std::vector<std::size_t>& perm) {
  Dims own = strides_of(x.dims), dims, strides;
  for (auto p : perm) {
    dims.push_back(x.dims[p]);
    strides.push_back(own[p]);
  }
  Array y = zeros(x.dtype, std::move(dims));
  walk<1>(y.dims, {strides}, [&](std::int64_t n, const std::array<std::int64_t, 1>& o) { y.values[at(n)] = x.values[at(o[0])]; });
  return y;
}

}  // namespace mobius::ops
