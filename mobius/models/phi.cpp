// Phi-1 (arXiv 2306.11644) and Phi-2: one LayerNorm for attention and MLP, which stand side by side; rotary positions on a part of each head;
// biases everywhere, the head included.
//
//   y = x + Attention(LN(x)) + MLP(LN(x))
#include "mobius/components/layer_norm_decoder.hpp"
#include "mobius/models/family.hpp"

namespace mobius::models {
namespace phi {

struct Config : DecoderConfig {
  bool qk_layernorm = false;
};

struct Attention : Module<Attention, Config> {
  std::int64_t layer;
  Attention(Scope s, const Config& c, std::int64_t layer_index) : Module(std::move(s), c), layer(layer_index) {}

  QKV qkv = separate_qkv(scope, cfg);
  LayerNorm q_layernorm{scope / "q_layernorm", cfg.head_dim, cfg.rms_norm_eps};
  LayerNorm k_layernorm{scope / "k_layernorm", cfg.head_dim, cfg.rms_norm_eps};
  Linear dense{scope / "dense", cfg.q_size(), cfg.hidden_size, true};

  Tensor forward(Tensor x, Decode& at) const {
    auto [q, k, v] = qkv(x);
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
  FeedForward mlp{scope / "mlp", {"fc1", "fc2"}, cfg};

  Tensor forward(Tensor x, Decode& at) const {
    const auto n = input_layernorm(x);
    const auto h = x + self_attn(n, at);
    return h + mlp(n);
  }
};

struct Phi : Module<Phi, Config> {
  using Module::Module;
  Scope model = (scope / "model").or_left_out();
  Scope head = scope / "lm_head";

  Embedding embed_tokens = token_embedding(model / "embed_tokens", cfg, head);
  std::vector<Layer> layers = layers_of<Layer>(model / "layers", cfg);
  LayerNorm final_layernorm{model / "final_layernorm", cfg.hidden_size, cfg.rms_norm_eps};
  Linear lm_head = vocabulary_head(head, cfg, embed_tokens, true);

  Tensor forward(Tensor input_ids, Decode& at) const {
    auto x = embed_tokens(input_ids);
    for (const auto& layer : layers) x = layer(x, at);
    return lm_head(final_layernorm(x));
  }
};

Config config(const ConfigReader& r) {
  Config c{read_decoder(r, {.vocab_size = 51200,
                            .hidden_size = 2048,
                            .intermediate_size = 8192,
                            .num_hidden_layers = 24,
                            .rms_norm_eps = 1e-5,
                            .hidden_act = "gelu_new",
                            .rope = {.partial_rotary_factor = 0.5},
                            .own_names = {{"rms_norm_eps", "layer_norm_eps"}}})};
  c.qkv_bias = c.mlp_bias = true;
  c.qk_layernorm = r.boolean("qk_layernorm", false);
  return c;
}

}  // namespace phi

Family family_phi() { return {.types = {"phi"}, .ignorable = {"*.rotary_emb.inv_freq"}, .build = causal_lm_of<phi::Phi>(phi::config)}; }

}  // namespace mobius::models
