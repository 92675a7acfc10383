// Llama (arXiv 2302.13971, 2307.09288): pre-norm RMSNorm, rotary positions, grouped-query attention, SiLU-gated MLP.
//
//   h = x + Attention(RMSNorm(x));   y = h + SwiGLU(RMSNorm(h)),   SwiGLU(x) = down(silu(gate(x)) · up(x))
#include "mobius/components/decoder.hpp"
#include "mobius/models/family.hpp"

namespace mobius::models {
namespace llama {

using Llama = CausalLM<PreNormLayer<SelfAttention, GatedMLP>>;

DecoderConfig config(const ConfigReader& r) {
  auto c = read_decoder(r, {});
  c.qkv_bias = c.o_bias = r.boolean("attention_bias", false);
  c.mlp_bias = r.boolean("mlp_bias", false);
  return c;
}

}  // namespace llama

Family family_llama() { return {.types = {"llama", "code_llama"}, .ignorable = {"*.rotary_emb.inv_freq"}, .build = causal_lm_of<llama::Llama>(llama::config)}; }

}  // namespace mobius::models
