// DeepSeek-V3 (arXiv 2412.19437): latent attention, and experts that are chosen by their sigmoid and a correction bias within the best groups. The first
// layers are dense. YaRN also sharpens the scores.
//
//   s = σ(x·Wg);   chosen: the k largest of s + b;   y = c · Σ sᵢ/Σs · SwiGLUᵢ(x) + SwiGLU(x)
//   score = m² · q·k / √d,   m = 0.1 · mscale_all_dim · ln(factor) + 1
#include "mobius/components/latent_attention.hpp"
#include "mobius/models/family.hpp"

namespace mobius::models {
namespace deepseek_v3 {

using DeepSeekV3 = CausalLM<MoeLayer<LatentAttention, CorrectedExperts, LatentConfig>, LatentConfig>;

LatentConfig config(const ConfigReader& r) {
  LatentConfig c{{{read_decoder_without_rope(r, {.vocab_size = 129280,
                                                 .hidden_size = 7168,
                                                 .intermediate_size = 18432,
                                                 .num_hidden_layers = 61,
                                                 .num_attention_heads = 128,
                                                 .num_key_value_heads = 128,
                                                 .max_position_embeddings = 4096})}}};
  read_latent_attention(c, r, {.rope = {.interleaved = r.boolean("rope_interleave", true)}});
  read_grouped_experts(c, r, {.groups = 8, .kept_groups = 4, .dense_layers = 3, .routed_scale = 2.5});
  return c;
}

}  // namespace deepseek_v3

// The published checkpoint's layer 61 predicts the token after the next.
Family family_deepseek_v3() {
  return {.types = {"deepseek_v3"}, .ignorable = {"model.layers.61.*"}, .build = causal_lm_of<deepseek_v3::DeepSeekV3>(deepseek_v3::config)};
}

}  // namespace mobius::models
