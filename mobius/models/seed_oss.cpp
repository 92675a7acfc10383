// Seed-OSS (ByteDance; transformers modeling_seed_oss.py): Llama with biases on q, k and v, and of their own choice on the attention's output and the MLP.
//
//   q, k, v = x·Wq + bq, x·Wk + bk, x·Wv + bv;   o·Wo (+ bo)
#include "mobius/components/decoder.hpp"
#include "mobius/models/family.hpp"

namespace mobius::models {
namespace seed_oss {

using SeedOss = CausalLM<PreNormLayer<SelfAttention, GatedMLP>>;

DecoderConfig config(const ConfigReader& r) {
  auto c = read_decoder(r, {.vocab_size = 155136,
                            .intermediate_size = 27648,
                            .num_hidden_layers = 64,
                            .num_attention_heads = 80,
                            .num_key_value_heads = 8,
                            .head_dim = 128,
                            .max_position_embeddings = 524288});
  c.qkv_bias = r.boolean("attention_bias", true);
  c.o_bias = r.boolean("attention_out_bias", false);
  c.mlp_bias = r.boolean("mlp_bias", false);
  return c;
}

}  // namespace seed_oss

Family family_seed_oss() { return {.types = {"seed_oss"}, .build = causal_lm_of<seed_oss::SeedOss>(seed_oss::config)}; }

}  // namespace mobius::models
