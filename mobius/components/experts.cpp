// Routers, and experts as stacks of matrices.
#include "mobius/components/experts.hpp"

#include <numeric>

#include "mobius/ep/context.hpp"

namespace mobius {

using ir::DataType;

// ── routers ──────────────────────────────────────────────────────────────────────────────────────────────────────────────

Tensor in_float32(Tensor x) { return x.dtype() == DataType::float32 ? x : cast(x, DataType::float32); }

Routing choose(Tensor scores, std::int64_t k) {
  const auto [weights, experts] = topk(scores, {k}, -1);
  return {weights, experts};
}

Routing choose_by_softmax(Tensor logits, std::int64_t k) {
  auto r = choose(softmax(in_float32(logits), -1), k);
  r.softmax = SoftmaxRouter{logits};
  return r;
}

Routing choose_then_soften(Tensor logits, std::int64_t k) {
  const auto best = choose(in_float32(logits), k);
  return {softmax(best.weights, -1), best.experts, SoftmaxRouter{logits, true}};
}

Routing choose_by(Tensor preference, Tensor scores, std::int64_t k) {
  const auto experts = topk(preference, {k}, -1)[1];
  return {gather_elements(scores, experts, 1), experts};
}

Routing normalised(Routing r, double epsilon) {
  const auto sum = reduce_sum(r.weights, {-1});
  r.weights = r.weights / (epsilon == 0 ? sum : sum + epsilon);
  if (epsilon != 0) r.softmax.reset();
  if (r.softmax) r.softmax = SoftmaxRouter{r.softmax->logits, true};  // a factor of all weights is gone
  return r;
}

Routing scaled(Routing r, double factor) {
  if (factor == 1) return r;
  r.weights = r.weights * factor;
  if (r.softmax) r.softmax->scale *= factor;
  return r;
}

Tensor counted_from_zero(Tensor at, std::int64_t count) {
  std::vector<std::int64_t> numbers(static_cast<std::size_t>(count));
  std::iota(numbers.begin(), numbers.end(), 0);
  return at.constant(numbers);
}

Tensor within_groups(Tensor preference, const GroupLimit& limit) {
  if (limit.groups == limit.kept) return preference;
  const auto size = limit.experts / limit.groups;
  const auto by_group = reshape(preference, {0, limit.groups, size});
  const auto worth = limit.counted == 1 ? reduce_max(by_group, {2}, 0) : reduce_sum(topk(by_group, {limit.counted}, -1)[0], {2}, 0);
  const auto best = topk(worth, {limit.kept}, -1)[1];                                       // [tokens, kept]
  const auto is_best = equal(unsqueeze(best, {2}), counted_from_zero(best, limit.groups));  // [tokens, kept, groups]
  const auto kept = unsqueeze(cast(reduce_max(cast(is_best, DataType::int32), {1}, 0), DataType::boolean), {2});
  return reshape(where(kept, by_group, limit.outside), {0, limit.experts});
}

// ── weights ──────────────────────────────────────────────────────────────────────────────────────────────────────────────

Parameter stack_experts(const Scope& at, std::int64_t experts, std::string_view name, std::int64_t out, std::int64_t in) {
  std::vector<ir::TensorPtr> each;
  each.reserve(static_cast<std::size_t>(experts));
  for (std::int64_t e = 0; e < experts; ++e) each.push_back(Parameter(at / e / name / "weight", {out, in}).data());
  return {(at / name / "weight").path(), ir::transpose(ir::stack(each), {0, 2, 1})};
}

Parameter turned(const Parameter& w, std::string name) { return {std::move(name), ir::transpose(w.data(), {0, 2, 1})}; }

Parameter turned_rows(const Parameter& w, std::string name, std::int64_t begin, std::int64_t end) {
  return {std::move(name), ir::transpose(ir::slice(w.data(), 1, begin, end), {0, 2, 1})};
}

// ── experts ──────────────────────────────────────────────────────────────────────────────────────────────────────────────

// Where each of the tokens · k choices goes. All in integers: the order of tokens within an expert is that of the batch, so the result doesn't depend
// on how a runtime sorts.
Dispatch::Groups Dispatch::groups_of(Tensor experts, std::int64_t num_experts) {
  const auto ones = expand(experts.constant({1}), shape(experts));                                                       // [tokens, k]
  const auto none = expand(experts.constant({0}), concat<Tensor>({shape(experts, 0, 1), std::vector{num_experts}}, 0));  // [tokens, experts]
  const auto order = cumsum(scatter_elements(none, experts, ones, 1), 0);  // the how-manieth of its expert's tokens one is, from 1
  const auto load = reduce_max(order, {0}, 0);                             // [experts]: tokens of each
  const auto used = squeeze(nonzero(load), {0});
  const auto capacity = reduce_max(load, {0});                     // [1]
  const auto rank = cumsum(minimum(load, 1), 0);                   // among those in use, from 1
  const auto places = order + (rank * capacity - (capacity + 1));  // [tokens, experts]
  const auto place = gather_elements(places, experts, 1);

  const auto number = cumsum(reshape(ones, {-1}), 0) - 1;  // of each choice
  const auto first = expand(experts.constant({0}), shape(used) * capacity);
  const auto choice = scatter_elements(first, reshape(place, {-1}), number, 0);
  return {used, reshape(choice, concat<Tensor>({std::vector<std::int64_t>{-1}, capacity}, 0)), place};
}

Dispatch::Dispatch(Routing routing, std::int64_t num_experts) : routing_(routing), k_(routing.experts.dim(1).value()), num_experts_(num_experts) {
  if (!ep_capabilities().requires_graph_capture_rewrite) groups_ = groups_of(routing.experts, num_experts);
}

Tensor Dispatch::group(Tensor tokens) const {
  if (!groups_) return unsqueeze(tokens, {0});
  return gather(tokens, k_ == 1 ? groups_->choice : groups_->choice / k_);
}

Tensor Dispatch::group_choices(Tensor choices) const {
  if (groups_) return gather(reshape(choices, {-1, choices.dim(2).value()}), groups_->choice);
  const auto chosen = equal(unsqueeze(routing_.experts, {1}), unsqueeze(counted_from_zero(routing_.experts, num_experts_), {1}));  // [tokens, experts, k]
  return transpose(matmul(cast(chosen, choices.dtype()), choices), {1, 0, 2});
}

Tensor Dispatch::linear(Tensor grouped, const Parameter& w, const std::optional<Parameter>& bias) const {
  const auto of_used = [&](const Parameter& stack) { return groups_ ? gather(grouped.with(stack), groups_->used) : grouped.with(stack); };
  const auto y = matmul(grouped, of_used(w));
  return bias ? y + unsqueeze(of_used(*bias), {1}) : y;
}

// Without groups the others' results are left behind, not multiplied by zero: what an expert makes of a token that it does not know may be infinite.
Tensor Dispatch::choices(Tensor grouped) const {
  const auto width = grouped.dim(2).value();
  if (groups_) return gather(reshape(grouped, {-1, width}), groups_->place);
  return gather_elements(transpose(grouped, {1, 0, 2}), expand(unsqueeze(routing_.experts, {2}), {1, 1, width}), 1);
}

Tensor Dispatch::combine(Tensor choices) const {
  const auto weights = routing_.weights.dtype() == choices.dtype() ? routing_.weights : cast(routing_.weights, choices.dtype());
  return squeeze(matmul(unsqueeze(weights, {1}), choices), {1});
}

}  // namespace mobius
