// GPT-BigCode, SantaCoder and StarCoder (arXiv 2305.06161): GPT-2 whose query heads share a single key and value head.
//
//   oₕ = softmax(qₕ·k / √d)·v   for every head h, with one k and v
#include "mobius/components/layer_norm_decoder.hpp"
#include "mobius/models/family.hpp"

namespace mobius::models {
namespace gpt_bigcode {

struct Config : DecoderConfig {
  bool scale = true;  // by 1/√head_dim
};

struct Attention : Module<Attention, Config> {
  std::int64_t layer;
  Attention(Scope s, const Config& c, std::int64_t layer_index) : Module(std::move(s), c), layer(layer_index) {}

  QKV c_attn = fused_qkv(scope / "c_attn", cfg);
  Linear c_proj{scope / "c_proj", cfg.q_size(), cfg.hidden_size, true};

  Tensor forward(Tensor x, Decode& at) const {
    auto spec = attention_spec(cfg, layer);
    if (!cfg.scale) spec.scale = 1;
    const auto [q, k, v] = c_attn(x);
    return c_proj(at.attend(q, k, v, spec));
  }
};

using Layer = PreNormLayer<Attention, GptFeedForward, Config, LayerNorm, GptLayerNames>;

struct BigCode : Module<BigCode, Config> {
  using Module::Module;

  GptStack<Layer, Config> body{scope, cfg};
  Linear lm_head = vocabulary_head(body.head, cfg, body.wte);

  Tensor forward(Tensor input_ids, Decode& at) const { return lm_head(body(input_ids, at)); }
};

Config config(const ConfigReader& r) {
  Config c{read_decoder_without_rope(r, {.vocab_size = 50257,
                                         .hidden_size = 768,
                                         .num_hidden_layers = 12,
                                         .num_attention_heads = 12,
                                         .max_position_embeddings = 1024,
                                         .rms_norm_eps = 1e-5,
                                         .hidden_act = "gelu_pytorch_tanh",
                                         .tie_word_embeddings = true,
                                         .own_names = gpt_names})};
  // The number of key heads follows from one switch, whatever else the config says.
  c.num_key_value_heads = r.boolean("multi_query", true) ? 1 : c.num_attention_heads;
  c.intermediate_size = r.optional_size("n_inner").value_or(4 * c.hidden_size);
  c.qkv_bias = c.mlp_bias = true;
  c.scale = r.boolean("scale_attn_weights", true);
  r.only("add_cross_attention", false);
  return c;
}

}  // namespace gpt_bigcode

Family family_gpt_bigcode() {
  return {.types = {"gpt_bigcode"}, .ignorable = {"*.attn.bias", "*.attn.masked_bias"}, .build = causal_lm_of<gpt_bigcode::BigCode>(gpt_bigcode::config)};
}

}  // namespace mobius::models
