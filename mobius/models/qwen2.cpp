// Qwen2 (arXiv 2407.10671): Llama with biases on q, k and v; optionally sliding windows in the upper layers.
//
//   q, k, v = x·Wq + bq, x·Wk + bk, x·Wv + bv
#include "mobius/components/decoder.hpp"
#include "mobius/models/family.hpp"

namespace mobius::models {
namespace qwen2 {

using Qwen2 = CausalLM<PreNormLayer<SelfAttention, GatedMLP>>;

DecoderConfig config(const ConfigReader& r) {
  auto c = read_decoder(r, {.vocab_size = 151936, .intermediate_size = 22016, .num_key_value_heads = 32, .max_position_embeddings = 32768});
  c.qkv_bias = true;
  set_window_above(c, r);
  return c;
}

}  // namespace qwen2

Family family_qwen2() { return {.types = {"qwen2"}, .ignorable = {"*.rotary_emb.inv_freq"}, .build = causal_lm_of<qwen2::Qwen2>(qwen2::config)}; }

}  // namespace mobius::models
