// OLMo (arXiv 2402.00838): Llama whose norms are LayerNorm without weight and bias, and whose q, k and v may be clipped.
//
//   q, k, v ← clip(q, −c, c), clip(k, −c, c), clip(v, −c, c),   c = clip_qkv
#include "mobius/components/decoder.hpp"
#include "mobius/models/family.hpp"

namespace mobius::models {
namespace olmo {

struct Config : DecoderConfig {
  std::optional<double> clip_qkv;
};

struct Attention : AttentionProjections<Attention, Config> {
  using AttentionProjections::AttentionProjections;

  Tensor forward(Tensor x, Decode& at) const {
    const auto q = at.rope(clipped(q_proj(x)), cfg.num_attention_heads, cfg.rope);
    const auto k = at.rope(clipped(k_proj(x)), cfg.num_key_value_heads, cfg.rope);
    return o_proj(at.attend(q, k, clipped(v_proj(x)), attention_spec(cfg, layer)));
  }

  Tensor clipped(Tensor x) const { return cfg.clip_qkv ? clip(x, -*cfg.clip_qkv, *cfg.clip_qkv) : x; }
};

using Olmo = CausalLM<PreNormLayer<Attention, GatedMLP, Config, nn::UnweightedLayerNorm>, Config, nn::UnweightedLayerNorm>;

Config config(const ConfigReader& r) {
  Config c{read_decoder(r, {.vocab_size = 50304}), {}};
  c.rms_norm_eps = 1e-5;  // fixed: the type has no such key
  c.qkv_bias = c.o_bias = r.boolean("attention_bias", false);
  c.clip_qkv = r.nullable_positive("clip_qkv", std::nullopt);
  return c;
}

}  // namespace olmo

Family family_olmo() { return {.types = {"olmo"}, .build = causal_lm_of<olmo::Olmo>(olmo::config)}; }

}  // namespace mobius::models
