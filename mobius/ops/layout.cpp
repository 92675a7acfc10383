// Parts of axes: cut, joined and put in another order.
#include "mobius/ops/layout.hpp"

#include <algorithm>
#include <deque>
#include <numeric>

namespace mobius::ops {

using ir::Dim;
using ir::Shape;

namespace {

constexpr std::size_t longest_history = 32;

bool is_one(const Dim& d) { return d == Dim(1); }
// A size that is not known is that of a whole axis, which was never cut.
bool same_size(const Dim& a, const Dim& b) { return a == b || (a.is_unknown() && b.is_unknown()); }

std::optional<std::size_t> axis_index(std::int64_t axis, std::size_t rank) {
  const auto n = static_cast<std::int64_t>(rank);
  if (axis < -n || axis >= n) return std::nullopt;
  return static_cast<std::size_t>(axis < 0 ? axis + n : axis);
}

std::optional<std::vector<std::int64_t>> constant_integers(const ir::Value* v) { return v && v->data() ? ir::as_integers(*v->data()) : std::nullopt; }

}  // namespace

bool Layout::Part::operator==(const Part& other) const { return axis == other.axis && inner == other.inner && same_size(size, other.size); }

Layout::Layout(const Shape& source) {
  for (std::size_t i = 0; i < source.size(); ++i) {
    axes_.emplace_back();
    if (!is_one(source[i])) axes_.back().push_back({static_cast<int>(i), 1, source[i]});
  }
}

// Joined with the part before it where the two are one run.
void Layout::append(Axis& axis, Part part) {
  if (!axis.empty() && axis.back().axis == part.axis) {
    auto& last = axis.back();
    const bool repeats = part.axis < 0;
    if (repeats || last.inner == part.inner * part.size) {
      last.size = last.size * part.size;
      last.inner = repeats ? Dim(1) : part.inner;
      return;
    }
  }
  axis.push_back(std::move(part));
}

std::optional<Layout> Layout::reshaped(const Shape& shape) const {
  std::deque<Part> open;
  for (const auto& axis : axes_) open.insert(open.end(), axis.begin(), axis.end());
  Layout result;
  for (const auto& size : shape) {
    auto& axis = result.axes_.emplace_back();
    for (auto rest = size; !is_one(rest);) {
      if (open.empty() || rest.is_unknown()) return std::nullopt;
      auto& part = open.front();
      if (const auto quotient = rest.divided_by(part.size)) {
        append(axis, std::move(part));
        open.pop_front();
        rest = *quotient;
      } else if (const auto inner = part.size.divided_by(rest)) {
        append(axis, {part.axis, part.axis < 0 ? Dim(1) : part.inner * *inner, rest});
        part.size = *inner;
        break;
      } else {
        return std::nullopt;
      }
    }
  }
  return open.empty() ? std::optional(std::move(result)) : std::nullopt;
}

std::optional<Layout> Layout::transposed(const std::vector<std::int64_t>& perm) const {
  if (perm.size() != rank()) return std::nullopt;
  Layout result;
  for (const auto p : perm) {
    const auto from = axis_index(p, rank());
    if (!from) return std::nullopt;
    result.axes_.push_back(axes_[*from]);
  }
  return result;
}

std::optional<Layout> Layout::expanded(const Shape& shape) const {
  Layout result = *this;
  while (result.rank() < shape.size()) result.axes_.insert(result.axes_.begin(), Axis{});
  for (std::size_t i = 0; i < shape.size(); ++i) {
    auto& axis = result.axes_[result.rank() - 1 - i];
    const auto& size = shape[shape.size() - 1 - i];
    if (is_one(size)) continue;
    Dim have = 1;
    for (const auto& part : axis) have = have * part.size;
    if (same_size(have, size)) continue;
    if (!axis.empty() || size.is_unknown()) return std::nullopt;
    axis.push_back({-1, 1, size});
  }
  return result;
}

std::optional<Layout> Layout::repeated(std::int64_t axis, const Dim& times) const {
  const auto at = axis_index(axis, rank());
  if (!at || times.is_unknown()) return std::nullopt;
  Layout result = *this;
  if (is_one(times)) return result;
  auto& parts = result.axes_[*at];
  const auto old = std::exchange(parts, Axis{{-1, 1, times}});
  for (const auto& part : old) append(parts, part);
  return result;
}

std::optional<Layout> Layout::with_axes(const std::vector<std::int64_t>& axes) const {
  std::vector<bool> is_new(rank() + axes.size(), false);
  for (const auto a : axes) {
    const auto at = axis_index(a, is_new.size());
    if (!at) return std::nullopt;
    is_new[*at] = true;
  }
  Layout result;
  std::size_t from = 0;
  for (const bool fresh : is_new) {
    if (!fresh && from == rank()) return std::nullopt;
    result.axes_.push_back(fresh ? Axis{} : axes_[from++]);
  }
  return result;
}

std::optional<Layout> Layout::without_axes(std::optional<std::vector<std::int64_t>> axes) const {
  std::vector<bool> gone(rank(), false);
  for (std::size_t i = 0; !axes && i < rank(); ++i) gone[i] = axes_[i].empty();
  for (const auto a : axes.value_or(std::vector<std::int64_t>{})) {
    const auto at = axis_index(a, rank());
    if (!at || !axes_[*at].empty()) return std::nullopt;
    gone[*at] = true;
  }
  Layout result;
  for (std::size_t i = 0; i < rank(); ++i)
    if (!gone[i]) result.axes_.push_back(axes_[i]);
  return result;
}

std::optional<Layout> Layout::after(const ir::Node& node) const {
  const auto* y = node.output();
  if (!y || !moved_operand(node)) return std::nullopt;
  const auto type = node.op.type;
  const auto given_axes = [&]() -> std::optional<std::vector<std::int64_t>> {
    return node.input(1) ? constant_integers(node.input(1)) : node.ints_attribute("axes");
  };
  if (type == "Identity" || (type == "Concat" && node.inputs().size() == 1)) return *this;
  if (type == "Transpose") {
    std::vector<std::int64_t> reversed(rank());
    std::iota(reversed.rbegin(), reversed.rend(), 0);
    return transposed(node.ints_attribute("perm").value_or(reversed));
  }
  if (type == "Unsqueeze") {
    const auto axes = given_axes();
    return axes ? with_axes(*axes) : std::nullopt;
  }
  if (type == "Squeeze" && (node.input(1) || node.attribute("axes"))) {
    const auto axes = given_axes();
    return axes ? without_axes(*axes) : std::nullopt;
  }
  if (type == "Concat") return repeated(node.int_attribute("axis", 0), Dim(static_cast<std::int64_t>(node.inputs().size())));
  if (type == "Tile") {
    const auto repeats = constant_integers(node.input(1));
    if (!repeats || repeats->size() != rank()) return std::nullopt;
    std::optional<Layout> result = *this;
    for (std::size_t i = 0; result && i < repeats->size(); ++i) result = result->repeated(static_cast<std::int64_t>(i), (*repeats)[i]);
    return result;
  }
  if (!y->shape()) return std::nullopt;
  return type == "Expand" ? expanded(*y->shape()) : reshaped(*y->shape());
}

// ── nodes ────────────────────────────────────────────────────────────────────────────────────────────────────────────────

ir::Value* moved_operand(const ir::Node& node) {
  if (!node.op.domain.empty() || node.outputs().size() != 1) return nullptr;
  for (const auto* type : {"Transpose", "Reshape", "Unsqueeze", "Squeeze", "Flatten", "Expand", "Tile", "Identity"})
    if (node.op.type == type) return node.input(0);
  const bool of_one_value = node.op.type == "Concat" && std::ranges::all_of(node.inputs(), [&](const auto* v) { return v == node.input(0); });
  return of_one_value ? node.input(0) : nullptr;
}

History::History(ir::Value* value, const Through& through) : values_{value} {
  while (values_.size() < longest_history) {
    const auto* node = values_.back()->producer();
    if (!node || &node->graph() != value->graph()) break;
    auto* operand = moved_operand(*node);
    const bool moved = operand != nullptr;
    if (!moved && through) operand = through(*node);
    if (!operand) break;
    if (!moved && (!operand->rank() || operand->rank() != node->output()->rank())) break;  // the other operand adds axes
    values_.push_back(operand);
    moved_.push_back(moved);
  }
}

std::optional<Layout> History::layout(std::size_t i) const {
  const auto& shape = values_[i]->shape();
  auto result = shape ? std::optional(Layout(*shape)) : std::nullopt;
  while (result && i-- > 0)
    if (moved_[i]) result = result->after(*values_[i]->producer());
  return result;
}

ir::Value* same_value(ir::Value* value) {
  const History history(value);
  for (std::size_t i = history.size(); i-- > 1;) {
    const auto *from = history[i], *to = history[0];
    if (!from->shape() || !to->shape() || from->shape()->size() != to->shape()->size() || from->dtype() != to->dtype()) continue;
    if (history.layout(i) == Layout(*from->shape())) return history[i];
  }
  return nullptr;
}

}  // namespace mobius::ops
