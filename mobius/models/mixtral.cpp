// Mixtral (arXiv 2401.04088): Mistral whose MLP is the weighted sum of the two best of eight:  y = Σ softmax(top2(x·Wg))ᵢ · SwiGLUᵢ(x)
#include "mobius/components/moe_layer.hpp"
#include "mobius/models/family.hpp"

namespace mobius::models {
namespace mixtral {

using Mixtral = CausalLM<BlockSparseLayer<SelfAttention, MixtralExperts>, MoeConfig>;

MoeConfig config(const ConfigReader& r) {
  MoeConfig c{
      read_decoder(r, {.intermediate_size = 14336, .num_key_value_heads = 8, .max_position_embeddings = 131072, .rms_norm_eps = 1e-5, .rope = {.theta = 1e6}})};
  set_window(c, r.optional_size("sliding_window"));
  c.num_experts = r.size("num_local_experts", r.size("num_experts", 8));
  c.experts_per_token = r.size("num_experts_per_tok", 2);
  c.expert_size = c.intermediate_size;
  check_experts(c, r);
  return c;
}

}  // namespace mixtral

Family family_mixtral() { return {.types = {"mixtral"}, .ignorable = {"*.rotary_emb.inv_freq"}, .build = causal_lm_of<mixtral::Mixtral>(mixtral::config)}; }

}  // namespace mobius::models
