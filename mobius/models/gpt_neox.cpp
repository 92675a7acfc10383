// GPT-NeoX (arXiv 2204.06745): rotary positions on a part of each head, and attention and MLP side by side.
//
//   y = x + Attention(LN₁(x)) + MLP(LN₂(x))
//
// GPT-NeoX Japanese (ABEJA 2022) has them one after the other, and no biases but one behind the last layer's attention.
#include "mobius/components/layer_norm_decoder.hpp"
#include "mobius/models/family.hpp"

namespace mobius::models {
namespace gpt_neox {

struct Config : DecoderConfig {
  bool parallel = true;
  bool last_dense_bias = false;  // Japanese: the last layer's attention has a bias of its own
};

struct Attention : Module<Attention, Config> {
  std::int64_t layer;
  Attention(Scope s, const Config& c, std::int64_t layer_index) : Module(std::move(s), c), layer(layer_index) {}

  QKV query_key_value = fused_qkv(scope / "query_key_value", cfg);
  Linear dense = output();

  Tensor forward(Tensor x, Decode& at) const {
    auto [q, k, v] = query_key_value(x);
    q = at.rope(q, cfg.num_attention_heads, cfg.rope);
    k = at.rope(k, cfg.num_key_value_heads, cfg.rope);
    return dense(at.attend(q, k, v, attention_spec(cfg, layer)));
  }

  Linear output() const {
    if (!cfg.last_dense_bias || layer + 1 < cfg.num_hidden_layers) return {scope / "dense", cfg.q_size(), cfg.hidden_size, cfg.o_bias};
    return {scope / "dense", Parameter(scope / "dense" / "weight", {cfg.hidden_size, cfg.q_size()}), Parameter(scope / "dense_bias", {cfg.hidden_size})};
  }
};

struct Layer : Module<Layer, Config> {
  std::int64_t index;
  Layer(Scope s, const Config& c, std::int64_t i) : Module(std::move(s), c), index(i) {}

  LayerNorm input_layernorm{scope / "input_layernorm", cfg.hidden_size, cfg.rms_norm_eps};
  Attention attention{scope / "attention", cfg, index};
  LayerNorm post_attention_layernorm{scope / "post_attention_layernorm", cfg.hidden_size, cfg.rms_norm_eps};
  FeedForward mlp{scope / "mlp", {"dense_h_to_4h", "dense_4h_to_h"}, cfg};

  Tensor forward(Tensor x, Decode& at) const {
    const auto h = x + attention(input_layernorm(x), at);
    return h + mlp(post_attention_layernorm(cfg.parallel ? x : h));
  }
};

struct GPTNeoX : Module<GPTNeoX, Config> {
  using Module::Module;
  Scope body = (scope / cfg.model_type).or_left_out();
  Scope head = scope / "embed_out";

  Embedding embed_in{body / "embed_in", cfg.vocab_size, cfg.hidden_size, cfg.tie_word_embeddings ? head_names() : std::vector<std::string>()};
  std::vector<Layer> layers = layers_of<Layer>(body / "layers", cfg);
  LayerNorm final_layer_norm{body / "final_layer_norm", cfg.hidden_size, cfg.rms_norm_eps};
  Linear embed_out{head, cfg.tie_word_embeddings ? embed_in.weight() : Parameter(head / "weight", {cfg.vocab_size, cfg.hidden_size}, {"lm_head.weight"})};

  Tensor forward(Tensor input_ids, Decode& at) const {
    auto x = embed_in(input_ids);
    for (const auto& layer : layers) x = layer(x, at);
    return embed_out(final_layer_norm(x));
  }

  // Since version 5 transformers calls NeoX's head like everybody's.
  static std::vector<std::string> head_names() { return {"embed_out.weight", "lm_head.weight"}; }
};

Config config(const ConfigReader& r) {
  const bool japanese = r.model_type() == "gpt_neox_japanese";
  DecoderDefaults defaults{.vocab_size = 50432,
                           .hidden_size = 6144,
                           .intermediate_size = 24576,
                           .num_hidden_layers = 44,
                           .num_attention_heads = 64,
                           .max_position_embeddings = 2048,
                           .rms_norm_eps = 1e-5,
                           .hidden_act = "gelu",
                           .tie_word_embeddings = japanese,
                           .rope = {.theta = r.positive("rotary_emb_base", 10000), .partial_rotary_factor = r.positive("rotary_pct", japanese ? 1 : 0.25)},
                           .own_names = {{"rms_norm_eps", "layer_norm_eps"}}};
  if (japanese) {
    defaults.vocab_size = 32000;
    defaults.hidden_size = 2560;
    defaults.num_hidden_layers = defaults.num_attention_heads = 32;
  }
  Config c{read_decoder(r, defaults)};
  if (japanese) {
    c.intermediate_size = static_cast<std::int64_t>(static_cast<double>(c.hidden_size) * r.positive("intermediate_multiple_size", 4));
    c.last_dense_bias = true;
    c.parallel = false;
  } else {
    c.mlp_bias = true;
    c.qkv_bias = c.o_bias = r.boolean("attention_bias", true);
    c.parallel = r.boolean("use_parallel_residual", true);
  }
  return c;
}

}  // namespace gpt_neox

Family family_gpt_neox() {
  return {.types = {"gpt_neox", "gpt_neox_japanese"},
          .ignorable = {"*.attention.bias", "*.attention.masked_bias", "*.rotary_emb.inv_freq"},
          .build = causal_lm_of<gpt_neox::GPTNeoX>(gpt_neox::config)};
}

}  // namespace mobius::models
