// DeepSeekMoE (arXiv 2401.06066, 2412.19437): many small experts chosen by their sigmoid and a correction bias within the best groups, and an expert that
// every token goes to.
//
//   s = σ(x·Wg);   chosen: the k largest of s + b within the best groups;   y = c · Σ sᵢ/Σs · SwiGLUᵢ(x) + SwiGLU(x)
//
//   using Glm4Moe = CausalLM<MoeLayer<Attention, CorrectedExperts, GroupedMoeConfig>, GroupedMoeConfig>;
#pragma once
#include "mobius/components/moe_layer.hpp"

namespace mobius {

struct GroupedMoeConfig : MoeConfig {
  std::int64_t groups = 1, kept_groups = 1;
};

// What a type says where its config is silent.
struct GroupedMoeDefaults {
  std::int64_t experts = 256, experts_per_token = 8, expert_size = 2048, shared_experts = 1, groups = 1, kept_groups = 1, dense_layers = 0;
  bool normalise = true;
  double routed_scale = 1;
};

// Reads n_routed_experts, num_experts_per_tok, moe_intermediate_size, n_shared_experts, n_group, topk_group, first_k_dense_replace, norm_topk_prob and
// routed_scaling_factor. Errors: invalid_argument for groups that don't divide the experts, or more of anything chosen than there is.
void read_grouped_experts(GroupedMoeConfig& config, const ConfigReader& reader, const GroupedMoeDefaults& defaults);

struct CorrectedExperts : Module<CorrectedExperts, GroupedMoeConfig> {
  using Module::Module;

  // The router works in float32, and so do its weights.
  Scope router = scope.in(ir::DataType::float32) / "gate";
  Linear gate{router, cfg.hidden_size, cfg.num_experts};
  Parameter correction{router / "e_score_correction_bias", {cfg.num_experts}};
  GatedExperts experts{scope / "experts", cfg.expert_sizes(), cfg.hidden_act};
  SharedExpert shared_experts{scope / "shared_experts", cfg, cfg.shared_size};

  Tensor forward(Tensor x) const {
    const auto routed = over_tokens(x, cfg.hidden_size, [&](Tensor tokens) { return experts(tokens, route(tokens)); });
    return routed + shared_experts(x);
  }

  Routing route(Tensor tokens) const;
};

}  // namespace mobius
