// Qwen3 (arXiv 2505.09388): a Llama-style decoder whose query and key heads are RMS-normalised before they are rotated.
//
//   q, k = rope(RMSNorm(x·Wq)), rope(RMSNorm(x·Wk))
#include "mobius/components/decoder.hpp"
#include "mobius/models/family.hpp"

namespace mobius::models {
namespace qwen3 {

using Qwen3 = CausalLM<PreNormLayer<HeadNormAttention, GatedMLP>>;

DecoderConfig config(const ConfigReader& r) {
  auto c = read_decoder(r, {.vocab_size = 151936, .intermediate_size = 22016, .num_key_value_heads = 32, .head_dim = 128, .max_position_embeddings = 32768});
  c.qkv_bias = c.o_bias = r.boolean("attention_bias", false);
  set_window_above(c, r);
  return c;
}

}  // namespace qwen3

Family family_qwen3() { return {.types = {"qwen3"}, .build = causal_lm_of<qwen3::Qwen3>(qwen3::config)}; }

}  // namespace mobius::models
