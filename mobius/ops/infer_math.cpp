// Inference: element-wise operators, casts, matrix products. Integer arithmetic on small tensors is followed symbolically.
#include <algorithm>

#include "mobius/ops/infer_context.hpp"

namespace mobius::ops {
namespace {

using ir::DataType;
using ir::Dim;
using ir::Shape;

void infer_identity(InferContext& c) {
  if (!c.has(0)) return;
  c.output_type(0, c.input(0)->type);
  if (auto elements = c.contents(0)) c.output_contents(0, std::move(*elements));
}

// ── element-wise, with contents ──────────────────────────────────────────────────────────────────────────────────────────

using DimFunction = Dim (*)(const Dim&, const Dim&);

Dim dim_add(const Dim& a, const Dim& b) { return a + b; }
Dim dim_sub(const Dim& a, const Dim& b) { return a - b; }
Dim dim_mul(const Dim& a, const Dim& b) { return a * b; }
Dim dim_div(const Dim& a, const Dim& b) {
  if (b.is_static() && b.value() == -1) return Dim(0) - a;                                         // the lowest number has no opposite
  if (a.is_static() && b.is_static()) return b.value() == 0 ? Dim() : Dim(a.value() / b.value());  // truncates, as integer Div does
  return a.divided_by(b).value_or(Dim());
}
Dim dim_mod(const Dim& a, const Dim& b) {
  if (!a.is_static() || !b.is_static() || b.value() == 0) return {};
  if (b.value() == -1) return 0;
  auto rest = a.value() % b.value();
  return rest != 0 && (rest < 0) != (b.value() < 0) ? rest + b.value() : rest;
}
// With all symbols at least 0, `a` is the smaller one where b - a has no negative term.
Dim dim_min(const Dim& a, const Dim& b) {
  if (a == b) return a;
  if (auto d = lower_bound(b - a); d && *d >= 0) return a;
  if (auto d = lower_bound(a - b); d && *d >= 0) return b;
  return {};
}
Dim dim_max(const Dim& a, const Dim& b) {
  if (a == b) return a;
  if (auto d = lower_bound(b - a); d && *d >= 0) return b;
  if (auto d = lower_bound(a - b); d && *d >= 0) return a;
  return {};
}

void binary_contents(InferContext& c, DimFunction f) {
  const ir::Value* out = c.node().output();
  if (!out || !ir::is_integer(out->dtype()) || !out->shape() || out->shape()->size() > 1) return;
  auto result = c.contents(0);
  for (std::size_t i = 1; result && i < c.inputs(); ++i) {
    auto next = c.contents(i);
    if (!next) return;
    auto n = std::max(result->size(), next->size());
    if ((result->size() != n && result->size() != 1) || (next->size() != n && next->size() != 1)) return;
    Shape combined;
    for (std::size_t k = 0; k < n; ++k) combined.push_back(f((*result)[result->size() == 1 ? 0 : k], (*next)[next->size() == 1 ? 0 : k]));
    result = std::move(combined);
  }
  if (result) c.output_contents(0, std::move(*result));
}

DataType first_known_dtype(const InferContext& c, std::size_t begin, std::size_t end) {
  for (std::size_t i = begin; i < end; ++i) {
    if (c.dtype(i) != DataType::undefined) return c.dtype(i);
  }
  return DataType::undefined;
}

template <DimFunction f>
void infer_arithmetic(InferContext& c) {
  c.want_same_dtype(0, 1);
  c.output(0, first_known_dtype(c, 0, 2), c.broadcast({0, 1}));
  binary_contents(c, f);
}

void infer_binary(InferContext& c) {
  c.want_same_dtype(0, 1);
  c.output(0, first_known_dtype(c, 0, 2), c.broadcast({0, 1}));
}

void infer_mod(InferContext& c) {
  infer_binary(c);
  if (c.int_attribute("fmod", 0) == 0) binary_contents(c, dim_mod);
}

void infer_pow(InferContext& c) { c.output(0, c.dtype(0), c.broadcast({0, 1})); }  // the exponent may have another type

void infer_comparison(InferContext& c) {
  c.want_same_dtype(0, 1);
  c.output(0, DataType::boolean, c.broadcast({0, 1}));
}

// Booleans are followed as 0 and 1: shapes that exporters guard against -1 compare themselves with it.
void infer_equal(InferContext& c) {
  infer_comparison(c);
  auto a = c.contents(0), b = c.contents(1);
  if (!a || !b || a->size() != b->size() || c.rank(0) != c.rank(1)) return;
  Shape result;
  for (std::size_t i = 0; i < a->size(); ++i) {
    auto above = lower_bound((*a)[i] - (*b)[i]), below = lower_bound((*b)[i] - (*a)[i]);
    bool differ = (above && *above > 0) || (below && *below > 0);
    result.push_back((*a)[i] == (*b)[i] ? Dim(1) : differ ? Dim(0) : Dim());
  }
  c.output_contents(0, std::move(result));
}

void infer_predicate(InferContext& c) { c.output(0, DataType::boolean, c.shape(0)); }

void broadcast_all(InferContext& c) {
  std::optional<Shape> result = Shape{};
  for (std::size_t i = 0; i < c.inputs() && result; ++i) {
    if (!c.shape(i)) {
      result.reset();
      break;
    }
    auto next = ir::broadcast(*result, *c.shape(i));
    if (!next) c.error("{} and {} can't be broadcast", ir::to_string(*result), c.show(i));
    result = std::move(next);
  }
  c.output(0, first_known_dtype(c, 0, c.inputs()), std::move(result));
}

void infer_sum(InferContext& c) {
  broadcast_all(c);
  binary_contents(c, dim_add);
}
void infer_mean(InferContext& c) { broadcast_all(c); }
void infer_min(InferContext& c) {
  broadcast_all(c);
  binary_contents(c, dim_min);
}
void infer_max(InferContext& c) {
  broadcast_all(c);
  binary_contents(c, dim_max);
}

void infer_neg(InferContext& c) {
  c.same_as_input();
  auto elements = c.contents(0);
  if (!elements) return;
  for (auto& e : *elements) e = Dim(0) - e;
  c.output_contents(0, std::move(*elements));
}

void infer_where(InferContext& c) {
  c.want_same_dtype(1, 2);
  c.output(0, first_known_dtype(c, 1, 3), c.broadcast({0, 1, 2}));
  // A known condition chooses; equal alternatives need no condition.
  auto yes = c.contents(1), no = c.contents(2);
  if (!yes || !no || yes->size() != no->size()) return;
  auto condition = c.contents(0);
  if (!condition && c.input(0)->data() && c.input(0)->data()->elements() <= yes->size()) {
    if (auto values = ir::as_doubles(*c.input(0)->data())) {
      condition.emplace();
      for (double v : *values) condition->push_back(Dim(v != 0 ? 1 : 0));
    }
  }
  if (condition && condition->size() != yes->size() && condition->size() != 1) condition.reset();
  Shape chosen;
  for (std::size_t i = 0; i < yes->size(); ++i) {
    auto decided = condition ? (*condition)[condition->size() == 1 ? 0 : i] : Dim();
    if (decided.is_static()) {
      chosen.push_back(decided.value() != 0 ? (*yes)[i] : (*no)[i]);
    } else {
      chosen.push_back((*yes)[i] == (*no)[i] ? (*yes)[i] : Dim());
    }
  }
  c.output_contents(0, std::move(chosen));
}

void cast_contents(InferContext& c, DataType to) {
  if (to != DataType::int64 && to != DataType::int32) return;
  if (auto elements = c.contents(0)) c.output_contents(0, std::move(*elements));
}

void infer_cast(InferContext& c) {
  c.required_int("to");
  auto to = c.dtype_attribute("to", DataType::undefined);
  c.output(0, to, c.shape(0));
  cast_contents(c, to);
}

void infer_cast_like(InferContext& c) {
  c.output(0, c.dtype(1), c.shape(0));
  cast_contents(c, c.dtype(1));
}

void infer_bit_cast(InferContext& c) {
  c.required_int("to");
  c.output(0, c.dtype_attribute("to", DataType::undefined), c.shape(0));
}

void infer_clip(InferContext& c) {
  c.same_as_input();
  auto elements = c.contents(0);
  if (!elements) return;
  auto low = c.integer(1), high = c.integer(2);
  if ((c.has(1) && !low) || (c.has(2) && !high)) return;
  for (auto& e : *elements) {
    if (low) e = dim_max(e, Dim(*low));
    if (high) e = dim_min(e, Dim(*high));
  }
  c.output_contents(0, std::move(*elements));
}

void infer_prelu(InferContext& c) {
  c.broadcast({0, 1});
  c.same_as_input();
}

void infer_dropout(InferContext& c) {
  c.same_as_input();
  c.output(1, DataType::boolean, c.shape(0));
}

// ── matrix products ──────────────────────────────────────────────────────────────────────────────────────────────────────

std::optional<Shape> matmul_shape(const InferContext& c, Shape a, Shape b) {
  if (a.empty() || b.empty()) c.error("{} x {}: operands need rank 1 or more", ir::to_string(a), ir::to_string(b));
  bool row = a.size() == 1, column = b.size() == 1;
  if (row) a.insert(a.begin(), Dim(1));
  if (column) b.push_back(Dim(1));
  const Dim& inner_a = a.back();
  const Dim& inner_b = b[b.size() - 2];
  if (known_to_differ(inner_a, inner_b)) {
    c.error("{} x {}: inner dimensions {} and {} differ", ir::to_string(a), ir::to_string(b), inner_a.to_string(), inner_b.to_string());
  }
  auto batch = ir::broadcast(Shape(a.begin(), a.end() - 2), Shape(b.begin(), b.end() - 2));
  if (!batch) c.error("{} x {}: batch dimensions can't be broadcast", ir::to_string(a), ir::to_string(b));
  if (!row) batch->push_back(a[a.size() - 2]);
  if (!column) batch->push_back(b.back());
  return batch;
}

void infer_matmul(InferContext& c) {
  c.want_same_dtype(0, 1);
  auto dtype = first_known_dtype(c, 0, 2);
  if (!c.shape(0) || !c.shape(1)) return c.output(0, dtype);
  c.output(0, dtype, matmul_shape(c, *c.shape(0), *c.shape(1)));
}

void infer_matmul_integer(InferContext& c) {
  if (!c.shape(0) || !c.shape(1)) return c.output(0, DataType::int32);
  c.output(0, DataType::int32, matmul_shape(c, *c.shape(0), *c.shape(1)));
}

// The last two axes are exchanged by trans; transBatch moves the row axis in front: [r, b..., c] is read as [b..., r, c].
Shape fused_operand(const InferContext& c, Shape shape, bool trans, bool trans_batch) {
  auto n = shape.size();
  if (trans_batch) {
    if (n < 3) c.error("{}: transBatch needs rank 3 or more", ir::to_string(shape));
    std::rotate(shape.begin(), shape.begin() + 1, shape.end() - 1);
  }
  if (trans && n >= 2) std::swap(shape[n - 1], shape[n - 2]);
  return shape;
}

void infer_fused_matmul(InferContext& c) {
  c.want_same_dtype(0, 1);
  auto dtype = first_known_dtype(c, 0, 2);
  if (!c.shape(0) || !c.shape(1)) return c.output(0, dtype);
  auto a = fused_operand(c, *c.shape(0), c.int_attribute("transA", 0) != 0, c.int_attribute("transBatchA", 0) != 0);
  auto b = fused_operand(c, *c.shape(1), c.int_attribute("transB", 0) != 0, c.int_attribute("transBatchB", 0) != 0);
  c.output(0, dtype, matmul_shape(c, std::move(a), std::move(b)));
}

void infer_gemm(InferContext& c) {
  c.want_same_dtype(0, 1);
  c.want_rank(0, 2);
  c.want_rank(1, 2);
  auto dtype = first_known_dtype(c, 0, 2);
  bool trans_a = c.int_attribute("transA", 0) != 0, trans_b = c.int_attribute("transB", 0) != 0;
  Shape result{c.dim(0, trans_a ? 1 : 0), c.dim(1, trans_b ? 0 : 1)};
  auto inner_a = c.dim(0, trans_a ? 0 : 1), inner_b = c.dim(1, trans_b ? 1 : 0);
  if (known_to_differ(inner_a, inner_b)) {
    c.error("{} x {}: inner dimensions {} and {} differ", c.show(0), c.show(1), inner_a.to_string(), inner_b.to_string());
  }
  if (c.shape(2) && !ir::broadcast(result, *c.shape(2))) c.error("C is {}, which can't be broadcast to {}", c.show(2), ir::to_string(result));
  c.output(0, dtype, std::move(result));
}

}  // namespace

void add_infer_math(InferTable& table) {
  auto& onnx = table.onnx;
  for (auto name :
       {"Abs",  "Acos",   "Acosh",   "Asin", "Asinh",       "Atan",      "Atanh",     "BitwiseNot", "Ceil", "Celu",  "Cos",        "Cosh", "Elu",
        "Erf",  "Exp",    "Floor",   "Gelu", "HardSigmoid", "HardSwish", "LeakyRelu", "Log",        "Mish", "Not",   "Reciprocal", "Relu", "Round",
        "Selu", "Shrink", "Sigmoid", "Sign", "Sin",         "Sinh",      "Softplus",  "Softsign",   "Sqrt", "Swish", "Tan",        "Tanh", "ThresholdedRelu"}) {
    onnx[name] = {infer_same, 1};
  }
  for (auto name : {"And", "Or", "Xor", "Less", "LessOrEqual", "Greater", "GreaterOrEqual"}) onnx[name] = {infer_comparison, 2};
  onnx["Equal"] = {infer_equal, 2};
  for (auto name : {"BitShift", "BitwiseAnd", "BitwiseOr", "BitwiseXor"}) onnx[name] = {infer_binary, 2};
  for (auto name : {"IsNaN", "IsInf"}) onnx[name] = {infer_predicate, 1};
  onnx["Add"] = {infer_arithmetic<dim_add>, 2};
  onnx["Sub"] = {infer_arithmetic<dim_sub>, 2};
  onnx["Mul"] = {infer_arithmetic<dim_mul>, 2};
  onnx["Div"] = {infer_arithmetic<dim_div>, 2};
  onnx["Mod"] = {infer_mod, 2};
  onnx["Pow"] = {infer_pow, 2};
  onnx["Sum"] = {infer_sum, 1};
  onnx["Mean"] = {infer_mean, 1};
  onnx["Min"] = {infer_min, 1};
  onnx["Max"] = {infer_max, 1};
  onnx["Neg"] = {infer_neg, 1};
  onnx["Where"] = {infer_where, 3};
  onnx["Identity"] = {infer_identity, 1};
  onnx["Cast"] = {infer_cast, 1};
  onnx["CastLike"] = {infer_cast_like, 2};
  onnx["BitCast"] = {infer_bit_cast, 1};
  onnx["Clip"] = {infer_clip, 1};
  onnx["PRelu"] = {infer_prelu, 2};
  onnx["Dropout"] = {infer_dropout, 1};
  onnx["MatMul"] = {infer_matmul, 2};
  onnx["MatMulInteger"] = {infer_matmul_integer, 2};
  onnx["Gemm"] = {infer_gemm, 2};
  table.microsoft["FusedMatMul"] = {infer_fused_matmul, 2};
  table.microsoft["TransposeMatMul"] = {infer_fused_matmul, 2};
}

}  // namespace mobius::ops
