// Hunyuan V1 dense (Tencent; transformers modeling_hunyuan_v1_dense.py): Llama whose query and key heads are RMS-normalised after they are rotated.
//
//   q, k = RMSNorm(rope(x·Wq)), RMSNorm(rope(x·Wk))
#include "mobius/components/decoder.hpp"
#include "mobius/models/family.hpp"

namespace mobius::models {
namespace hunyuan_v1_dense {

struct Attention : RotatedThenNormedAttention<> {
  Attention(Scope s, const DecoderConfig& c, std::int64_t layer_index)
      : RotatedThenNormedAttention(std::move(s), c, layer_index, {.q_norm = "query_layernorm", .k_norm = "key_layernorm"}) {}
};

using HunYuan = CausalLM<PreNormLayer<Attention, GatedMLP>>;

DecoderConfig config(const ConfigReader& r) {
  auto c = read_decoder(r, {.vocab_size = 290943, .rms_norm_eps = 1e-5, .rope = {.fixed_alpha = true}});
  c.qkv_bias = c.o_bias = r.boolean("attention_bias", false);
  return c;
}

}  // namespace hunyuan_v1_dense

Family family_hunyuan_v1_dense() { return {.types = {"hunyuan_v1_dense"}, .build = causal_lm_of<hunyuan_v1_dense::HunYuan>(hunyuan_v1_dense::config)}; }

}  // namespace mobius::models
