// Inference: operators that make, read or change shapes. Where a target shape is computed in the graph, its contents decide.
#include <algorithm>
#include <cmath>
#include <limits>

#include "mobius/ops/infer_context.hpp"

namespace mobius::ops {
namespace {

using ir::DataType;
using ir::Dim;
using ir::Shape;

std::int64_t size_of(const Shape& shape) { return static_cast<std::int64_t>(shape.size()); }

// ── constants ────────────────────────────────────────────────────────────────────────────────────────────────────────────

void infer_constant(InferContext& c) {
  for (const auto& [name, attribute] : c.node().attributes) {
    if (auto tensor = std::get_if<ir::TensorPtr>(&attribute); tensor && *tensor) {
      const auto& data = **tensor;
      c.output(0, data.dtype(), Shape(data.dims().begin(), data.dims().end()));
      if (data.dims().size() > 1 || data.elements() > 64 || !ir::is_integer(data.dtype())) return;
      if (auto numbers = ir::as_integers(data)) c.output_contents(0, Shape(numbers->begin(), numbers->end()));
      return;
    }
    if (auto v = std::get_if<std::int64_t>(&attribute)) {
      c.output(0, DataType::int64, Shape{});
      return c.output_contents(0, {Dim(*v)});
    }
    if (auto v = std::get_if<std::vector<std::int64_t>>(&attribute)) {
      c.output(0, DataType::int64, Shape{Dim(static_cast<std::int64_t>(v->size()))});
      return c.output_contents(0, Shape(v->begin(), v->end()));
    }
    if (std::holds_alternative<float>(attribute)) return c.output(0, DataType::float32, Shape{});
    if (auto v = std::get_if<std::vector<float>>(&attribute)) return c.output(0, DataType::float32, Shape{Dim(static_cast<std::int64_t>(v->size()))});
    if (std::holds_alternative<std::string>(attribute)) return c.output(0, DataType::string, Shape{});
    if (auto v = std::get_if<std::vector<std::string>>(&attribute)) return c.output(0, DataType::string, Shape{Dim(static_cast<std::int64_t>(v->size()))});
  }
}

// A shape given by the elements of input `i`; negative sizes are an error.
std::optional<Shape> shape_from_contents(const InferContext& c, std::size_t i) {
  c.want_rank(i, 1);
  auto sizes = c.contents(i);
  if (!sizes) return std::nullopt;
  for (const auto& d : *sizes) {
    if (d.is_static() && d.value() < 0) c.error("asks for a negative size: {}", ir::to_string(*sizes));
  }
  return sizes;
}

void infer_constant_of_shape(InferContext& c) {
  auto dtype = DataType::float32;
  std::optional<std::vector<std::int64_t>> value;
  if (auto attribute = c.node().attribute("value")) {
    auto tensor = std::get_if<ir::TensorPtr>(attribute);
    if (!tensor || !*tensor) c.error("attribute 'value' is not a tensor");
    dtype = (*tensor)->dtype();
    if (ir::is_integer(dtype)) value = ir::as_integers(**tensor);
  }
  auto result = shape_from_contents(c, 0);
  c.output(0, dtype, result);
  if (!result || result->size() > 1 || !value || value->size() != 1) return;
  auto count = ir::element_count(*result);
  if (count && *count <= 64) c.output_contents(0, Shape(static_cast<std::size_t>(*count), Dim(value->front())));
}

void infer_eye_like(InferContext& c) {
  c.want_rank(0, 2);
  c.output(0, c.dtype_attribute("dtype", c.dtype(0)), c.shape(0));
}

std::optional<double> scalar_value(const InferContext& c, std::size_t i) {
  if (!c.has(i)) return std::nullopt;
  if (const auto& data = c.input(i)->data()) return ir::as_scalar(*data);
  if (auto n = c.integer(i)) return static_cast<double>(*n);
  return std::nullopt;
}

void infer_range(InferContext& c) {
  auto dtype = c.dtype(0);
  auto delta = scalar_value(c, 2);
  if (delta && *delta == 0) c.error("delta is 0");
  auto start = scalar_value(c, 0), limit = scalar_value(c, 1);
  if (start && limit && delta) {
    double count = std::max(0.0, std::ceil((*limit - *start) / *delta));
    if (!(count < 9e15)) c.error("from {} to {} in steps of {} is no finite range", *start, *limit, *delta);
    auto n = static_cast<std::int64_t>(count);
    c.output(0, dtype, Shape{Dim(n)});
    if (!ir::is_integer(dtype) || n > 64 || std::abs(*start) > 9e15 || std::abs(*delta) > 9e15) return;
    Shape elements;
    for (std::int64_t i = 0; i < n; ++i) elements.push_back(Dim(static_cast<std::int64_t>(*start) + i * static_cast<std::int64_t>(*delta)));
    return c.output_contents(0, std::move(elements));
  }
  // [start, limit) in steps of one has limit - start elements, whatever the symbols stand for, as long as that is not negative.
  auto from = c.contents(0), to = c.contents(1);
  Dim count;
  if (delta == 1.0 && from && to && from->size() == 1 && to->size() == 1) count = to->front() - from->front();
  if (auto bound = lower_bound(count); !bound || *bound < 0) count = Dim();
  c.output(0, dtype, Shape{count});
}

// ── Shape, Size ──────────────────────────────────────────────────────────────────────────────────────────────────────────

void infer_shape(InferContext& c) {
  if (!c.shape(0)) return c.output(0, DataType::int64, Shape{Dim()});
  const Shape& x = *c.shape(0);
  auto n = size_of(x);
  auto clamp = [n](std::int64_t i) { return std::clamp<std::int64_t>(i < 0 ? i + n : i, 0, n); };
  auto begin = clamp(c.int_attribute("start", 0)), end = std::max(clamp(c.int_attribute("end", n)), clamp(c.int_attribute("start", 0)));
  c.output(0, DataType::int64, Shape{Dim(end - begin)});
  c.output_contents(0, Shape(x.begin() + begin, x.begin() + end));
}

void infer_size(InferContext& c) {
  c.output(0, DataType::int64, Shape{});
  if (c.shape(0)) c.output_contents(0, {product(*c.shape(0), 0, c.shape(0)->size())});
}

// ── Reshape and its like ─────────────────────────────────────────────────────────────────────────────────────────────────

// Sizes of 0 copy the input's, unless allowzero.
void copy_zero_sizes(const InferContext& c, Shape& target) {
  if (c.int_attribute("allowzero", 0) != 0) return;
  for (std::size_t i = 0; i < target.size(); ++i) {
    if (!target[i].is_static() || target[i].value() != 0) continue;
    if (c.shape(0) && i >= c.shape(0)->size()) c.error("target {} copies axis {}, which {} does not have", ir::to_string(target), i, c.show(0));
    target[i] = c.dim(0, i);
  }
}

// total / (the other dimensions), with equal dimensions cancelled first: unknown ones cancel too where they were copied.
Dim remaining_size(const Shape& x, const Shape& target, std::size_t open) {
  std::vector<bool> taken(x.size(), false);
  Dim others = 1;
  for (std::size_t i = 0; i < target.size(); ++i) {
    if (i == open) continue;
    std::size_t k = 0;
    while (k < x.size() && (taken[k] || !(x[k] == target[i]))) ++k;
    if (k < x.size()) {
      taken[k] = true;
    } else {
      others = others * target[i];
    }
  }
  Dim total = 1;
  for (std::size_t k = 0; k < x.size(); ++k) {
    if (!taken[k]) total = total * x[k];
  }
  if (others.is_static() && others.value() == 0) return {};
  return total.divided_by(others).value_or(Dim());
}

void infer_reshape(InferContext& c) {
  auto contents = c.node().attribute("shape") && !c.has(1) ? [&] {
    auto numbers = c.ints("shape");
    return std::optional(Shape(numbers->begin(), numbers->end()));
  }()
                                                           : c.contents(1);
  if (!contents) return c.output(0, c.dtype(0));
  const Shape asked = *contents;
  Shape target = asked;
  copy_zero_sizes(c, target);
  std::optional<std::size_t> open;
  std::size_t unknown = 0, unknown_at = 0;
  for (std::size_t i = 0; i < target.size(); ++i) {
    if (target[i].is_unknown()) {
      ++unknown;
      unknown_at = i;
    } else if (target[i].is_static() && target[i].value() < 0) {
      if (target[i].value() != -1 || open) c.error("can't reshape {} to {}", c.show(0), ir::to_string(target));
      open = i;
    }
  }
  if (c.shape(0)) {
    const Shape& x = *c.shape(0);
    auto have = ir::element_count(x);
    if (open) {
      target[*open] = remaining_size(x, target, *open);
      Shape rest = target;
      rest[*open] = Dim(1);
      auto step = ir::element_count(rest);
      if (have && step && *step != 0 && *have % *step != 0) c.error("can't reshape {} to {}", c.show(0), ir::to_string(asked));
    } else if (unknown == 1) {
      target[unknown_at] = remaining_size(x, target, unknown_at);
    } else if (auto want = ir::element_count(target); have && want && *have != *want) {
      c.error("can't reshape {} to {}", c.show(0), ir::to_string(target));
    }
  } else if (open) {
    target[*open] = Dim();
  }
  bool vector = target.size() <= 1;
  c.output(0, c.dtype(0), std::move(target));
  if (!vector) return;
  if (auto elements = c.contents(0)) c.output_contents(0, std::move(*elements));
}

void infer_flatten(InferContext& c) {
  if (!c.shape(0)) return c.output(0, c.dtype(0), unknown_shape(2));
  const Shape& x = *c.shape(0);
  auto axis = c.int_attribute("axis", 1);
  auto n = size_of(x);
  if (axis < -n || axis > n) c.error("axis {} is outside a tensor of rank {}", axis, n);
  auto at = static_cast<std::size_t>(axis < 0 ? axis + n : axis);
  c.output(0, c.dtype(0), Shape{product(x, 0, at), product(x, at, x.size())});
}

void infer_squeeze(InferContext& c) {
  auto axes = c.axes(1);
  if (!c.shape(0) || !axes) return c.output(0, c.dtype(0));
  const Shape& x = *c.shape(0);
  std::vector<bool> drop(x.size(), false);
  bool all = !c.has(1) && !c.node().attribute("axes");
  for (auto a : *axes) {
    auto i = c.axis(a, x.size());
    if (known_to_differ(x[i], Dim(1))) c.error("axis {} of {} is not 1", a, c.show(0));
    drop[i] = true;
  }
  Shape result;
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (all && !x[i].is_static()) return c.output(0, c.dtype(0));  // may be 1
    if (!(all ? x[i] == Dim(1) : drop[i])) result.push_back(x[i]);
  }
  c.output(0, c.dtype(0), std::move(result));
  if (auto elements = c.contents(0); elements && x.size() <= 1) c.output_contents(0, std::move(*elements));
}

void infer_unsqueeze(InferContext& c) {
  auto axes = c.axes(1);
  if (!c.shape(0) || !axes) return c.output(0, c.dtype(0));
  const Shape& x = *c.shape(0);
  auto rank = x.size() + axes->size();
  std::vector<bool> added(rank, false);
  for (auto a : *axes) {
    auto i = c.axis(a, rank);
    if (added[i]) c.error("axis {} is given twice", a);
    added[i] = true;
  }
  Shape result;
  for (std::size_t i = 0, from = 0; i < rank; ++i) result.push_back(added[i] ? Dim(1) : x[from++]);
  c.output(0, c.dtype(0), std::move(result));
  if (auto elements = c.contents(0); elements && rank <= 1) c.output_contents(0, std::move(*elements));
}

void infer_transpose(InferContext& c) {
  if (!c.shape(0)) return c.output(0, c.dtype(0));
  const Shape& x = *c.shape(0);
  auto perm = c.ints("perm");
  Shape result(x.rbegin(), x.rend());
  if (perm) {
    if (perm->size() != x.size()) c.error("perm has {} entries for {}", perm->size(), c.show(0));
    std::vector<bool> seen(x.size(), false);
    for (std::size_t i = 0; i < x.size(); ++i) {
      auto from = c.axis((*perm)[i], x.size());
      if (seen[from]) c.error("perm names axis {} twice", from);
      seen[from] = true;
      result[i] = x[from];
    }
  }
  c.output(0, c.dtype(0), std::move(result));
}

// ── joining and cutting ──────────────────────────────────────────────────────────────────────────────────────────────────

void infer_concat(InferContext& c) {
  auto dtype = c.dtype(0);
  std::optional<Shape> result;
  for (std::size_t i = 0; i < c.inputs(); ++i) {
    c.want_same_dtype(0, i);
    if (!c.shape(i)) return c.output(0, dtype);
    const Shape& x = *c.shape(i);
    auto axis = c.axis(c.int_attribute("axis", 0), x.size());
    if (!result) {
      result = x;
      continue;
    }
    if (result->size() != x.size()) c.error("inputs are {} and {}, expected one rank", ir::to_string(*result), ir::to_string(x));
    for (std::size_t k = 0; k < x.size(); ++k) {
      Dim& d = (*result)[k];
      if (k == axis) {
        d = d + x[k];
      } else if (known_to_differ(d, x[k])) {
        c.error("inputs are {} and {}, expected equal sizes outside axis {}", ir::to_string(*result), ir::to_string(x), axis);
      } else if (d.is_unknown() || x[k].is_static()) {
        d = x[k];
      }
    }
  }
  auto rank = result ? result->size() : 0;
  c.output(0, dtype, std::move(result));
  if (rank != 1 || !ir::is_integer(dtype)) return;
  Shape joined;
  for (std::size_t i = 0; i < c.inputs(); ++i) {
    auto elements = c.contents(i);
    if (!elements) return;
    joined.insert(joined.end(), elements->begin(), elements->end());
  }
  c.output_contents(0, std::move(joined));
}

// Sizes of the parts along the axis, as far as they are known.
std::vector<Dim> split_sizes(const InferContext& c, const Dim& size) {
  auto parts = c.outputs();
  std::vector<Dim> sizes(parts);
  std::optional<Shape> given;
  if (c.has(1)) {
    given = c.contents(1);
    if (!given) return sizes;
  } else if (auto attribute = c.ints("split")) {
    given = Shape(attribute->begin(), attribute->end());
  }
  if (given) {
    if (given->size() != parts) c.error("split has {} entries for {} outputs", given->size(), parts);
    Dim sum = 0;
    for (const auto& d : *given) sum = sum + d;
    if (known_to_differ(sum, size)) c.error("split {} adds up to {}, the axis has {}", ir::to_string(*given), sum.to_string(), size.to_string());
    return *given;
  }
  auto n = static_cast<std::int64_t>(parts);
  if (auto declared = c.int_attribute("num_outputs", n); declared != n) c.error("num_outputs is {} for {} outputs", declared, n);
  if (!size.is_static()) {
    std::fill(sizes.begin(), sizes.end(), divide_exactly(size, n));
    return sizes;
  }
  auto each = (size.value() + n - 1) / n;
  for (std::int64_t i = 0; i < n; ++i) sizes[static_cast<std::size_t>(i)] = Dim(std::clamp<std::int64_t>(size.value() - i * each, 0, each));
  return sizes;
}

void infer_split(InferContext& c) {
  if (!c.shape(0)) {
    for (std::size_t i = 0; i < c.outputs(); ++i) c.output(i, c.dtype(0));
    return;
  }
  const Shape x = *c.shape(0);
  auto axis = c.axis(c.int_attribute("axis", 0), x.size());
  auto sizes = split_sizes(c, x[axis]);
  auto elements = x.size() == 1 ? c.contents(0) : std::nullopt;
  std::int64_t at = 0;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    Shape part = x;
    part[axis] = sizes[i];
    c.output(i, c.dtype(0), std::move(part));
    if (!elements || !sizes[i].is_static() || at + sizes[i].value() > size_of(*elements)) {
      elements.reset();
      continue;
    }
    c.output_contents(i, Shape(elements->begin() + at, elements->begin() + at + sizes[i].value()));
    at += sizes[i].value();
  }
}

// One bound of a slice as a dimension in [0, size]; unknown when it can't be told.
Dim slice_bound(const Dim& bound, const Dim& size) {
  if (bound.is_unknown()) return {};
  if (bound.is_static()) {
    auto b = bound.value();
    if (size.is_static()) return std::clamp<std::int64_t>(b < 0 ? b + std::max<std::int64_t>(size.value(), 0) : b, 0, std::max<std::int64_t>(size.value(), 0));
    if (b == 0) return 0;
    if (b >= std::numeric_limits<std::int32_t>::max()) return size;
    if (b < 0 && b <= std::numeric_limits<std::int32_t>::min()) return 0;
    if (b < 0) {
      auto left = lower_bound(size);
      return left && *left + b >= 0 ? size + bound : Dim();
    }
  }
  // A sum of negative terms counts from the end (symbols are taken to be above 0).
  if (auto below = lower_bound(Dim(-1) * bound); bound.is_symbolic() && below && *below >= 0) {
    auto left = lower_bound(size + bound);
    return left && *left >= 0 ? size + bound : Dim();
  }
  // min(bound, size), where it is certain which.
  if (bound == size) return size;
  if (auto d = lower_bound(size - bound); d && *d >= 0) return bound;
  if (auto d = lower_bound(bound - size); d && *d >= 0) return size;
  auto least = lower_bound(bound);
  return size.is_static() && bound.is_symbolic() && least && *least >= 0 ? ir::smaller_of(size.value(), bound) : Dim();
}

Dim sliced_size(const Dim& start, const Dim& end, std::int64_t step, const Dim& size) {
  if (step == 1) {
    Dim from = slice_bound(start, size), to = slice_bound(end, size);
    Dim n = to - from;
    if (n.is_static()) return std::max<std::int64_t>(n.value(), 0);
    auto bound = lower_bound(n);
    if (from == Dim(0) || (bound && *bound >= 0)) return n;
    return {};
  }
  if (!start.is_static() || !end.is_static()) return {};
  bool whole = step == -1 && (start.value() == -1 || start.value() >= std::numeric_limits<std::int32_t>::max()) &&
               end.value() <= -std::int64_t{std::numeric_limits<std::int32_t>::max()};
  if (whole) return size;
  if (!size.is_static()) return {};
  auto n = size.value();
  auto wrap = [n](std::int64_t b) { return b < 0 ? b + n : b; };
  step = std::clamp<std::int64_t>(step, -n - 1, n + 1);
  if (step > 0) {
    auto from = std::clamp<std::int64_t>(wrap(start.value()), 0, n), to = std::clamp<std::int64_t>(wrap(end.value()), 0, n);
    return to > from ? (to - from - 1) / step + 1 : 0;
  }
  auto from = std::clamp<std::int64_t>(wrap(start.value()), -1, n - 1), to = std::clamp<std::int64_t>(wrap(end.value()), -1, n - 1);
  return from > to ? (from - to - 1) / -step + 1 : 0;
}

std::optional<Shape> slice_operand(const InferContext& c, std::size_t i, std::string_view attribute) {
  if (c.has(i)) return c.contents(i);
  auto numbers = c.ints(attribute);
  return numbers ? std::optional(Shape(numbers->begin(), numbers->end())) : std::nullopt;
}

void slice_contents(InferContext& c, const Dim& start, const Dim& end, std::int64_t step) {
  auto elements = c.contents(0);
  if (!elements || !start.is_static() || !end.is_static()) return;
  auto n = size_of(*elements);
  auto wrap = [n](std::int64_t b) { return b < 0 ? b + n : b; };
  std::int64_t low = step > 0 ? 0 : -1, high = step > 0 ? n : n - 1;
  auto from = std::clamp(wrap(start.value()), low, std::max(low, high)), to = std::clamp(wrap(end.value()), low, std::max(low, high));
  step = std::clamp<std::int64_t>(step, -n - 1, n + 1);
  Shape taken;
  for (auto i = from; step > 0 ? i < to : i > to; i += step) taken.push_back((*elements)[static_cast<std::size_t>(i)]);
  c.output_contents(0, std::move(taken));
}

void infer_slice(InferContext& c) {
  auto starts = slice_operand(c, 1, "starts"), ends = slice_operand(c, 2, "ends");
  if (!c.shape(0)) return c.output(0, c.dtype(0));
  const Shape& x = *c.shape(0);
  auto axes = c.axes(3);
  auto steps = c.has(4) ? c.integers(4) : std::optional(std::vector<std::int64_t>{});
  if (!axes || !starts || !ends) return c.output(0, c.dtype(0), unknown_shape(x.size()));
  if (starts->size() != ends->size()) c.error("{} starts and {} ends", starts->size(), ends->size());
  bool all_axes = !c.has(3) && !c.node().attribute("axes");
  if (all_axes) {
    if (starts->size() > x.size()) c.error("{} starts for {}", starts->size(), c.show(0));
    for (std::size_t i = 0; i < starts->size(); ++i) axes->push_back(static_cast<std::int64_t>(i));
  }
  if (axes->size() != starts->size()) c.error("{} axes and {} starts", axes->size(), starts->size());
  if (c.has(4) && steps && steps->size() != starts->size()) c.error("{} steps and {} starts", steps->size(), starts->size());
  Shape result = x;
  for (std::size_t i = 0; i < axes->size(); ++i) {
    auto a = c.axis((*axes)[i], x.size());
    if (!steps) {
      result[a] = Dim();
      continue;
    }
    auto step = steps->empty() ? 1 : (*steps)[i];
    if (step == 0) c.error("step 0 on axis {}", a);
    result[a] = sliced_size((*starts)[i], (*ends)[i], step, x[a]);
  }
  c.output(0, c.dtype(0), std::move(result));
  if (x.size() == 1 && axes->size() == 1 && steps) slice_contents(c, starts->front(), ends->front(), steps->empty() ? 1 : steps->front());
}

// ── Expand, Tile, Pad ────────────────────────────────────────────────────────────────────────────────────────────────────

void infer_expand(InferContext& c) {
  auto target = shape_from_contents(c, 1);
  if (!c.shape(0) || !target) return c.output(0, c.dtype(0));
  auto result = ir::broadcast(*c.shape(0), *target);
  if (!result) c.error("can't expand {} to {}", c.show(0), ir::to_string(*target));
  bool vector = result->size() <= 1;
  auto count = ir::element_count(*result);
  c.output(0, c.dtype(0), std::move(result));
  auto elements = c.contents(0);
  if (!vector || !elements || !count || *count > 64 || *count < 0) return;
  if (elements->size() == 1) elements->resize(static_cast<std::size_t>(*count), elements->front());
  if (size_of(*elements) == *count) c.output_contents(0, std::move(*elements));
}

void infer_tile(InferContext& c) {
  if (!c.shape(0)) return c.output(0, c.dtype(0));
  Shape result = *c.shape(0);
  auto repeats = c.contents(1);
  if (!repeats) return c.output(0, c.dtype(0), unknown_shape(result.size()));
  if (repeats->size() != result.size()) c.error("{} repeats for {}", repeats->size(), c.show(0));
  for (std::size_t i = 0; i < result.size(); ++i) result[i] = result[i] * (*repeats)[i];
  c.output(0, c.dtype(0), std::move(result));
}

void infer_pad(InferContext& c) {
  if (!c.shape(0)) return c.output(0, c.dtype(0));
  Shape result = *c.shape(0);
  auto pads = slice_operand(c, 1, "pads");
  auto axes = c.has(3) ? c.integers(3) : std::nullopt;
  if (!pads || (c.has(3) && !axes)) return c.output(0, c.dtype(0), unknown_shape(result.size()));
  if (!axes) {
    axes.emplace();
    for (std::size_t i = 0; i < result.size(); ++i) axes->push_back(static_cast<std::int64_t>(i));
  }
  if (pads->size() != 2 * axes->size()) c.error("{} pads for {} axes of {}", pads->size(), axes->size(), c.show(0));
  for (std::size_t i = 0; i < axes->size(); ++i) {
    auto a = c.axis((*axes)[i], result.size());
    result[a] = result[a] + (*pads)[i] + (*pads)[i + axes->size()];
    if (result[a].is_static() && result[a].value() < 0) c.error("pads {} leave less than nothing of {}", ir::to_string(*pads), c.show(0));
  }
  c.output(0, c.dtype(0), std::move(result));
}

// ── blocks ───────────────────────────────────────────────────────────────────────────────────────────────────────────────

void infer_depth_to_space(InferContext& c) {
  c.want_rank(0, 4);
  auto b = c.required_int("blocksize");
  if (b <= 0 || b > 1 << 20) c.error("blocksize is {}", b);
  c.output(0, c.dtype(0), Shape{c.dim(0, 0), divide_exactly(c.dim(0, 1), b * b), c.dim(0, 2) * Dim(b), c.dim(0, 3) * Dim(b)});
}

void infer_space_to_depth(InferContext& c) {
  c.want_rank(0, 4);
  auto b = c.required_int("blocksize");
  if (b <= 0 || b > 1 << 20) c.error("blocksize is {}", b);
  c.output(0, c.dtype(0), Shape{c.dim(0, 0), c.dim(0, 1) * Dim(b * b), divide_exactly(c.dim(0, 2), b), divide_exactly(c.dim(0, 3), b)});
}

void infer_trilu(InferContext& c) {
  if (auto n = c.rank(0); n && *n < 2) c.error("input is {}, expected rank 2 or more", c.show(0));
  c.same_as_input();
}

}  // namespace

void add_infer_shape_ops(InferTable& table) {
  auto& onnx = table.onnx;
  onnx["Constant"] = {infer_constant, 0};
  onnx["ConstantOfShape"] = {infer_constant_of_shape, 1};
  onnx["EyeLike"] = {infer_eye_like, 1};
  onnx["Range"] = {infer_range, 3};
  onnx["Shape"] = {infer_shape, 1};
  onnx["Size"] = {infer_size, 1};
  onnx["Reshape"] = {infer_reshape, 1};
  onnx["Flatten"] = {infer_flatten, 1};
  onnx["Squeeze"] = {infer_squeeze, 1};
  onnx["Unsqueeze"] = {infer_unsqueeze, 1};
  onnx["Transpose"] = {infer_transpose, 1};
  onnx["Concat"] = {infer_concat, 1};
  onnx["Split"] = {infer_split, 1};
  onnx["Slice"] = {infer_slice, 1};
  onnx["Expand"] = {infer_expand, 2};
  onnx["Tile"] = {infer_tile, 2};
  onnx["Pad"] = {infer_pad, 1};
  onnx["DepthToSpace"] = {infer_depth_to_space, 1};
  onnx["SpaceToDepth"] = {infer_space_to_depth, 1};
  onnx["Trilu"] = {infer_trilu, 1};
  onnx["ReverseSequence"] = {infer_same, 2};
}

}  // namespace mobius::ops
