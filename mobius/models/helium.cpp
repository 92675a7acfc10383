// Helium (Kyutai; transformers modeling_helium.py): Llama whose rotary pairs are neighbouring elements, (x₀, x₁), (x₂, x₃), ...
//
//   x₂ᵢ, x₂ᵢ₊₁ ← x₂ᵢ·cos φ − x₂ᵢ₊₁·sin φ, x₂ᵢ₊₁·cos φ + x₂ᵢ·sin φ,   φ = position · θ^(−2i/d)
#include <fmt/format.h>

#include "mobius/components/decoder.hpp"
#include "mobius/models/family.hpp"

namespace mobius::models {
namespace helium {

using Helium = CausalLM<PreNormLayer<SelfAttention, GatedMLP>>;

DecoderConfig config(const ConfigReader& r) {
  auto c = read_decoder(r, {.vocab_size = 48000,
                            .hidden_size = 2560,
                            .intermediate_size = 7040,
                            .num_hidden_layers = 24,
                            .num_attention_heads = 20,
                            .num_key_value_heads = 20,
                            .head_dim = 128,
                            .max_position_embeddings = 4096,
                            .rms_norm_eps = 1e-8,
                            .rope = {.theta = 100000, .interleaved = true}});
  if (c.q_size() != c.hidden_size)
    r.refuse("head_dim", std::to_string(c.head_dim), fmt::format("hidden_size / num_attention_heads = {} / {}", c.hidden_size, c.num_attention_heads));
  c.qkv_bias = r.boolean("attention_bias", false);
  c.mlp_bias = r.boolean("mlp_bias", false);
  return c;
}

}  // namespace helium

Family family_helium() { return {.types = {"helium"}, .build = causal_lm_of<helium::Helium>(helium::config)}; }

}  // namespace mobius::models
