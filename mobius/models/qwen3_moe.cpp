// Qwen3-MoE (arXiv 2505.09388): Qwen3, with normalised query and key heads, whose MLP is a weighted sum of small experts:  y = Σ softmax(x·Wg)ᵢ · SwiGLUᵢ(x)
#include "mobius/components/moe_layer.hpp"
#include "mobius/models/family.hpp"

namespace mobius::models {
namespace qwen3_moe {

using Qwen3Moe = CausalLM<MoeLayer<HeadNormAttention, SoftmaxExperts>, MoeConfig>;

MoeConfig config(const ConfigReader& r) {
  MoeConfig c{read_decoder(r, {.vocab_size = 151936,
                               .hidden_size = 2048,
                               .intermediate_size = 6144,
                               .num_hidden_layers = 24,
                               .num_key_value_heads = 4,
                               .max_position_embeddings = 32768})};
  c.qkv_bias = c.o_bias = r.boolean("attention_bias", false);
  if (r.boolean("use_sliding_window", false)) set_window(c, r.nullable_size("sliding_window", 4096));
  c.num_experts = r.size("num_experts", r.size("num_local_experts", 128));
  c.experts_per_token = r.size("num_experts_per_tok", 8);
  c.expert_size = r.size("moe_intermediate_size", 768);
  c.normalise = r.boolean("norm_topk_prob", false);
  c.sparse = sparse_by_step(r, c.num_hidden_layers);
  check_experts(c, r);
  return c;
}

}  // namespace qwen3_moe

Family family_qwen3_moe() { return {.types = {"qwen3_moe"}, .build = causal_lm_of<qwen3_moe::Qwen3Moe>(qwen3_moe::config)}; }

}  // namespace mobius::models
