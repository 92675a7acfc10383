// References: element-wise operators of two and more inputs, with broadcasting.
#include <algorithm>
#include <cmath>

#include "mobius/ops/interpreter_call.hpp"

namespace mobius::ops {
namespace {

using ir::DataType;
using Results = std::vector<Array>;

template <class F>
Results arithmetic(const OpCall& c, F f) {
  auto dtype = c.in(0).dtype;
  if (!ir::is_integer(dtype)) return {map2(c, dtype, c.in(0), c.in(1), f)};
  return {map2(c, dtype, c.in(0), c.in(1), [&](double a, double b) { return wrapped(dtype, f(a, b)); })};
}

Results add(const OpCall& c) {
  return arithmetic(c, [](double a, double b) { return a + b; });
}
Results sub(const OpCall& c) {
  return arithmetic(c, [](double a, double b) { return a - b; });
}
Results mul(const OpCall& c) {
  return arithmetic(c, [](double a, double b) { return a * b; });
}

Results div(const OpCall& c) {
  if (!ir::is_integer(c.in(0).dtype)) return arithmetic(c, [](double a, double b) { return a / b; });
  return arithmetic(c, [&](double a, double b) {
    if (b == 0) c.error("integer division by zero");
    return std::trunc(a / b);
  });
}

Results mod(const OpCall& c) {
  bool c_like = c.integer("fmod", 0) != 0, integers = ir::is_integer(c.in(0).dtype);
  return arithmetic(c, [&](double a, double b) {
    if (integers && b == 0) c.error("integer division by zero");
    double rest = std::fmod(a, b);
    return !c_like && rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
  });
}

Results power(const OpCall& c) {
  bool integers = ir::is_integer(c.in(0).dtype);
  return arithmetic(c, [&](double a, double b) { return integers ? std::trunc(std::pow(a, b)) : std::pow(a, b); });
}

Results prelu(const OpCall& c) {
  return arithmetic(c, [](double x, double slope) { return x < 0 ? slope * x : x; });
}

template <class F>
Results comparison(const OpCall& c, F f) {
  return {map2(c, DataType::boolean, c.in(0), c.in(1), [&](double a, double b) { return f(a, b) ? 1.0 : 0.0; })};
}

Results logical_and(const OpCall& c) {
  return comparison(c, [](double a, double b) { return a != 0 && b != 0; });
}
Results logical_or(const OpCall& c) {
  return comparison(c, [](double a, double b) { return a != 0 || b != 0; });
}
Results logical_xor(const OpCall& c) {
  return comparison(c, [](double a, double b) { return (a != 0) != (b != 0); });
}
Results equal(const OpCall& c) { return comparison(c, std::equal_to<>()); }
Results less(const OpCall& c) { return comparison(c, std::less<>()); }
Results less_or_equal(const OpCall& c) { return comparison(c, std::less_equal<>()); }
Results greater(const OpCall& c) { return comparison(c, std::greater<>()); }
Results greater_or_equal(const OpCall& c) { return comparison(c, std::greater_equal<>()); }

template <class F>
Results bitwise(const OpCall& c, F f) {
  auto dtype = c.in(0).dtype;
  return {map2(c, dtype, c.in(0), c.in(1), [&](double a, double b) {
    return wrapped(dtype,
                   static_cast<double>(static_cast<std::int64_t>(f(static_cast<std::uint64_t>(to_integer(a)), static_cast<std::uint64_t>(to_integer(b))))));
  })};
}
Results bitwise_and(const OpCall& c) {
  return bitwise(c, [](std::uint64_t a, std::uint64_t b) { return a & b; });
}
Results bitwise_or(const OpCall& c) {
  return bitwise(c, [](std::uint64_t a, std::uint64_t b) { return a | b; });
}
Results bitwise_xor(const OpCall& c) {
  return bitwise(c, [](std::uint64_t a, std::uint64_t b) { return a ^ b; });
}
Results bit_shift(const OpCall& c) {
  bool left = c.text("direction", "") == "LEFT";
  return bitwise(c, [&](std::uint64_t a, std::uint64_t b) { return b > 63 ? 0 : (left ? a << b : a >> b); });
}

template <class F>
Results variadic(const OpCall& c, F f) {
  Array y = c.in(0);
  auto dtype = y.dtype;
  for (std::size_t i = 1; i < c.inputs.size(); ++i) y = map2(c, dtype, y, c.in(i), f);
  return {std::move(y)};
}
Results sum(const OpCall& c) {
  return variadic(c, [](double a, double b) { return a + b; });
}
Results mean(const OpCall& c) {
  auto result = sum(c);
  for (auto& v : result[0].values) v /= static_cast<double>(c.inputs.size());
  return result;
}
// A NaN stays one.
Results minimum(const OpCall& c) {
  return variadic(c, [](double a, double b) { return std::isnan(a) || std::isnan(b) ? a + b : std::min(a, b); });
}
Results maximum(const OpCall& c) {
  return variadic(c, [](double a, double b) { return std::isnan(a) || std::isnan(b) ? a + b : std::max(a, b); });
}

Results where(const OpCall& c) {
  const Array &condition = c.in(0), &yes = c.in(1), &no = c.in(2);
  Array y = zeros(yes.dtype, broadcast_dims(c, condition.dims, broadcast_dims(c, yes.dims, no.dims)));
  walk<3>(y.dims, {broadcast_strides(condition.dims, y.dims), broadcast_strides(yes.dims, y.dims), broadcast_strides(no.dims, y.dims)},
          [&](std::int64_t n, const std::array<std::int64_t, 3>& o) {
            y.values[at(n)] = condition.values[at(o[0])] != 0 ? yes.values[at(o[1])] : no.values[at(o[2])];
          });
  return {std::move(y)};
}

}  // namespace

void add_reference_binary(ReferenceTable& table) {
  auto& onnx = table.onnx;
  onnx["Add"] = add;
  onnx["Sub"] = sub;
  onnx["Mul"] = mul;
  onnx["Div"] = div;
  onnx["Mod"] = mod;
  onnx["Pow"] = power;
  onnx["PRelu"] = prelu;
  onnx["And"] = logical_and;
  onnx["Or"] = logical_or;
  onnx["Xor"] = logical_xor;
  onnx["Equal"] = equal;
  onnx["Less"] = less;
  onnx["LessOrEqual"] = less_or_equal;
  onnx["Greater"] = greater;
  onnx["GreaterOrEqual"] = greater_or_equal;
  onnx["BitwiseAnd"] = bitwise_and;
  onnx["BitwiseOr"] = bitwise_or;
  onnx["BitwiseXor"] = bitwise_xor;
  onnx["BitShift"] = bit_shift;
  onnx["Sum"] = sum;
  onnx["Mean"] = mean;
  onnx["Min"] = minimum;
  onnx["Max"] = maximum;
  onnx["Where"] = where;
}

}  // namespace mobius::ops
