// State-space layers as operators: both recurrences are linear attention with a decay, where C is the query, B the key and Δ·x the value.
#include "mobius/components/state_space.hpp"

#include <cmath>

namespace mobius {

using nn::Parameter;
using nn::Scope;
using nn::scoped;

namespace {

// Each element `times` times in a row.
Parameter repeated(const Parameter& p, std::int64_t times) {
  std::vector<std::int64_t> rows;
  for (std::int64_t i = 0; i < p.dims().at(0); ++i) rows.insert(rows.end(), static_cast<std::size_t>(times), i);
  return {p.name(), ir::take(p.data(), 0, std::move(rows))};
}

}  // namespace

Parameter negative_rate(const Scope& scope, ir::Dims dims) {
  const Parameter exact((scope / "A_log").in(ir::DataType::float32), std::move(dims));
  return {(scope / "A").path(), ir::elementwise({exact.data()}, scope.dtype(), "-exp", [](std::span<const double> w) { return -std::exp(w[0]); })};
}

CausalConv::CausalConv(const Scope& scope, std::int64_t channels, std::int64_t kernel, bool bias)
    : scope_(scope), weight_(scope / "weight", {channels, 1, kernel}), bias_(bias ? std::optional(Parameter(scope / "bias", {channels})) : std::nullopt) {}
Tensor CausalConv::operator()(Tensor x, Decode& at, std::string_view activation) const {
  return scoped(x.builder(), scope_.path(), [&] { return at.causal_conv(x, weight_, bias_, activation); });
}

SelectiveScan::SelectiveScan(const Scope& scope, std::int64_t inner, std::int64_t state)
    : inner_(inner), state_(state), A_(negative_rate(scope, {inner, state})), D_(scope / "D", {inner}) {}
Tensor SelectiveScan::operator()(Tensor x, Tensor dt, Tensor in, Tensor out, Decode& at) const {
  const auto step = at.only_tokens(softplus(dt));
  const auto decay = reshape(unsqueeze(step, {3}) * A_, {0, 0, inner_ * state_});
  const auto y =
      at.recur(out, in, step * x, decay, {}, {.query_heads = 1, .heads = inner_, .key_dim = state_, .value_dim = 1, .state = "ssm_state", .flat = true});
  return y + x * D_;
}

StateSpaceDual::StateSpaceDual(const Scope& scope, const Mamba2Shape& shape)
    : shape_(shape),
      dt_bias_(scope / "dt_bias", {shape.heads}),
      A_(negative_rate(scope, {shape.heads})),
      D_(repeated(Parameter(scope / "D", {shape.heads}), shape.head_dim)) {}
Tensor StateSpaceDual::operator()(Tensor x, Tensor dt, Tensor in, Tensor out, Decode& at) const {
  auto step = softplus(dt + dt_bias_);
  if (shape_.min_step > 0) step = maximum(step, shape_.min_step);
  if (std::isfinite(shape_.max_step)) step = minimum(step, shape_.max_step);
  step = at.only_tokens(step);
  const auto value = reshape(reshape(x, {0, 0, shape_.heads, shape_.head_dim}) * unsqueeze(step, {3}), {0, 0, shape_.inner()});
  const auto y = at.recur(out, in, value, step * A_, {},
                          {.query_heads = shape_.groups, .heads = shape_.heads, .key_dim = shape_.state, .value_dim = shape_.head_dim, .state = "ssm_state"});
  return y + x * D_;
}

GroupedRMSNorm::GroupedRMSNorm(const Scope& scope, std::int64_t dim, std::int64_t groups, double eps)
    : scope_(scope), dim_(dim), groups_(groups), weight_(scope / "weight", {dim}), eps_(eps) {}
Tensor GroupedRMSNorm::operator()(Tensor x) const {
  return scoped(x.builder(), scope_.path(), [&] {
    if (groups_ == 1) return nn::RMSNorm(scope_, weight_, eps_)(x);
    const nn::UnweightedRMSNorm norm(scope_ / "ones", dim_ / groups_, eps_);
    return per_head(norm, x, groups_) * weight_;
  });
}

}  // namespace mobius
