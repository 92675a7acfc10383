// ERNIE 4.5 dense (Baidu; transformers modeling_ernie4_5.py): Llama with neighbouring rotary pairs and one switch for all biases.
//
//   x₂ᵢ, x₂ᵢ₊₁ ← x₂ᵢ·cos φ − x₂ᵢ₊₁·sin φ, x₂ᵢ₊₁·cos φ + x₂ᵢ·sin φ,   φ = position · θ^(−2i/d)
#include "mobius/components/decoder.hpp"
#include "mobius/models/family.hpp"

namespace mobius::models {
namespace ernie4_5 {

using Ernie = CausalLM<PreNormLayer<SelfAttention, GatedMLP>>;

DecoderConfig config(const ConfigReader& r) {
  auto c = read_decoder(r, {.vocab_size = 103424,
                            .hidden_size = 1024,
                            .intermediate_size = 3072,
                            .num_hidden_layers = 18,
                            .num_attention_heads = 16,
                            .num_key_value_heads = 2,
                            .head_dim = 128,
                            .max_position_embeddings = 131072,
                            .rms_norm_eps = 1e-5,
                            .tie_word_embeddings = true,
                            .rope = {.theta = 500000, .interleaved = true}});
  c.qkv_bias = c.o_bias = c.mlp_bias = r.boolean("use_bias", false);
  return c;
}

}  // namespace ernie4_5

Family family_ernie4_5() { return {.types = {"ernie4_5"}, .build = causal_lm_of<ernie4_5::Ernie>(ernie4_5::config)}; }

}  // namespace mobius::models
