// Persimmon (Adept 2023; transformers modeling_persimmon.py): LayerNorm, also of each query and key head; rotary positions on a part of each head; a
// squared ReLU.
//
//   q, k = rope(LN(x·Wq)), rope(LN(x·Wk));   MLP(x) = down(relu(up(x))²)
#include "mobius/components/layer_norm_decoder.hpp"
#include "mobius/models/family.hpp"

namespace mobius::models {
namespace persimmon {

struct Config : DecoderConfig {
  bool qk_layernorm = true;
};

struct Attention : Module<Attention, Config> {
  std::int64_t layer;
  Attention(Scope s, const Config& c, std::int64_t layer_index) : Module(std::move(s), c), layer(layer_index) {}

  QKV query_key_value = fused_qkv(scope / "query_key_value", cfg);
  LayerNorm q_layernorm{scope / "q_layernorm", cfg.head_dim, cfg.rms_norm_eps};
  LayerNorm k_layernorm{scope / "k_layernorm", cfg.head_dim, cfg.rms_norm_eps};
  Linear dense{scope / "dense", cfg.q_size(), cfg.hidden_size, true};

  Tensor forward(Tensor x, Decode& at) const {
    auto [q, k, v] = query_key_value(x);
    if (cfg.qk_layernorm) {
      q = per_head(q_layernorm, q, cfg.num_attention_heads);
      k = per_head(k_layernorm, k, cfg.num_key_value_heads);
    }
    q = at.rope(q, cfg.num_attention_heads, cfg.rope);
    k = at.rope(k, cfg.num_key_value_heads, cfg.rope);
    return dense(at.attend(q, k, v, attention_spec(cfg, layer)));
  }
};

struct Layer : Module<Layer, Config> {
  std::int64_t index;
  Layer(Scope s, const Config& c, std::int64_t i) : Module(std::move(s), c), index(i) {}

  LayerNorm input_layernorm{scope / "input_layernorm", cfg.hidden_size, cfg.rms_norm_eps};
  Attention self_attn{scope / "self_attn", cfg, index};
  LayerNorm post_attention_layernorm{scope / "post_attention_layernorm", cfg.hidden_size, cfg.rms_norm_eps};
  FeedForward mlp{scope / "mlp", {"dense_h_to_4h", "dense_4h_to_h"}, cfg};

  Tensor forward(Tensor x, Decode& at) const {
    const auto h = x + self_attn(input_layernorm(x), at);
    return h + mlp(post_attention_layernorm(h));
  }
};

struct Persimmon : Module<Persimmon, Config> {
  using Module::Module;
  Scope model = (scope / "model").or_left_out();
  Scope head = scope / "lm_head";

  Embedding embed_tokens = token_embedding(model / "embed_tokens", cfg, head);
  std::vector<Layer> layers = layers_of<Layer>(model / "layers", cfg);
  LayerNorm final_layernorm{model / "final_layernorm", cfg.hidden_size, cfg.rms_norm_eps};
  Linear lm_head = vocabulary_head(head, cfg, embed_tokens);

  Tensor forward(Tensor input_ids, Decode& at) const {
    auto x = embed_tokens(input_ids);
    for (const auto& layer : layers) x = layer(x, at);
    return lm_head(final_layernorm(x));
  }
};

Config config(const ConfigReader& r) {
  Config c{read_decoder(r, {.vocab_size = 262144,
                            .intermediate_size = 16384,
                            .num_hidden_layers = 36,
                            .num_attention_heads = 64,
                            .max_position_embeddings = 16384,
                            .rms_norm_eps = 1e-5,
                            .hidden_act = "relu2",
                            .rope = {.partial_rotary_factor = 0.5},
                            .own_names = {{"rms_norm_eps", "layer_norm_eps"}}})};
  c.num_key_value_heads = c.num_attention_heads;
  c.qkv_bias = c.mlp_bias = true;
  c.qk_layernorm = r.boolean("qk_layernorm", true);
  return c;
}

}  // namespace persimmon

Family family_persimmon() {
  return {.types = {"persimmon"}, .ignorable = {"*.rotary_emb.inv_freq"}, .build = causal_lm_of<persimmon::Persimmon>(persimmon::config)};
}

}  // namespace mobius::models
