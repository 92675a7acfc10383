// Hunyuan V1 dense (Tencent; transformers modeling_hunyuan_v1_dense.py): Llama whose query and key heads are RMS-normalised after they are rotated.
//
//   q, k = RMSNorm(rope(x·Wq)), RMSNorm(rope(x·Wk))
#include "mobius/components/decoder.hpp"
#include "mobius/models/family.hpp"

namespace mobius::models {
namespace hunyuan_v1_dense {

struct Attention : AttentionProjections<Attention> {
  using AttentionProjections::AttentionProjections;

  RMSNorm query_layernorm{scope / "query_layernorm", cfg.head_dim, cfg.rms_norm_eps};
  RMSNorm key_layernorm{scope / "key_layernorm", cfg.head_dim, cfg.rms_norm_eps};

  Tensor forward(Tensor x, Decode& at) const {
    const auto q = per_head(query_layernorm, at.rope(q_proj(x), cfg.num_attention_heads, cfg.rope), cfg.num_attention_heads);
    const auto k = per_head(key_layernorm, at.rope(k_proj(x), cfg.num_key_value_heads, cfg.rope), cfg.num_key_value_heads);
    return o_proj(at.attend(q, k, v_proj(x), attention_spec(cfg, layer)));
  }
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
