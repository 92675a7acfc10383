// Function body of TensorScatter, by ScatterND.
//   present[b, ..., w[b] + l, ...] = update[b, ..., l, ...]   along one axis; all else is the past cache's
#include <algorithm>
#include <numeric>

#include "mobius/ops/functions_body.hpp"

namespace mobius::ops {
namespace {

using ir::Value;

std::vector<std::int64_t> inverse(const std::vector<std::int64_t>& perm) {
  std::vector<std::int64_t> back(perm.size());
  for (std::size_t i = 0; i < perm.size(); ++i) back[static_cast<std::size_t>(perm[i])] = static_cast<std::int64_t>(i);
  return back;
}

// The slots [L], or [B | 1, L] with an index per row, that the update goes to.
Value* slots(BodyBuilder& b, std::int64_t axis) {
  Value* slot = b.range(b.dim_of(b.input(1), axis));
  if (b.input(2)) slot = b.add(b.unsqueeze(b.input(2), {1}), slot);
  else slot = b.unsqueeze(slot, {0});
  if (b.node().string_attribute("mode", "linear") != "circular") return slot;
  return b.op("Mod", {slot, b.dim_of(b.input(0), axis)});
}

// past_cache, update, write_indices? -> present_cache
std::optional<ir::Function> tensor_scatter(BodyBuilder& b) {
  const auto* past = b.node().input(0);
  if (!past || !past->rank() || *past->rank() < 2) return std::nullopt;
  const auto rank = static_cast<std::int64_t>(*past->rank());
  auto axis = b.node().int_attribute("axis", -2);
  if (axis < 0) axis += rank;
  if (axis <= 0 || axis >= rank) return std::nullopt;

  // The indexed axes come first: the batch and the slots, or the slots alone where there is one row.
  const bool one_row = (*past->shape())[0] == ir::Dim(1);
  std::vector<std::int64_t> perm(static_cast<std::size_t>(rank));
  std::iota(perm.begin(), perm.end(), 0);
  std::rotate(perm.begin() + (one_row ? 0 : 1), perm.begin() + axis, perm.begin() + axis + 1);
  const bool moves = !std::ranges::is_sorted(perm);
  const auto forth = [&](Value* x) { return moves ? b.transpose(x, perm) : x; };

  Value* slot = slots(b, axis);
  Value* indices = nullptr;
  if (one_row) {
    indices = b.reshape(slot, {-1, 1});
  } else {
    Value* rows = b.dim_of(b.input(0), 0);
    Value* shape = b.concat({rows, b.dim_of(b.input(1), axis)}, 0);
    Value* row = b.op("Expand", {b.unsqueeze(b.range(rows), {1}), shape});
    indices = b.concat({b.unsqueeze(row, {2}), b.unsqueeze(b.op("Expand", {slot, shape}), {2})}, 2);
  }
  Value* y = b.op("ScatterND", {forth(b.input(0)), indices, forth(b.input(1))});
  b.output(0, moves ? b.transpose(y, inverse(perm)) : y);
  return b.finish();
}

std::string scatter_extra(const ir::Node& node) {
  const auto* past = node.input(0);
  const bool one_row = past && past->rank().value_or(0) > 0 && (*past->shape())[0] == ir::Dim(1);
  return ranks_of(node, {0}) + (one_row ? " batch=1" : "");
}

}  // namespace

void add_scatter_functions(FunctionTable& table) {
  table[{"", "TensorScatter"}] = {
      tensor_scatter, {"past_cache", "update", "write_indices"}, {}, {{"axis", std::int64_t{-2}}, {"mode", std::string("linear")}}, scatter_extra};
}

}  // namespace mobius::ops
