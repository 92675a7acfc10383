// Qwen3.5 (Qwen; transformers modeling_qwen3_5.py): gated delta networks, every fourth layer gated attention that rotates a quarter of each head.
//
//   h = x + (DeltaNet or GatedAttention)(norm(x));   y = h + MLP(norm(h))
//   GatedAttention(x) = (σ(x·Wz) · Attention(q, k, v))·Wo,   q, k = rope(norm(x·Wq)), rope(norm(x·Wk))
#include "mobius/components/qwen_hybrid.hpp"
#include "mobius/models/family.hpp"

namespace mobius::models {
namespace qwen3_5 {

using Qwen35 = CausalLM<QwenHybridLayer<SeparateDeltaNet, GatedShareExperts>, QwenHybridConfig, nn::OffsetRMSNorm>;

QwenHybridConfig config(const ConfigReader& r) {
  return read_qwen_hybrid(r, {.vocab_size = 248320,
                              .intermediate_size = 12288,
                              .num_attention_heads = 16,
                              .num_key_value_heads = 4,
                              .head_dim = 256,
                              .max_position_embeddings = 32768,
                              .rope = {.partial_rotary_factor = 0.25}});
}

}  // namespace qwen3_5

Family family_qwen3_5_text() {
  return {.types = {"qwen3_5_text"}, .task = "hybrid-text-generation", .ignorable = {"mtp*"}, .build = causal_lm_of<qwen3_5::Qwen35>(qwen3_5::config)};
}

}  // namespace mobius::models
