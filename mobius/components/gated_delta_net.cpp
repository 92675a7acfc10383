// Gated delta networks as operators.
#include "mobius/components/gated_delta_net.hpp"

#include <algorithm>
#include <cmath>

#include "mobius/base/error.hpp"

namespace mobius {

using nn::Parameter;
using nn::Scope;

GatedDeltaShape read_gated_delta(const ConfigReader& r, std::int64_t hidden_size, double norm_eps) {
  GatedDeltaShape s{.hidden = hidden_size,
                    .key_heads = r.size("linear_num_key_heads", 16),
                    .value_heads = r.size("linear_num_value_heads", 32),
                    .key_dim = r.size("linear_key_head_dim", 128),
                    .value_dim = r.size("linear_value_head_dim", 128),
                    .kernel = r.size("linear_conv_kernel_dim", 4),
                    .activation = r.text("hidden_act", "silu"),
                    .norm_eps = norm_eps};
  if (s.value_heads % s.key_heads != 0)
    fail(ErrorKind::invalid_argument, "{}: linear_num_value_heads {} is not a multiple of linear_num_key_heads {}", r.where(), s.value_heads, s.key_heads);
  return s;
}

GatedDeltaNet::GatedDeltaNet(const Scope& scope, const GatedDeltaShape& s)
    : scope_(scope),
      shape_(s),
      conv1d_(scope / "conv1d", s.convolved(), s.kernel, false),
      A_(negative_rate(scope, {s.value_heads})),
      dt_bias_(scope / "dt_bias", {s.value_heads}),
      norm_(scope / "norm", s.value_dim, s.norm_eps),
      out_proj_(scope / "out_proj", s.values(), s.hidden) {}

// Every head x / √(Σx² + ε) · length: an RMSNorm whose weight is length / √key_dim.
Tensor GatedDeltaNet::unit_heads(Tensor x, double length, std::string_view name) const {
  constexpr double epsilon = 1e-6;
  const auto n = static_cast<double>(shape_.key_dim);
  const auto weight = static_cast<float>(length / std::sqrt(n));
  const auto size = shape_.key_dim;
  const Parameter constant((scope_ / name).path(), ir::computed(scope_.dtype(), {size}, "constant " + std::to_string(weight),
                                                                [=](std::int64_t, std::int64_t rows, float* out) { std::fill_n(out, rows * size, weight); }));
  return per_head(nn::RMSNorm(scope_ / name, constant, epsilon / n), x, shape_.key_heads);
}

Tensor GatedDeltaNet::operator()(Tensor qkv, Tensor z, Tensor b, Tensor a, Decode& at) const {
  const auto [q, k, v] = split<3>(conv1d_(qkv, at, shape_.activation), {shape_.keys(), shape_.keys(), shape_.values()}, -1);
  const auto beta = at.only_tokens(sigmoid(b));
  const auto decay = at.only_tokens(softplus(a + dt_bias_) * A_);
  const auto query = unit_heads(q, 1 / std::sqrt(static_cast<double>(shape_.key_dim)), "query_scale");
  const auto key = unit_heads(k, 1, "key_scale");
  const auto y = at.recur(query, key, v, decay, beta,
                          {.query_heads = shape_.key_heads, .heads = shape_.value_heads, .key_dim = shape_.key_dim, .value_dim = shape_.value_dim});
  return out_proj_(per_head(norm_, y, shape_.value_heads) * nn::activation("silu", z));
}

}  // namespace mobius
