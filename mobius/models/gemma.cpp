// Gemma (arXiv 2403.08295): Llama with scaled embeddings, norms that multiply by 1 + weight, wide heads and a GELU-gated MLP.
//
//   x = √hidden · embed[token];   RMSNorm(x) = x / √(mean(x²) + ε) · (1 + w);   MLP(x) = down(gelu(gate(x)) · up(x))
#include "mobius/components/gemma.hpp"
#include "mobius/models/family.hpp"

namespace mobius::models {
namespace gemma {

using Gemma = GemmaLM<PreNormLayer<SelfAttention, GatedMLP, DecoderConfig, nn::OffsetRMSNorm>, GemmaConfig>;

GemmaConfig config(const ConfigReader& r) {
  GemmaConfig c{{read_decoder(r, {.vocab_size = 256000,
                                  .hidden_size = 3072,
                                  .intermediate_size = 24576,
                                  .num_hidden_layers = 28,
                                  .num_attention_heads = 16,
                                  .num_key_value_heads = 16,
                                  .head_dim = 256,
                                  .max_position_embeddings = 8192,
                                  .hidden_act = "gelu_pytorch_tanh",
                                  .tie_word_embeddings = true}),
                 {}}};
  if (c.hidden_act == "gelu") c.hidden_act = "gelu_pytorch_tanh";  // the first files said the one and meant the other
  c.qkv_bias = c.o_bias = r.boolean("attention_bias", false);
  r.only("use_bidirectional_attention", false);
  return c;
}

}  // namespace gemma

Family family_gemma() { return {.types = {"gemma"}, .build = causal_lm_of<gemma::Gemma>(gemma::config)}; }

}  // namespace mobius::models
