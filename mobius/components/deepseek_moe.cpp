// The router of DeepSeekMoE and its keys.
#include "mobius/components/deepseek_moe.hpp"

#include <limits>

#include "mobius/base/error.hpp"

namespace mobius {

void read_grouped_experts(GroupedMoeConfig& c, const ConfigReader& r, const GroupedMoeDefaults& d) {
  c.num_experts = r.size("n_routed_experts", r.size("num_local_experts", r.size("num_experts", d.experts)));
  c.experts_per_token = r.size("num_experts_per_tok", d.experts_per_token);
  c.expert_size = r.size("moe_intermediate_size", d.expert_size);
  c.shared_size = c.expert_size * r.size("n_shared_experts", d.shared_experts);
  c.groups = r.nullable_size("n_group", d.groups).value_or(1);  // null: experts are in no groups
  c.kept_groups = r.nullable_size("topk_group", d.kept_groups).value_or(1);
  c.normalise = r.boolean("norm_topk_prob", d.normalise);
  c.routed_scale = r.number("routed_scaling_factor", d.routed_scale);
  c.sparse = sparse_from(r.integer("first_k_dense_replace", d.dense_layers), c.num_hidden_layers);
  check_experts(c, r);
  if (c.num_experts % c.groups != 0)
    fail(ErrorKind::invalid_argument, "{}: n_routed_experts {} is not a multiple of n_group {}", r.where(), c.num_experts, c.groups);
  if (c.kept_groups > c.groups) fail(ErrorKind::invalid_argument, "{}: topk_group {} is more than n_group {}", r.where(), c.kept_groups, c.groups);
}

Routing CorrectedExperts::route(Tensor tokens) const {
  const auto scores = sigmoid(gate(in_float32(tokens)));
  const auto preference = within_groups(
      scores + correction,
      {.experts = cfg.num_experts, .groups = cfg.groups, .kept = cfg.kept_groups, .counted = 2, .outside = -std::numeric_limits<double>::infinity()});
  const auto routing = choose_by(preference, scores, cfg.experts_per_token);
  return scaled(cfg.normalise ? normalised(routing, 1e-20) : routing, cfg.routed_scale);
}

}  // namespace mobius
