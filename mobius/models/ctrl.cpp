// CTRL (arXiv 1909.05858): sinusoidal positions, embeddings scaled by √hidden, LayerNorm before attention and MLP.
//
//   x = √hidden · embed[token] + [sin, cos](position · 10000^(−2i/hidden));   h = x + Attention(LN(x));   y = h + MLP(LN(h))
#include <cmath>

#include "mobius/components/layer_norm_decoder.hpp"
#include "mobius/models/family.hpp"

namespace mobius::models {
namespace ctrl {

struct Layer : Module<Layer, DecoderConfig> {
  static constexpr double eps = 1e-6;  // that of the config holds for the norm at the end only
  std::int64_t index;
  Layer(Scope s, const DecoderConfig& c, std::int64_t i) : Module(std::move(s), c), index(i) {}

  LayerNorm layernorm1{scope / "layernorm1", cfg.hidden_size, eps};
  UnrotatedAttention multi_head_attention{scope / "multi_head_attention", cfg, index, {.q = "Wq", .k = "Wk", .v = "Wv", .o = "dense"}};
  LayerNorm layernorm2{scope / "layernorm2", cfg.hidden_size, eps};
  FeedForward ffn{scope / "ffn", {"0", "2"}, cfg};

  Tensor forward(Tensor x, Decode& at) const {
    const auto h = x + multi_head_attention(layernorm1(x), at);
    return h + ffn(layernorm2(h));
  }
};

struct CTRL : Module<CTRL, DecoderConfig> {
  using Module::Module;
  Scope transformer = (scope / "transformer").or_left_out();
  Scope head = scope / "lm_head";

  Embedding w = token_embedding(transformer / "w", cfg, head);
  Embedding pos_encoding{transformer / "pos_encoding", sinusoids(transformer / "pos_encoding", cfg.max_position_embeddings, frequencies())};
  std::vector<Layer> h = layers_of<Layer>(transformer / "h", cfg);
  LayerNorm layernorm{transformer / "layernorm", cfg.hidden_size, cfg.rms_norm_eps};
  Linear lm_head = vocabulary_head(head, cfg, w, true);

  Tensor forward(Tensor input_ids, Decode& at) const {
    auto x = w(input_ids) * std::sqrt(static_cast<double>(cfg.hidden_size));
    x = x + learned_positions(pos_encoding, at);
    for (const auto& layer : h) x = layer(x, at);
    return lm_head(layernorm(x));
  }

  // 10000^(−2i/hidden)
  std::vector<float> frequencies() const {
    std::vector<float> out;
    for (std::int64_t i = 0; i < cfg.hidden_size; i += 2) out.push_back(1 / std::pow(10000.0f, static_cast<float>(i) / static_cast<float>(cfg.hidden_size)));
    return out;
  }
};

DecoderConfig config(const ConfigReader& r) {
  auto names = gpt_names;
  names.emplace_back("intermediate_size", "dff");
  auto c = read_decoder_without_rope(r, {.vocab_size = 246534,
                                         .hidden_size = 1280,
                                         .intermediate_size = 8192,
                                         .num_hidden_layers = 48,
                                         .num_attention_heads = 16,
                                         .max_position_embeddings = 256,
                                         .rms_norm_eps = 1e-6,
                                         .tie_word_embeddings = true,
                                         .own_names = names});
  c.hidden_act = "relu";
  c.qkv_bias = c.o_bias = c.mlp_bias = true;
  if (c.hidden_size % 2 != 0) r.refuse("n_embd", std::to_string(c.hidden_size), "an even number");
  return c;
}

}  // namespace ctrl

Family family_ctrl() { return {.types = {"ctrl"}, .ignorable = {"*.pos_encoding"}, .build = causal_lm_of<ctrl::CTRL>(ctrl::config)}; }

}  // namespace mobius::models
