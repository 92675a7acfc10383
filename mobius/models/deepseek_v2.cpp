// DeepSeek-V2 (arXiv 2405.04434): latent attention, and experts that are chosen by their softmax, in the larger model within the best groups only; the first
// layers may be dense.
//
//   p = softmax(x·Wg);   y = c · Σ pᵢ · SwiGLUᵢ(x) + SwiGLU(x)
#include "mobius/components/latent_attention.hpp"
#include "mobius/models/family.hpp"

namespace mobius::models {
namespace deepseek_v2 {

struct Experts : Module<Experts, LatentConfig> {
  using Module::Module;

  Linear gate{scope.in(ir::DataType::float32) / "gate", cfg.hidden_size, cfg.num_experts};  // the router works in float32
  GatedExperts experts{scope / "experts", cfg.expert_sizes(), cfg.hidden_act};
  SharedExpert shared_experts{scope / "shared_experts", cfg, cfg.shared_size};

  Tensor forward(Tensor x) const {
    const auto routed = over_tokens(x, cfg.hidden_size, [&](Tensor tokens) { return experts(tokens, route(tokens)); });
    return routed + shared_experts(x);
  }

  Routing route(Tensor tokens) const {
    const auto scores = softmax(gate(in_float32(tokens)), -1);
    const auto within = within_groups(scores, {.experts = cfg.num_experts, .groups = cfg.groups, .kept = cfg.kept_groups});
    return scaled(choose(within, cfg.experts_per_token), cfg.routed_scale);
  }
};

using DeepSeekV2 = CausalLM<MoeLayer<LatentAttention, Experts, LatentConfig>, LatentConfig>;

LatentConfig config(const ConfigReader& r) {
  LatentConfig c{{{read_decoder_without_rope(r, {.vocab_size = 102400})}}};
  c.mlp_bias = r.boolean("mlp_bias", false);
  read_latent_attention(c, r, {.rope = {.interleaved = true}});
  // How many experts a token has is not among the type's defaults; 6 in the published models.
  read_grouped_experts(c, r, {.experts = 64, .experts_per_token = 6, .expert_size = 1407, .shared_experts = 2, .normalise = false});
  const auto method = r.text("topk_method", "greedy");
  if (method == "greedy") c.groups = c.kept_groups = 1;
  else if (method != "group_limited_greedy") r.unsupported("topk_method = '" + method + "' is not supported (only greedy, group_limited_greedy)");
  return c;
}

}  // namespace deepseek_v2

Family family_deepseek_v2() { return {.types = {"deepseek_v2"}, .build = causal_lm_of<deepseek_v2::DeepSeekV2>(deepseek_v2::config)}; }

}  // namespace mobius::models
