// Gemma 2 (arXiv 2408.00118): Gemma with norms before and behind each branch, soft caps on scores and logits, and a sliding window in
// every other layer.
//
//   h = x + norm(Attention(norm(x)));   y = h + norm(MLP(norm(h)));   scores and logits ← c · tanh(· / c)
//
// VaultGemma (arXiv 2510.15001) leaves out the norms behind the branches:
//
//   h = x + Attention(norm(x));   y = h + MLP(norm(h))
#include "mobius/components/gemma.hpp"
#include "mobius/models/family.hpp"

namespace mobius::models {
namespace gemma2 {

using Gemma2 = GemmaLM<SandwichNormLayer<GemmaAttention, GatedMLP, GemmaConfig>, GemmaConfig>;

struct VaultNames : LayerNames {
  static constexpr std::string_view mlp_norm = "pre_feedforward_layernorm";
};
using VaultGemma = GemmaLM<PreNormLayer<GemmaAttention, GatedMLP, GemmaConfig, nn::OffsetRMSNorm, VaultNames>, GemmaConfig>;

GemmaConfig config(const ConfigReader& r) {
  auto c = read_gemma(r, {.vocab_size = 256000,
                          .hidden_size = 2304,
                          .intermediate_size = 9216,
                          .num_hidden_layers = 26,
                          .num_attention_heads = 8,
                          .num_key_value_heads = 4,
                          .head_dim = 256,
                          .max_position_embeddings = 8192,
                          .tie_word_embeddings = true});
  c.attention_softcap = r.nullable_positive("attn_logit_softcapping", 50);
  c.logits_softcap = r.nullable_positive("final_logit_softcapping", 30);
  set_window_by_layer(c, r, r.nullable_size("sliding_window", 4096), all_but_every(2, c.num_hidden_layers));
  set_rope(c, read_rope(r, c.rope_shape(), {}));
  return c;
}

std::vector<Component> build(const ConfigReader& r, ir::DataType dtype) {
  return r.model_type() == "vaultgemma" ? causal_lm_of<VaultGemma>(config)(r, dtype) : causal_lm_of<Gemma2>(config)(r, dtype);
}

}  // namespace gemma2

Family family_gemma2() { return {.types = {"gemma2", "vaultgemma"}, .build = gemma2::build}; }

}  // namespace mobius::models
