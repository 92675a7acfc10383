// FlexOlmo (arXiv 2507.07024): OLMo 2, which normalises what attention and MLP give, with experts that were trained apart in place of the MLP.
//
//   h = x + RMSNorm(Attention(x));   y = h + RMSNorm(Σ softmax(h·Wg)ᵢ · SwiGLUᵢ(h))
#include "mobius/components/moe_layer.hpp"
#include "mobius/models/family.hpp"

namespace mobius::models {
namespace flex_olmo {

using FlexOlmo = CausalLM<PostNormLayer<WholeNormAttention<MoeConfig>, SoftmaxExperts, MoeConfig>, MoeConfig>;

MoeConfig config(const ConfigReader& r) {
  MoeConfig c{read_decoder(r, {.vocab_size = 100352, .max_position_embeddings = 4096, .rope = {.theta = 500000}})};
  c.qkv_bias = c.o_bias = r.boolean("attention_bias", false);
  c.num_experts = r.size("num_experts", r.size("num_local_experts", 7));
  c.experts_per_token = r.size("num_experts_per_tok", 5);
  c.expert_size = c.intermediate_size;
  c.normalise = r.boolean("norm_topk_prob", false);
  check_experts(c, r);
  return c;
}

}  // namespace flex_olmo

Family family_flex_olmo() { return {.types = {"flex_olmo"}, .build = causal_lm_of<flex_olmo::FlexOlmo>(flex_olmo::config)}; }

}  // namespace mobius::models
