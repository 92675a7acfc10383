// Layout: where the elements of a value lie in the value that they came from, when they were only moved about.
//
//   const Layout x({"B", "S", 64});
//   const auto heads = x.reshaped({"B", "S", 4, 16})->transposed({0, 2, 1, 3});     // [B, 4, S, 16]
//   History(q).layout(i) == heads                     // q is its ancestor i, cut into heads: however many nodes that took
//
// An axis is a list of parts; a part is a run along one axis of the source, or a repetition. Axes of size 1 have none. What a Reshape does
// is told by sizes, so these are compared as symbols: nothing depends on how a graph computes a shape.
#pragma once
#include <cstddef>
#include <functional>
#include <optional>
#include <vector>

#include "mobius/ir/graph.hpp"

namespace mobius::ops {

class Layout {
 public:
  explicit Layout(const ir::Shape& source);

  // nullopt: sizes are not known, or don't fit.
  std::optional<Layout> reshaped(const ir::Shape& shape) const;
  std::optional<Layout> transposed(const std::vector<std::int64_t>& perm) const;
  std::optional<Layout> expanded(const ir::Shape& shape) const;                             // broadcast to at least this shape
  std::optional<Layout> repeated(std::int64_t axis, const ir::Dim& times) const;            // the axis, one copy after the other
  std::optional<Layout> with_axes(const std::vector<std::int64_t>& axes) const;             // of size 1, numbered as Unsqueeze does
  std::optional<Layout> without_axes(std::optional<std::vector<std::int64_t>> axes) const;  // of size 1; all of them where none are given
  // What a node makes of its operand; nullopt also for nodes that do more than to move data.
  std::optional<Layout> after(const ir::Node& node) const;

  std::size_t rank() const { return axes_.size(); }
  bool operator==(const Layout& other) const = default;

 private:
  struct Part {
    int axis = 0;   // of the source; -1: a repetition
    ir::Dim inner;  // a step along this part is so many along the axis
    ir::Dim size;   // steps
    bool operator==(const Part& other) const;
  };
  using Axis = std::vector<Part>;

  Layout() = default;
  static void append(Axis& axis, Part part);

  std::vector<Axis> axes_;
};

// The operand that the node only moves; nullptr: it does more than that.
ir::Value* moved_operand(const ir::Node& node);

// A value and those that it was made from by moving data, nearest first.
class History {
 public:
  // For a node that works on each element for itself: the operand whose elements it works on; nullptr: not to be passed.
  using Through = std::function<ir::Value*(const ir::Node&)>;
  explicit History(ir::Value* value, const Through& through = {});

  std::size_t size() const { return values_.size(); }
  ir::Value* operator[](std::size_t i) const { return values_[i]; }  // 0: the value itself
  ir::Node* node(std::size_t i) const { return values_[i]->producer(); }
  // The value's layout in terms of ancestor i.
  std::optional<Layout> layout(std::size_t i) const;

 private:
  std::vector<ir::Value*> values_;
  std::vector<bool> moved_;  // by the node that made values_[i] from values_[i + 1]; else that one works element by element
};

// The furthest ancestor that holds the same elements in the same shape; nullptr when there is none.
ir::Value* same_value(ir::Value* value);

}  // namespace mobius::ops
