// What rules ask of types and shapes.
#include "mobius/rules/conditions.hpp"

#include <fmt/core.h>

namespace mobius::rules {
using namespace rewrite;

namespace {

using Reason = std::optional<std::string>;

// The axes of a reduction: its second operand, or up to opset 17 an attribute.
std::optional<std::vector<std::int64_t>> axes_of(const ir::Node& reduction) {
  if (const auto axes = reduction.ints_attribute("axes")) return axes;
  const auto* operand = reduction.input(1);
  return operand && operand->data() ? ir::as_integers(*operand->data()) : std::nullopt;
}

}  // namespace

bool is_last_axis_of(std::int64_t axis, const ir::Value* x) { return axis == -1 || (x->rank() && axis + 1 == static_cast<std::int64_t>(*x->rank())); }

std::optional<std::int64_t> single_integer(const ir::Value* v) {
  const auto list = v && v->data() ? ir::as_integers(*v->data()) : std::nullopt;
  return list && list->size() == 1 ? std::optional(list->front()) : std::nullopt;
}

std::optional<std::int64_t> last_size(const ir::Value* x) { return x->rank().value_or(0) > 0 ? x->shape()->back().as_static() : std::nullopt; }

std::string dtype_text(const ir::Value* v) { return v->dtype() == ir::DataType::undefined ? "unknown" : std::string(ir::onnx_name(v->dtype())); }
std::string shape_text(const ir::Value* v) { return v->shape() ? ir::to_string(*v->shape()) : "of unknown rank"; }

Condition kernel_takes(std::string kernel, DataTypeSet EpCapabilities::*dtypes, const Pat& a) {
  return {[=, kernel = std::move(kernel)](const Match& m, const Target& t) -> Reason {
    if ((t.ep.*dtypes).contains(m[a]->dtype())) return std::nullopt;
    return fmt::format("{} of {} has no {} kernel here", dtype_text(m[a]), m[a]->name, kernel);
  }};
}

Condition is_one_of(const Pat& a, DataTypeSet dtypes) {
  return {[=](const Match& m, const Target&) -> Reason {
    if (dtypes.contains(m[a]->dtype())) return std::nullopt;
    return fmt::format("{} is {}", m[a]->name, dtype_text(m[a]));
  }};
}

Condition same_dtype(const Pat& a, const Pat& b) {
  return {[=](const Match& m, const Target&) -> Reason {
    if (m[a]->dtype() == m[b]->dtype()) return std::nullopt;
    return fmt::format("{} is {}, {} is {}", m[a]->name, dtype_text(m[a]), m[b]->name, dtype_text(m[b]));
  }};
}

Condition has_rank_in(const Pat& a, std::size_t low, std::size_t high) {
  return {[=](const Match& m, const Target&) -> Reason {
    if (const auto rank = m[a]->rank(); rank && *rank >= low && *rank <= high) return std::nullopt;
    return fmt::format("{} is {}, expected rank {} to {}", m[a]->name, shape_text(m[a]), low, high);
  }};
}

Condition is_channel_vector(const Pat& v, const Pat& x) {
  return {[=](const Match& m, const Target&) -> Reason {
    const auto &shape = m[v]->shape(), &whole = m[x]->shape();
    if (shape && whole && shape->size() == 1 && !whole->empty() && (*shape)[0] == whole->back()) return std::nullopt;
    return fmt::format("{} is {}, not a vector for the last axis of {}", m[v]->name, shape_text(m[v]), shape_text(m[x]));
  }};
}

Condition reduces_last_axis(const Pat& reduction) {
  return {[=](const Match& m, const Target&) -> Reason {
    const auto* n = m.node(reduction);
    const auto axes = axes_of(*n);
    if (axes && axes->size() == 1 && is_last_axis_of(axes->front(), n->input(0)) && n->int_attribute("keepdims", 1) == 1) return std::nullopt;
    return fmt::format("{} is not over the last axis of {}", n->name, shape_text(n->input(0)));
  }};
}

Condition is_last_axis(const AttrVar<std::int64_t>& axis, const Pat& x) {
  return {[=](const Match& m, const Target&) -> Reason {
    const auto number = m.attribute(axis);
    if (number && is_last_axis_of(*number, m[x])) return std::nullopt;
    return fmt::format("axis {} is not the last of {}", number.value_or(0), shape_text(m[x]));
  }};
}

Condition casts_to_type_of(const AttrVar<std::int64_t>& to, const Pat& x) {
  return {[=](const Match& m, const Target&) -> Reason {
    const auto number = m.attribute(to);
    if (number && *number == static_cast<std::int64_t>(m[x]->dtype())) return std::nullopt;
    return fmt::format("the result is cast to another type than {} of {}", dtype_text(m[x]), m[x]->name);
  }};
}

}  // namespace mobius::rules
