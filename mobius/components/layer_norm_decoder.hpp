// The parts of decoders in GPT's line: LayerNorm, biases, an ungated MLP, projections of queries, keys and values stored as one.
//
//   QKV qkv = fused_qkv(scope / "query_key_value", cfg);
//   FeedForward mlp{scope / "mlp", {"fc1", "fc2"}, cfg};
//
//   Tensor forward(Tensor x, Decode& at) const {
//     const auto [q, k, v] = qkv(input_layernorm(x));
//     const auto h = x + dense(at.attend(q, k, v, attention_spec(cfg, layer)));
//     return h + mlp(post_attention_layernorm(h));
//   }
//
// What differs between the families of this line, names above all, stands in their own files. At the end: what a few of them share.
#pragma once
#include <array>
#include <optional>
#include <string_view>
#include <vector>

#include "mobius/components/decoder.hpp"

namespace mobius {

using nn::Conv1D;
using nn::LayerNorm;

// What GPT-2 and its kin call the common keys.
inline const std::vector<std::pair<std::string_view, std::string_view>> gpt_names{{"hidden_size", "n_embd"},
                                                                                  {"num_hidden_layers", "n_layer"},
                                                                                  {"num_attention_heads", "n_head"},
                                                                                  {"hidden_act", "activation_function"},
                                                                                  {"rms_norm_eps", "layer_norm_epsilon"},
                                                                                  {"max_position_embeddings", "n_positions"}};

// down(act(up(x))), the activation of the config.
struct FeedForward {
  std::string_view act;
  Linear up, down;

  // The projections' names below `at`.
  struct Names {
    std::string_view up, down;
  };
  FeedForward(const Scope& at, Names names, const DecoderConfig& cfg)
      : act(cfg.hidden_act),
        up(at / names.up, cfg.hidden_size, cfg.intermediate_size, cfg.mlp_bias),
        down(at / names.down, cfg.intermediate_size, cfg.hidden_size, cfg.mlp_bias) {}

  Tensor operator()(Tensor x) const { return down(nn::activation(act, up(x))); }
};

// The same with weights that are stored [in, out], as GPT and GPT-2 have it, under their names.
struct Conv1DFeedForward {
  std::string_view act;
  Conv1D c_fc, c_proj;

  Conv1DFeedForward(const Scope& at, const DecoderConfig& cfg)
      : act(cfg.hidden_act), c_fc(at / "c_fc", cfg.hidden_size, cfg.intermediate_size), c_proj(at / "c_proj", cfg.intermediate_size, cfg.hidden_size) {}

  Tensor operator()(Tensor x) const { return c_proj(nn::activation(act, c_fc(x))); }
};

// The three projections of an attention: [B, S, hidden] -> queries, keys and values [B, S, heads·dim].
template <class Projection>
struct Projections {
  Projection q, k, v;
  std::array<Tensor, 3> operator()(Tensor x) const { return {q(x), k(x), v(x)}; }  // in this order: braces are evaluated from left to right
};
using QKV = Projections<Linear>;

// Three matrices, named q_proj, k_proj, v_proj below `at`.
QKV separate_qkv(const Scope& at, const DecoderConfig& cfg);
// One matrix at `at`, with the heads of each group together: its queries, its key, its value; the next group follows. With as many keys as
// queries that is q, k, v of each head; with a single key all queries, the key, the value. Cut when weights are loaded.
QKV fused_qkv(const Scope& at, const DecoderConfig& cfg);
// One matrix at `at`, all queries, then all keys, then all values.
QKV joined_qkv(const Scope& at, const DecoderConfig& cfg);
// The same stored [in, out].
Projections<Conv1D> joined_conv1d(const Scope& at, const DecoderConfig& cfg);

// LayerNorm of each head of x [B, S, heads·dim] with weights of its own, [heads, dim], and no bias.
Tensor normalise_heads(Tensor x, const Parameter& weight, double eps);

// Learned positions: the rows position + offset of `table`.
Tensor learned_positions(const Embedding& table, const Decode& at, std::int64_t offset = 0);

// Positions that nobody learned: row p is sin(p · f) of all frequencies, then cos(p · f) of all. `zero_row`: one that holds nothing.
Parameter sinusoids(const Scope& name, std::int64_t rows, std::vector<float> frequencies, std::optional<std::int64_t> zero_row = {});

// The slopes of ALiBi (arXiv 2108.12409): powers of 2^(−8/n) for n heads; for other counts than powers of two, those of the next smaller
// power and then every second one of the next larger.
std::vector<double> alibi_slopes(std::int64_t heads);
// −slope · distance, as a bias of the scores [B, heads, S, P + S].
Tensor alibi(Decode& at, const std::vector<double>& slopes);

// Attention between the projections of Phi and Persimmon (transformers modeling_phi.py, modeling_persimmon.py): each query and key head is normalised, if
// the config says so, and rotated.
//   struct Attention : HeadLayerNormAttention {
//     Attention(const Scope& s, const HeadLayerNormConfig& c, std::int64_t layer) : HeadLayerNormAttention(s, c, layer, fused_qkv(s / "query_key_value", c)) {}
//   };
struct HeadLayerNormConfig : DecoderConfig {
  static constexpr std::string_view final_norm = "final_layernorm";
  bool qk_layernorm = false;
};
struct HeadLayerNormAttention : Module<HeadLayerNormAttention, HeadLayerNormConfig> {
  std::int64_t layer;
  QKV qkv;
  HeadLayerNormAttention(Scope s, const HeadLayerNormConfig& c, std::int64_t layer_index, QKV projections)
      : Module(std::move(s), c), layer(layer_index), qkv(std::move(projections)) {}

  LayerNorm q_layernorm{scope / "q_layernorm", cfg.head_dim, cfg.rms_norm_eps};
  LayerNorm k_layernorm{scope / "k_layernorm", cfg.head_dim, cfg.rms_norm_eps};
  Linear dense{scope / "dense", cfg.q_size(), cfg.hidden_size, true};

  Tensor forward(Tensor x, Decode& at) const;
};

// GPT-2's names (GPT-2, GPT-BigCode, GPT-Neo, GPT-J):
//   using Layer = PreNormLayer<Attention, MLP, Config, LayerNorm, GptLayerNames>;
struct GptLayerNames : LayerNames {
  static constexpr std::string_view attention_norm = "ln_1", attention = "attn", mlp_norm = "ln_2";
};
// The MLP of GPT-BigCode, GPT-Neo and StarCoder 2.
struct GptFeedForward : FeedForward {
  GptFeedForward(const Scope& at, const DecoderConfig& cfg) : FeedForward(at, {"c_fc", "c_proj"}, cfg) {}
};

// What GPT-2, GPT-BigCode and GPT-Neo have below the head:  x = wte[token] + wpe[position];   LN(layers(x))
//   GptStack<Layer, Config> body{scope, cfg};
//   Linear lm_head = vocabulary_head(body.head, cfg, body.wte);
//   Tensor forward(Tensor input_ids, Decode& at) const { return lm_head(body(input_ids, at)); }
template <class Layer, class Config, class Norm = LayerNorm>
struct GptStack {
  Scope transformer, head;
  Embedding wte, wpe;
  std::vector<Layer> h;
  Norm ln_f;
  GptStack(const Scope& scope, const Config& cfg)
      : transformer((scope / "transformer").or_left_out()),
        head(scope / "lm_head"),
        wte(token_embedding(transformer / "wte", cfg, head)),
        wpe(transformer / "wpe", cfg.max_position_embeddings, cfg.hidden_size),
        h(layers_of<Layer>(transformer / "h", cfg)),
        ln_f(transformer / "ln_f", cfg.hidden_size, cfg.rms_norm_eps) {}

  Tensor operator()(Tensor input_ids, Decode& at) const {
    auto x = wte(input_ids);
    x = x + learned_positions(wpe, at);
    for (const auto& layer : h) x = layer(x, at);
    return ln_f(x);
  }
};

// Attention and MLP side by side behind one norm (GPT-J, Phi, Command R):  n = Norm(x);   y = x + Attention(n) + MLP(n)
template <class Attention, class MLP, class Config, class Norm = LayerNorm, class Names = LayerNames>
struct ParallelLayer : Module<ParallelLayer<Attention, MLP, Config, Norm, Names>, Config> {
  using Base = Module<ParallelLayer, Config>;
  using Base::cfg, Base::scope;
  std::int64_t layer;
  ParallelLayer(Scope s, const Config& c, std::int64_t layer_index) : Base(std::move(s), c), layer(layer_index) {}

  Norm norm{scope / Names::attention_norm, cfg.hidden_size, cfg.rms_norm_eps};
  Attention attention{scope / Names::attention, cfg, layer};
  MLP mlp{scope / Names::mlp, cfg};

  Tensor forward(Tensor x, Decode& at) const {
    const auto n = norm(x);
    const auto h = x + attention(n, at);
    return h + mlp(n);
  }
};

}  // namespace mobius
