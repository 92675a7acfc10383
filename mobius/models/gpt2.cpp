// GPT-2 (Radford et al. 2019): learned positions, LayerNorm before attention and MLP, a tied head.
//
//   x = wte[token] + wpe[position];   h = x + Attention(LN(x));   y = h + MLP(LN(h))
//
// Image GPT (Chen et al. 2020) has RMSNorm in place of LayerNorm, and a head of its own without the token that starts an image.
#include <cmath>

#include "mobius/components/layer_norm_decoder.hpp"
#include "mobius/models/family.hpp"

namespace mobius::models {
namespace gpt2 {

struct Config : DecoderConfig {
  std::int64_t logits = 0;      // per token
  bool scale = true;            // by 1/√head_dim
  bool scale_by_layer = false;  // also by 1/(layer + 1)
};

struct Attention : Module<Attention, Config> {
  std::int64_t layer;
  Attention(Scope s, const Config& c, std::int64_t layer_index) : Module(std::move(s), c), layer(layer_index) {}

  Projections<Conv1D> c_attn = joined_conv1d(scope / "c_attn", cfg);
  Conv1D c_proj{scope / "c_proj", cfg.q_size(), cfg.hidden_size};

  Tensor forward(Tensor x, Decode& at) const {
    auto spec = attention_spec(cfg, layer);
    spec.scale = (cfg.scale ? 1 / std::sqrt(static_cast<double>(cfg.head_dim)) : 1) / (cfg.scale_by_layer ? static_cast<double>(layer + 1) : 1);
    const auto [q, k, v] = c_attn(x);
    return c_proj(at.attend(q, k, v, spec));
  }
};

template <class Norm>
struct GPT2 : Module<GPT2<Norm>, Config> {
  using Base = Module<GPT2, Config>;
  using Base::cfg, Base::scope;
  using Layer = PreNormLayer<Attention, Conv1DFeedForward, Config, Norm, GptLayerNames>;
  GPT2(Scope s, const Config& c) : Base(std::move(s), c) {}

  GptStack<Layer, Config, Norm> body{scope, cfg};
  Linear lm_head = cfg.tie_word_embeddings ? Linear(body.head, body.wte.weight()) : Linear(body.head, cfg.hidden_size, cfg.logits);

  Tensor forward(Tensor input_ids, Decode& at) const { return lm_head(body(input_ids, at)); }
};

Config config(const ConfigReader& r) {
  const bool image = r.model_type() == "imagegpt";
  DecoderDefaults defaults{.vocab_size = 50257,
                           .hidden_size = 768,
                           .num_hidden_layers = 12,
                           .num_attention_heads = 12,
                           .max_position_embeddings = 1024,
                           .rms_norm_eps = 1e-5,
                           .hidden_act = "gelu_new",
                           .tie_word_embeddings = true,
                           .own_names = gpt_names};
  if (image) {
    defaults.vocab_size = 513;
    defaults.hidden_size = 512;
    defaults.num_hidden_layers = 24;
    defaults.num_attention_heads = 8;
    defaults.hidden_act = "quick_gelu";
    defaults.tie_word_embeddings = false;
  }
  Config c{read_decoder_without_rope(r, defaults)};
  if (image) r.only("tie_word_embeddings", false);
  c.logits = image ? c.vocab_size - 1 : c.vocab_size;
  c.intermediate_size = r.optional_size("n_inner").value_or(4 * c.hidden_size);
  c.scale = r.boolean("scale_attn_weights", true);
  c.scale_by_layer = r.boolean("scale_attn_by_inverse_layer_idx", false);
  r.only("add_cross_attention", false);
  return c;
}

std::vector<Component> build(const ConfigReader& r, ir::DataType dtype) {
  return r.model_type() == "imagegpt" ? causal_lm_of<GPT2<RMSNorm>>(config)(r, dtype) : causal_lm_of<GPT2<LayerNorm>>(config)(r, dtype);
}

}  // namespace gpt2

Family family_gpt2() { return {.types = {"gpt2", "gpt-sw3", "imagegpt"}, .ignorable = {"*.attn.bias", "*.attn.masked_bias"}, .build = gpt2::build}; }

}  // namespace mobius::models
