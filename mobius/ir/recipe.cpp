// Making recipes: arguments are checked, steps that undo or contain each other vanish, and casts move outward, so that the
// steps below them meet, and fewer or equal bytes are moved.
#include "mobius/ir/recipe.hpp"

#include <algorithm>
#include <numeric>

#include "mobius/base/error.hpp"
#include "mobius/ir/recipe_steps.hpp"

namespace mobius::ir {
namespace {

template <class Step>
const Step* as(const TensorPtr& x) {
  return dynamic_cast<const Step*>(x.get());
}

void check_source(const TensorPtr& x, std::string_view step) {
  expect(x != nullptr, "a recipe over no tensor");
  if (x->dtype() == DataType::string) fail(ErrorKind::unsupported, "{} of a string tensor", step);
}

std::size_t checked_axis(const TensorData& x, std::int64_t axis, std::string_view step) {
  const auto rank = static_cast<std::int64_t>(x.dims().size());
  if (axis < -rank || axis >= rank) fail(ErrorKind::invalid_argument, "{} along axis {} of {}", step, axis, dims_text(x.dims()));
  return static_cast<std::size_t>(axis < 0 ? axis + rank : axis);
}

// Every value of `narrow` is one of `wide`.
bool holds_exactly(DataType wide, DataType narrow) {
  if (wide == DataType::float64) return narrow == DataType::float32 || narrow == DataType::float16 || narrow == DataType::bfloat16;
  return wide == DataType::float32 && (narrow == DataType::float16 || narrow == DataType::bfloat16);
}

// The cast that x is, if elements may be moved below it: sub-byte ones can't be moved one by one.
const Cast* movable_cast(const TensorPtr& x) {
  const Cast* c = as<Cast>(x);
  return c && bit_width(c->source()->dtype()) >= 8 ? c : nullptr;
}

// Applies a step that only moves elements below the cast, if x is one.
template <class Step>
TensorPtr below_cast(const TensorPtr& x, Step step) {
  const Cast* c = movable_cast(x);
  return c ? cast(step(c->source()), c->dtype()) : nullptr;
}

bool is_identity(const std::vector<std::int64_t>& perm) {
  for (std::size_t i = 0; i < perm.size(); ++i) {
    if (perm[i] != static_cast<std::int64_t>(i)) return false;
  }
  return true;
}

// Whether the axes longer than one keep their order.
bool moves_nothing(const Dims& dims, const std::vector<std::int64_t>& perm) {
  std::int64_t last = -1;
  for (const std::int64_t p : perm) {
    if (dims[static_cast<std::size_t>(p)] == 1) continue;
    if (p < last) return false;
    last = p;
  }
  return true;
}

void check_perm(const Dims& dims, const std::vector<std::int64_t>& perm) {
  std::vector<bool> seen(dims.size(), false);
  bool valid = perm.size() == dims.size();
  for (const std::int64_t p : perm) {
    valid = valid && p >= 0 && p < static_cast<std::int64_t>(dims.size()) && !seen[static_cast<std::size_t>(p)];
    if (!valid) break;
    seen[static_cast<std::size_t>(p)] = true;
  }
  if (!valid) fail(ErrorKind::invalid_argument, "transpose of {} by {}", dims_text(dims), dims_text(perm));
}

TensorPtr slice_of_concat(const Concat& c, std::int64_t axis, std::int64_t begin, std::int64_t end) {
  std::vector<TensorPtr> parts;
  std::int64_t at = 0;
  for (const TensorPtr& piece : c.sources()) {
    const std::int64_t size = piece->dims()[c.axis()];
    const std::int64_t from = std::max(begin - at, std::int64_t{0});
    const std::int64_t to = std::min(end - at, size);
    if (from < to) parts.push_back(slice(piece, axis, from, to));
    at += size;
  }
  // An empty slice is one of the first piece.
  if (parts.empty()) return slice(c.sources().front(), axis, 0, 0);
  return concat(std::move(parts), axis);
}

// One tensor for two neighbours in a concat, if they are neighbours in the same source as well.
TensorPtr joined(const TensorPtr& a, const TensorPtr& b, std::size_t axis) {
  const Slice* x = as<Slice>(a);
  const Slice* y = as<Slice>(b);
  if (!x || !y || x->axis() != axis || y->axis() != axis || x->source() != y->source() || x->end() != y->begin()) return nullptr;
  return slice(x->source(), static_cast<std::int64_t>(axis), x->begin(), y->end());
}

// The pieces without nested concats and empty ones, neighbours joined. Keeps one piece if all are empty.
std::vector<TensorPtr> simplified(const std::vector<TensorPtr>& xs, std::size_t axis) {
  std::vector<TensorPtr> result;
  const auto add = [&](const TensorPtr& x) {
    if (x->dims()[axis] == 0) return;
    TensorPtr both = result.empty() ? nullptr : joined(result.back(), x, axis);
    if (both) result.back() = std::move(both);
    else result.push_back(x);
  };
  for (const TensorPtr& x : xs) {
    const Concat* inner = as<Concat>(x);
    if (inner && inner->axis() == axis) std::ranges::for_each(inner->sources(), add);
    else add(x);
  }
  if (result.empty()) result.push_back(xs.front());
  return result;
}

bool are_equal_casts(const std::vector<TensorPtr>& xs) {
  const Cast* first = movable_cast(xs.front());
  return first && std::ranges::all_of(xs, [&](const TensorPtr& x) {
           const Cast* c = as<Cast>(x);
           return c && c->source()->dtype() == first->source()->dtype();
         });
}

Dims concat_dims(const std::vector<TensorPtr>& xs, std::size_t axis) {
  Dims dims = xs.front()->dims();
  dims[axis] = 0;
  for (const TensorPtr& x : xs) {
    Dims others = x->dims();
    bool fits = others.size() == dims.size() && x->dtype() == xs.front()->dtype();
    if (fits) {
      others[axis] = dims[axis];
      fits = others == dims && !__builtin_add_overflow(dims[axis], x->dims()[axis], &dims[axis]);
    }
    if (!fits) {
      fail(ErrorKind::invalid_argument, "concat along axis {} of {}{} and {}{}", axis, short_name(xs.front()->dtype()), dims_text(xs.front()->dims()),
           short_name(x->dtype()), dims_text(x->dims()));
    }
  }
  element_count(dims);
  return dims;
}

}  // namespace

TensorPtr cast(TensorPtr x, DataType to) {
  expect(x != nullptr, "a recipe over no tensor");
  if (x->dtype() == to) return x;
  if (const Cast* c = as<Cast>(x); c && c->source()->dtype() == to && holds_exactly(x->dtype(), to)) return c->source();
  return std::make_shared<Cast>(std::move(x), to);
}

TensorPtr reshape(TensorPtr x, Dims dims) {
  expect(x != nullptr, "a recipe over no tensor");
  if (element_count(dims) != element_count(x->dims())) fail(ErrorKind::invalid_argument, "reshape of {} to {}", dims_text(x->dims()), dims_text(dims));
  if (x->dims() == dims) return x;
  if (const auto* strings = string_values(*x)) return make_string_tensor(std::move(dims), *strings);
  if (auto moved = below_cast(x, [&](const TensorPtr& y) { return reshape(y, dims); })) return moved;
  if (const Reshape* r = as<Reshape>(x)) return reshape(r->source(), std::move(dims));
  return std::make_shared<Reshape>(std::move(x), std::move(dims));
}

TensorPtr transpose(TensorPtr x, std::vector<std::int64_t> perm) {
  check_source(x, "transpose");
  check_perm(x->dims(), perm);
  if (is_identity(perm)) return x;
  if (moves_nothing(x->dims(), perm)) {
    Dims dims;
    for (const std::int64_t p : perm) dims.push_back(x->dims()[static_cast<std::size_t>(p)]);
    return reshape(std::move(x), std::move(dims));
  }
  if (auto moved = below_cast(x, [&](const TensorPtr& y) { return transpose(y, perm); })) return moved;
  if (const Transpose* t = as<Transpose>(x)) {
    for (std::int64_t& p : perm) p = t->perm()[static_cast<std::size_t>(p)];
    return transpose(t->source(), std::move(perm));
  }
  return std::make_shared<Transpose>(std::move(x), std::move(perm));
}

TensorPtr slice(TensorPtr x, std::int64_t axis, std::int64_t begin, std::int64_t end) {
  check_source(x, "slice");
  const std::size_t a = checked_axis(*x, axis, "slice");
  const std::int64_t size = x->dims()[a];
  if (begin < 0 || begin > end || end > size) fail(ErrorKind::invalid_argument, "slice {}..{} of axis {} of {}", begin, end, a, dims_text(x->dims()));
  if (begin == 0 && end == size) return x;
  const auto axis_of = static_cast<std::int64_t>(a);
  if (auto moved = below_cast(x, [&](const TensorPtr& y) { return slice(y, axis_of, begin, end); })) return moved;
  if (const Slice* s = as<Slice>(x); s && s->axis() == a) return slice(s->source(), axis_of, s->begin() + begin, s->begin() + end);
  if (const Concat* c = as<Concat>(x); c && c->axis() == a) return slice_of_concat(*c, axis_of, begin, end);
  return std::make_shared<Slice>(std::move(x), a, begin, end);
}

TensorPtr concat(std::vector<TensorPtr> xs, std::int64_t axis) {
  if (xs.empty()) fail(ErrorKind::invalid_argument, "concat of nothing");
  for (const TensorPtr& x : xs) check_source(x, "concat");
  const std::size_t a = checked_axis(*xs.front(), axis, "concat");
  Dims dims = concat_dims(xs, a);
  if (are_equal_casts(xs)) {
    std::vector<TensorPtr> below;
    for (const TensorPtr& x : xs) below.push_back(as<Cast>(x)->source());
    return cast(concat(std::move(below), static_cast<std::int64_t>(a)), xs.front()->dtype());
  }
  xs = simplified(xs, a);
  if (xs.size() == 1) return xs.front();
  return std::make_shared<Concat>(std::move(xs), std::move(dims), a);
}

TensorPtr stack(const std::vector<TensorPtr>& xs) {
  std::vector<TensorPtr> rows;
  for (const TensorPtr& x : xs) {
    check_source(x, "stack");
    Dims dims = x->dims();
    dims.insert(dims.begin(), 1);
    rows.push_back(reshape(x, std::move(dims)));
  }
  return concat(std::move(rows), 0);
}

TensorPtr take(TensorPtr x, std::int64_t axis, std::vector<std::int64_t> indices) {
  check_source(x, "take");
  const std::size_t a = checked_axis(*x, axis, "take");
  const std::int64_t size = x->dims()[a];
  bool consecutive = true;
  for (std::size_t i = 0; i < indices.size(); ++i) {
    if (indices[i] < 0 || indices[i] >= size) fail(ErrorKind::invalid_argument, "take of index {} of axis {} of {}", indices[i], a, dims_text(x->dims()));
    consecutive = consecutive && indices[i] == indices[0] + static_cast<std::int64_t>(i);
  }
  const auto axis_of = static_cast<std::int64_t>(a);
  if (indices.empty()) return slice(std::move(x), axis_of, 0, 0);
  if (consecutive) return slice(std::move(x), axis_of, indices.front(), indices.back() + 1);
  if (auto moved = below_cast(x, [&](const TensorPtr& y) { return take(y, axis_of, indices); })) return moved;
  if (const Take* t = as<Take>(x); t && t->axis() == a) {
    for (std::int64_t& i : indices) i = t->indices()[static_cast<std::size_t>(i)];
    return take(t->source(), axis_of, std::move(indices));
  }
  Dims dims = x->dims();
  dims[a] = static_cast<std::int64_t>(indices.size());
  element_count(dims);
  return std::make_shared<Take>(std::move(x), std::move(dims), a, std::move(indices));
}

TensorPtr affine(TensorPtr x, double scale, double offset) {
  check_source(x, "affine");
  return make_affine(std::move(x), scale, offset);
}

TensorPtr pad_end(TensorPtr x, std::int64_t axis, std::int64_t to, double value) {
  check_source(x, "pad_end");
  const std::size_t a = checked_axis(*x, axis, "pad_end");
  const std::int64_t size = x->dims()[a];
  if (to < size) fail(ErrorKind::invalid_argument, "pad_end of axis {} of {} to {}", a, dims_text(x->dims()), to);
  if (to == size) return x;
  Dims padding = x->dims();
  padding[a] = to - size;
  TensorPtr filled = make_filled(x->dtype(), std::move(padding), value);
  return concat({std::move(x), std::move(filled)}, static_cast<std::int64_t>(a));
}

}  // namespace mobius::ir
