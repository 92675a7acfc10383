// Conditions that several rules ask for. Each says why it does not hold: "scale is [1, 8], expected [8]".
//
//   Rule{.from = {norm(x + skip, gamma)}, ..., .where = {is_channel_vector(gamma, x)}}
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "mobius/rewrite/rule.hpp"

namespace mobius::rules {

// The EP's kernel takes the element type of `a`.
rewrite::Condition kernel_takes(std::string kernel, DataTypeSet EpCapabilities::*dtypes, const rewrite::Pat& a);
rewrite::Condition is_one_of(const rewrite::Pat& a, DataTypeSet dtypes);
rewrite::Condition same_dtype(const rewrite::Pat& a, const rewrite::Pat& b);
rewrite::Condition has_rank_in(const rewrite::Pat& a, std::size_t low, std::size_t high);
// `v` has rank 1, and the length of x's last axis.
rewrite::Condition is_channel_vector(const rewrite::Pat& v, const rewrite::Pat& x);
// A reduction (a pattern of one, or alternatives) over the last axis alone, which stays with length 1.
rewrite::Condition reduces_last_axis(const rewrite::Pat& reduction);
// An attribute `axis` that means the last axis of x, counted from either end.
rewrite::Condition is_last_axis(const rewrite::AttrVar<std::int64_t>& axis, const rewrite::Pat& x);
// A Cast's `to` is the element type of x.
rewrite::Condition casts_to_type_of(const rewrite::AttrVar<std::int64_t>& to, const rewrite::Pat& x);

// What they are made of, for rules that look at nodes themselves: whether `axis` means the last one of x; the element of a constant tensor of
// integers that has one element (v may be nullptr); the size of x's last axis, where it is a number.
bool is_last_axis_of(std::int64_t axis, const ir::Value* x);
std::optional<std::int64_t> single_integer(const ir::Value* v);
std::optional<std::int64_t> last_size(const ir::Value* x);

std::string dtype_text(const ir::Value* v);  // "FLOAT16"
std::string shape_text(const ir::Value* v);  // "[B, S, 8]"

}  // namespace mobius::rules
