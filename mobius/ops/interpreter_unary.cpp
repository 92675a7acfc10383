// References: element-wise operators of one input, casts, identities.
#include <algorithm>
#include <cmath>
#include <limits>

#include "mobius/ops/interpreter_call.hpp"

namespace mobius::ops {
namespace {

using ir::DataType;
using Results = std::vector<Array>;

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double softplus(double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))); }
double gelu_erf(double x) { return 0.5 * x * std::erfc(-x / std::sqrt(2.0)); }
double gelu_tanh(double x) { return 0.5 * x * (1 + std::tanh(std::sqrt(2 / 3.14159265358979323846) * (x + 0.044715 * x * x * x))); }
double sign(double x) { return x > 0 ? 1 : (x < 0 ? -1 : 0); }
double logical_not(double x) { return x == 0 ? 1 : 0; }
double relu(double x) { return std::max(x, 0.0); }
double negate(double x) { return -x; }
double reciprocal(double x) { return 1 / x; }
double softsign(double x) { return x / (1 + std::abs(x)); }
double mish(double x) { return x * std::tanh(softplus(x)); }
double hard_swish(double x) { return x * std::clamp(x / 6 + 0.5, 0.0, 1.0); }
double round_half_even(double x) { return std::nearbyint(x); }

template <double (*f)(double)>
Results unary(const OpCall& c) {
  const Array& x = c.in(0);
  Array y = map(x, f);
  if (ir::is_integer(x.dtype)) y = map(y, [&](double v) { return wrapped(x.dtype, v); });
  return {std::move(y)};
}

Results is_nan(const OpCall& c) {
  Array y = map(c.in(0), [](double x) { return std::isnan(x) ? 1.0 : 0.0; });
  y.dtype = DataType::boolean;
  return {std::move(y)};
}

Results is_inf(const OpCall& c) {
  bool negative = c.integer("detect_negative", 1) != 0, positive = c.integer("detect_positive", 1) != 0;
  Array y = map(c.in(0), [&](double x) { return std::isinf(x) && (x < 0 ? negative : positive) ? 1.0 : 0.0; });
  y.dtype = DataType::boolean;
  return {std::move(y)};
}

Results bitwise_not(const OpCall& c) {
  auto dtype = c.in(0).dtype;
  return {map(c.in(0), [&](double x) { return wrapped(dtype, -x - 1); })};
}

Results leaky_relu(const OpCall& c) {
  double alpha = c.number("alpha", 0.01F);
  return {map(c.in(0), [&](double x) { return x < 0 ? alpha * x : x; })};
}
Results elu(const OpCall& c) {
  double alpha = c.number("alpha", 1);
  return {map(c.in(0), [&](double x) { return x < 0 ? alpha * std::expm1(x) : x; })};
}
Results celu(const OpCall& c) {
  double alpha = c.number("alpha", 1);
  return {map(c.in(0), [&](double x) { return std::max(x, 0.0) + std::min(0.0, alpha * std::expm1(x / alpha)); })};
}
Results selu(const OpCall& c) {
  double alpha = c.number("alpha", 1.67326319217681884765625), gamma = c.number("gamma", 1.05070102214813232421875);
  return {map(c.in(0), [&](double x) { return x > 0 ? gamma * x : gamma * alpha * std::expm1(x); })};
}
Results hard_sigmoid(const OpCall& c) {
  double alpha = c.number("alpha", 0.2F), beta = c.number("beta", 0.5);
  return {map(c.in(0), [&](double x) { return std::clamp(alpha * x + beta, 0.0, 1.0); })};
}
Results thresholded_relu(const OpCall& c) {
  double alpha = c.number("alpha", 1);
  return {map(c.in(0), [&](double x) { return x > alpha ? x : 0; })};
}
Results shrink(const OpCall& c) {
  double bias = c.number("bias", 0), lambda = c.number("lambd", 0.5);
  return {map(c.in(0), [&](double x) { return x < -lambda ? x + bias : (x > lambda ? x - bias : 0); })};
}
Results swish(const OpCall& c) {
  double alpha = c.number("alpha", 1);
  return {map(c.in(0), [&](double x) { return x * sigmoid(alpha * x); })};
}
Results quick_gelu(const OpCall& c) {
  double alpha = c.number("alpha", 1.702F);
  return {map(c.in(0), [&](double x) { return x * sigmoid(alpha * x); })};
}
Results gelu(const OpCall& c) { return {map(c.in(0), c.text("approximate", "none") == "tanh" ? gelu_tanh : gelu_erf)}; }

template <double (*f)(double)>
Results biased(const OpCall& c) {
  if (!c.has(1)) return {map(c.in(0), f)};
  return {map2(c, c.in(0).dtype, c.in(0), c.in(1), [](double x, double b) { return f(x + b); })};
}

Array cast_to(const Array& x, DataType to) {
  Array y = x;
  y.dtype = to;
  if (to == DataType::boolean) {
    for (auto& v : y.values) v = v != 0 ? 1 : 0;
  } else if (ir::is_integer(to)) {
    for (auto& v : y.values) v = wrapped(to, std::isnan(v) ? 0 : std::trunc(v));
  }
  return y;
}

Results cast(const OpCall& c) {
  auto to = c.required("to");
  if (to <= 0 || to > ir::last_data_type) c.error("attribute 'to' is {}, which is no data type", to);
  if (static_cast<DataType>(to) == DataType::string) c.unsupported("casts to string");
  return {cast_to(c.in(0), static_cast<DataType>(to))};
}
Results cast_like(const OpCall& c) { return {cast_to(c.in(0), c.in(1).dtype)}; }

Results identity(const OpCall& c) { return {c.in(0)}; }

Results dropout(const OpCall& c) {
  if (c.has(2) && c.number(2) != 0) c.unsupported("training");
  return {c.in(0), filled(DataType::boolean, c.in(0).dims, 1)};
}

Results clip(const OpCall& c) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  double low = c.has(1) ? c.number(1) : c.number("min", -infinity), high = c.has(2) ? c.number(2) : c.number("max", infinity);
  return {map(c.in(0), [&](double x) { return std::min(std::max(x, low), high); })};
}

}  // namespace

double activate(const OpCall& c, std::string_view name, double x) {
  if (name == "relu") return relu(x);
  if (name == "gelu") return gelu_erf(x);
  if (name == "gelu_tanh") return gelu_tanh(x);
  if (name == "silu" || name == "swish") return x * sigmoid(x);
  if (name == "sigmoid") return sigmoid(x);
  if (name == "identity" || name == "none") return x;
  c.unsupported("activation '{}'", name);
}

void add_reference_unary(ReferenceTable& table) {
  auto& onnx = table.onnx;
  onnx["Abs"] = unary<std::fabs>;
  onnx["Acos"] = unary<std::acos>;
  onnx["Acosh"] = unary<std::acosh>;
  onnx["Asin"] = unary<std::asin>;
  onnx["Asinh"] = unary<std::asinh>;
  onnx["Atan"] = unary<std::atan>;
  onnx["Atanh"] = unary<std::atanh>;
  onnx["Ceil"] = unary<std::ceil>;
  onnx["Cos"] = unary<std::cos>;
  onnx["Cosh"] = unary<std::cosh>;
  onnx["Erf"] = unary<std::erf>;
  onnx["Exp"] = unary<std::exp>;
  onnx["Floor"] = unary<std::floor>;
  onnx["Log"] = unary<std::log>;
  onnx["Neg"] = unary<negate>;
  onnx["Not"] = unary<logical_not>;
  onnx["Reciprocal"] = unary<reciprocal>;
  onnx["Relu"] = unary<relu>;
  onnx["Round"] = unary<round_half_even>;
  onnx["Sigmoid"] = unary<sigmoid>;
  onnx["Sign"] = unary<sign>;
  onnx["Sin"] = unary<std::sin>;
  onnx["Sinh"] = unary<std::sinh>;
  onnx["Softplus"] = unary<softplus>;
  onnx["Softsign"] = unary<softsign>;
  onnx["Sqrt"] = unary<std::sqrt>;
  onnx["Tan"] = unary<std::tan>;
  onnx["Tanh"] = unary<std::tanh>;
  onnx["Mish"] = unary<mish>;
  onnx["HardSwish"] = unary<hard_swish>;
  onnx["IsNaN"] = is_nan;
  onnx["IsInf"] = is_inf;
  onnx["BitwiseNot"] = bitwise_not;
  onnx["LeakyRelu"] = leaky_relu;
  onnx["Elu"] = elu;
  onnx["Celu"] = celu;
  onnx["Selu"] = selu;
  onnx["HardSigmoid"] = hard_sigmoid;
  onnx["ThresholdedRelu"] = thresholded_relu;
  onnx["Shrink"] = shrink;
  onnx["Swish"] = swish;
  onnx["Gelu"] = gelu;
  onnx["Cast"] = cast;
  onnx["CastLike"] = cast_like;
  onnx["Identity"] = identity;
  onnx["Dropout"] = dropout;
  onnx["Clip"] = clip;
  table.microsoft["Gelu"] = unary<gelu_erf>;
  table.microsoft["BiasGelu"] = biased<gelu_erf>;
  table.microsoft["FastGelu"] = biased<gelu_tanh>;
  table.microsoft["QuickGelu"] = quick_gelu;
}

}  // namespace mobius::ops
