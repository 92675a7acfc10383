// GLM-4 (arXiv 2406.12793) in its first form: Llama that rotates neighbouring elements in half of each head, with packed gate and up.
//
//   q, k = [rope(first half), second half];   [gate, up] = gate_up(x),   MLP(x) = down(silu(gate) · up)
#include "mobius/components/decoder.hpp"
#include "mobius/models/family.hpp"

namespace mobius::models {
namespace glm {

using Glm = CausalLM<PreNormLayer<SelfAttention, PackedGatedMLP>>;

DecoderConfig config(const ConfigReader& r) {
  auto c = read_decoder(r, {.vocab_size = 151552,
                            .intermediate_size = 13696,
                            .num_hidden_layers = 40,
                            .num_key_value_heads = 2,
                            .head_dim = 128,
                            .max_position_embeddings = 131072,
                            .rms_norm_eps = 1.5625e-7,
                            .rope = {.partial_rotary_factor = 0.5, .interleaved = true}});
  c.qkv_bias = r.boolean("attention_bias", true);
  return c;
}

}  // namespace glm

Family family_glm() { return {.types = {"glm"}, .build = causal_lm_of<glm::Glm>(glm::config)}; }

}  // namespace mobius::models
