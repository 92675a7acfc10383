// Qwen3.5-MoE (Qwen; transformers modeling_qwen3_5_moe.py): Qwen3.5 with many small experts and a gated one for all tokens in every layer; the chosen
// experts' weights sum to 1.
//
//   y = Σ softmax(x·Wg)ᵢ/Σ · SwiGLUᵢ(x) + σ(x·ws) · SwiGLU(x)
#include "mobius/components/qwen_hybrid.hpp"
#include "mobius/models/family.hpp"

namespace mobius::models {
namespace qwen3_5_moe {

using Qwen35Moe = CausalLM<QwenHybridLayer<SeparateDeltaNet, GatedShareExperts>, QwenHybridConfig, nn::OffsetRMSNorm>;

QwenHybridConfig config(const ConfigReader& r) {
  auto c = read_qwen_hybrid(r, {.vocab_size = 248320,
                                .hidden_size = 2048,
                                .num_hidden_layers = 40,
                                .num_attention_heads = 16,
                                .num_key_value_heads = 2,
                                .head_dim = 256,
                                .max_position_embeddings = 32768,
                                .rope = {.partial_rotary_factor = 0.25}});
  read_qwen_experts(c, r, 256, 8);
  c.normalise = true;
  c.sparse.assign(c.sparse.size(), true);
  return c;
}

}  // namespace qwen3_5_moe

Family family_qwen3_5_moe_text() {
  return {.types = {"qwen3_5_moe_text"},
          .task = "hybrid-text-generation",
          .ignorable = {"mtp*"},
          .build = causal_lm_of<qwen3_5_moe::Qwen35Moe>(qwen3_5_moe::config)};
}

}  // namespace mobius::models
