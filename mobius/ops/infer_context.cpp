// Helpers of the inference functions: operands, axes, checks, messages.
#include "mobius/ops/infer_context.hpp"

#include <algorithm>

namespace mobius::ops {

using ir::DataType;
using ir::Dim;
using ir::Shape;
using ir::Type;

const std::optional<Shape>& InferContext::shape(std::size_t i) const {
  static const std::optional<Shape> none;
  return has(i) ? node_.input(i)->shape() : none;
}

std::optional<std::size_t> InferContext::rank(std::size_t i) const { return shape(i) ? std::optional(shape(i)->size()) : std::nullopt; }

Dim InferContext::dim(std::size_t i, std::size_t axis) const { return shape(i) && axis < shape(i)->size() ? (*shape(i))[axis] : Dim(); }

std::optional<Shape> InferContext::contents(std::size_t i) const { return has(i) ? inference_.contents(node_.input(i)) : std::nullopt; }

std::optional<std::vector<std::int64_t>> InferContext::integers(std::size_t i) const {
  auto elements = contents(i);
  return elements ? ir::static_shape(*elements) : std::nullopt;
}

std::optional<std::int64_t> InferContext::integer(std::size_t i) const {
  auto elements = integers(i);
  return elements && elements->size() == 1 ? std::optional(elements->front()) : std::nullopt;
}

std::int64_t InferContext::required_int(std::string_view name) const {
  if (!node_.attribute(name)) error("attribute '{}' is required", name);
  return node_.int_attribute(name, 0);
}

std::int64_t InferContext::heads(std::string_view name) const {
  auto n = required_int(name);
  if (n <= 0 || n > 1 << 20) error("attribute '{}' is {}", name, n);
  return n;
}

DataType InferContext::dtype_attribute(std::string_view name, DataType otherwise) const {
  if (!node_.attribute(name)) return otherwise;
  auto number = node_.int_attribute(name, 0);
  if (number <= 0 || number > ir::last_data_type) error("attribute '{}' is {}, which is no data type", name, number);
  return static_cast<DataType>(number);
}

std::size_t InferContext::axis(std::int64_t value, std::size_t rank) const {
  auto n = static_cast<std::int64_t>(rank);
  if (value < -n || value >= n) error("axis {} is outside a tensor of rank {}", value, n);
  return static_cast<std::size_t>(value < 0 ? value + n : value);
}

std::optional<std::vector<std::int64_t>> InferContext::axes(std::size_t i) const {
  if (has(i)) return integers(i);
  if (auto given = ints("axes")) return given;
  return std::vector<std::int64_t>{};
}

void InferContext::output(std::size_t i, DataType dtype, std::optional<Shape> shape) {
  Type type;
  type.dtype = dtype;
  type.shape = std::move(shape);
  output_type(i, std::move(type));
}

void InferContext::output_type(std::size_t i, Type type) {
  ir::Value* value = node_.output(i);
  if (!value) return;
  value->type = merge_types(std::move(type), value->type, value->is_graph_output());
}

void InferContext::output_contents(std::size_t i, Shape elements) {
  if (const ir::Value* value = node_.output(i)) inference_.set_contents(value, std::move(elements));
}

std::optional<Shape> InferContext::broadcast(std::initializer_list<std::size_t> inputs) const {
  std::optional<Shape> result = Shape{};
  for (std::size_t i : inputs) {
    if (!has(i)) continue;
    if (!shape(i)) return std::nullopt;
    auto next = ir::broadcast(*result, *shape(i));
    if (!next) error("{} and {} can't be broadcast", ir::to_string(*result), show(i));
    result = std::move(next);
  }
  return result;
}

void InferContext::want_rank(std::size_t i, std::size_t rank) const { want_rank_in(i, rank, rank); }

void InferContext::want_rank_in(std::size_t i, std::size_t low, std::size_t high) const {
  auto found = rank(i);
  if (!found || (*found >= low && *found <= high)) return;
  if (low == high) error("input {} is {}, expected rank {}", i, show(i), low);
  error("input {} is {}, expected rank {} to {}", i, show(i), low, high);
}

void InferContext::want_equal(const Dim& a, const Dim& b, std::string_view what) const {
  if (known_to_differ(a, b)) error("{} {} and {} differ", what, a.to_string(), b.to_string());
}

void InferContext::want_same_dtype(std::size_t a, std::size_t b) const {
  auto x = dtype(a), y = dtype(b);
  if (x == y || x == DataType::undefined || y == DataType::undefined) return;
  error("inputs {} and {} are {} and {}, expected one type", a, b, ir::text_name(x), ir::text_name(y));
}

std::string InferContext::place() const {
  auto op = ir::to_string(node_.op);
  if (node_.name.empty()) {
    const ir::Value* first = node_.output();
    return first && !first->name.empty() ? fmt::format("{} ({})", op, first->name) : op;
  }
  return node_.name.find(node_.op.type) != std::string::npos ? node_.name : fmt::format("{} ({})", node_.name, op);
}

std::string InferContext::show(std::size_t i) const { return shape(i) ? ir::to_string(*shape(i)) : "[...]"; }

Type merge_types(Type inferred, const Type& declared, bool keep_symbols) {
  if (!inferred.is_known()) return declared.is_known() ? declared : inferred;
  if (inferred.kind != declared.kind || !declared.is_known()) return inferred;
  if (inferred.kind != Type::Kind::tensor && inferred.kind != Type::Kind::sparse_tensor) return inferred.element ? inferred : declared;
  if (inferred.dtype == DataType::undefined) inferred.dtype = declared.dtype;
  if (!declared.shape) return inferred;
  if (!inferred.shape) {
    inferred.shape = declared.shape;
    return inferred;
  }
  auto& dims = *inferred.shape;
  if (dims.size() != declared.shape->size()) return inferred;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    const Dim& said = (*declared.shape)[i];
    if (dims[i].is_unknown() || (dims[i].is_symbolic() && (said.is_static() || (keep_symbols && said.is_symbolic())))) dims[i] = said;
  }
  return inferred;
}

std::optional<Shape> common_shape(const std::optional<Shape>& a, const std::optional<Shape>& b) {
  if (!a || !b || a->size() != b->size()) return std::nullopt;
  Shape result;
  for (std::size_t i = 0; i < a->size(); ++i) result.push_back((*a)[i] == (*b)[i] ? (*a)[i] : Dim());
  return result;
}

std::optional<std::int64_t> lower_bound(const Dim& dim) {
  if (dim.is_static()) return dim.value();
  if (dim.is_unknown()) return std::nullopt;
  std::int64_t bound = 0;
  bool has_symbols = false;
  for (const auto& term : *dim.sum()) {
    if (term.symbols.empty()) {
      bound = term.coefficient;
    } else if (term.coefficient < 0) {
      return std::nullopt;
    } else {
      has_symbols = true;
    }
  }
  return bound + (has_symbols ? 1 : 0);
}

bool known_to_differ(const Dim& a, const Dim& b) { return a.is_static() && b.is_static() && a.value() != b.value(); }

Dim product(const Shape& shape, std::size_t begin, std::size_t end) {
  Dim result = 1;
  for (std::size_t i = begin; i < end && i < shape.size(); ++i) result = result * shape[i];
  return result;
}

Shape unknown_shape(std::size_t rank) { return Shape(rank); }

Dim divide_exactly(const Dim& a, std::int64_t b) {
  if (b <= 0) return {};
  return a.divided_by(Dim(b)).value_or(Dim());
}

}  // namespace mobius::ops
