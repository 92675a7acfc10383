// What the Gemma models share: embeddings scaled by √hidden_size, norms that multiply by 1 + weight, scores and logits with soft caps.
//
//   x = √hidden_size · embed(ids);   scores = cap(q · k / √query_pre_attn_scalar);   logits = cap(head(norm(layers(x))))
//
//   using Gemma2 = GemmaLM<SandwichNormLayer<GemmaAttention, GatedMLP, GemmaConfig>, GemmaConfig>;
#pragma once
#include <cmath>

#include "mobius/components/decoder.hpp"

namespace mobius {

struct GemmaConfig : LayeredConfig {
  double query_pre_attn_scalar = 0;
  std::optional<double> attention_softcap = {}, logits_softcap = {};
};

inline AttentionSpec attention_spec(const GemmaConfig& cfg, std::int64_t layer) {
  auto spec = attention_spec(static_cast<const DecoderConfig&>(cfg), layer);
  spec.scale = 1 / std::sqrt(cfg.query_pre_attn_scalar);
  spec.softcap = cfg.attention_softcap.value_or(0);
  return spec;
}

using GemmaAttention = RotaryAttention<GemmaConfig>;

// h = x + norm(Attention(norm(x)));   y = h + norm(MLP(norm(h)))
template <class Attention, class MLP, class Config>
struct SandwichNormLayer : Module<SandwichNormLayer<Attention, MLP, Config>, Config> {
  using Base = Module<SandwichNormLayer, Config>;
  using Base::cfg, Base::scope;
  std::int64_t layer;
  SandwichNormLayer(Scope s, const Config& c, std::int64_t layer_index) : Base(std::move(s), c), layer(layer_index) {}

  nn::OffsetRMSNorm input_layernorm{scope / "input_layernorm", cfg.hidden_size, cfg.rms_norm_eps};
  Attention self_attn{scope / "self_attn", cfg, layer};
  nn::OffsetRMSNorm post_attention_layernorm{scope / "post_attention_layernorm", cfg.hidden_size, cfg.rms_norm_eps};
  nn::OffsetRMSNorm pre_feedforward_layernorm{scope / "pre_feedforward_layernorm", cfg.hidden_size, cfg.rms_norm_eps};
  MLP mlp{scope / "mlp", cfg};
  nn::OffsetRMSNorm post_feedforward_layernorm{scope / "post_feedforward_layernorm", cfg.hidden_size, cfg.rms_norm_eps};

  Tensor forward(Tensor x, Decode& at) const {
    const auto h = x + post_attention_layernorm(self_attn(input_layernorm(x), at));
    return h + post_feedforward_layernorm(mlp(pre_feedforward_layernorm(h)));
  }
};

template <class Layer, class Config>
struct GemmaLM : Module<GemmaLM<Layer, Config>, Config> {
  using Base = Module<GemmaLM, Config>;
  using Base::cfg, Base::scope;
  GemmaLM(Scope s, const Config& c) : Base(std::move(s), c) {}

  DecoderStack<Layer, Config, nn::OffsetRMSNorm> model{scope / "model", cfg, scope / "lm_head"};
  Linear lm_head = model.make_head();

  Tensor forward(Tensor input_ids, Decode& at) const {
    const auto x = model.embed_tokens(input_ids) * std::sqrt(static_cast<double>(cfg.hidden_size));
    return nn::softcap(lm_head(model(x, at)), cfg.logits_softcap);
  }
};

// The keys of Gemma 2 and those after it. Windows and ropes are left to the family.
inline GemmaConfig read_gemma(const ConfigReader& r, DecoderDefaults defaults) {
  defaults.own_names.emplace_back("hidden_act", "hidden_activation");
  GemmaConfig c{{read_decoder_without_rope(r, defaults), {}}};
  c.hidden_act = r.text("hidden_activation", "gelu_pytorch_tanh");
  c.qkv_bias = c.o_bias = r.boolean("attention_bias", false);
  c.query_pre_attn_scalar = r.positive("query_pre_attn_scalar", 256);
  r.only("use_bidirectional_attention", false);
  return c;
}

}  // namespace mobius
