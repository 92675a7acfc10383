// Youtu-LLM (Tencent; transformers modeling_youtu.py): a dense decoder with DeepSeek's latent attention.
//
//   cq = RMSNorm(x·Wqa),  q = [cq·Wqb, rope(cq·Wqr)];   ck = RMSNorm(x·Wka),  k = [ck·Wkb, rope(x·Wkr)],  v = ck·Wvb
#include "mobius/components/latent_attention.hpp"
#include "mobius/models/family.hpp"

namespace mobius::models {
namespace youtu {

using Youtu = CausalLM<PreNormLayer<LatentAttention, GatedMLP, LatentConfig>, LatentConfig>;

LatentConfig config(const ConfigReader& r) {
  LatentConfig c{{{read_decoder_without_rope(r, {.vocab_size = 128256,
                                                 .hidden_size = 2048,
                                                 .intermediate_size = 6144,
                                                 .num_attention_heads = 16,
                                                 .num_key_value_heads = 16,
                                                 .max_position_embeddings = 131072,
                                                 .tie_word_embeddings = true})}}};
  read_latent_attention(c, r, {.rope = {.interleaved = r.boolean("rope_interleave", true)}});
  return c;
}

}  // namespace youtu

Family family_youtu() { return {.types = {"youtu"}, .build = causal_lm_of<youtu::Youtu>(youtu::config)}; }

}  // namespace mobius::models
