// Solar Open (Upstage; transformers modeling_solar_open.py): Llama's attention with DeepSeek's experts in every layer.
//
//   s = σ(x·Wg);   chosen: the k largest of s + b within the best groups;   y = c · Σ sᵢ/Σs · SwiGLUᵢ(x) + SwiGLU(x)
#include "mobius/components/deepseek_moe.hpp"
#include "mobius/models/family.hpp"

namespace mobius::models {
namespace solar_open {

using SolarOpen = CausalLM<PreNormLayer<SelfAttention, CorrectedExperts, GroupedMoeConfig>, GroupedMoeConfig>;

GroupedMoeConfig config(const ConfigReader& r) {
  GroupedMoeConfig c{{read_decoder(r, {.vocab_size = 196608,
                                       .num_hidden_layers = 48,
                                       .num_attention_heads = 64,
                                       .num_key_value_heads = 8,
                                       .head_dim = 128,
                                       .max_position_embeddings = 131072,
                                       .rms_norm_eps = 1e-5,
                                       .rope = {.theta = 1e6}})}};
  c.qkv_bias = r.boolean("attention_bias", false);
  read_grouped_experts(c, r, {.experts = 128, .expert_size = 1280});
  return c;
}

}  // namespace solar_open

Family family_solar_open() { return {.types = {"solar_open"}, .build = causal_lm_of<solar_open::SolarOpen>(solar_open::config)}; }

}  // namespace mobius::models
