// The parts of a Llama-style decoder: pre-norm residual layers of self-attention and a gated MLP.
//
//   h = x + Attention(RMSNorm(x));   y = h + MLP(RMSNorm(h))
//
//   using Llama = CausalLM<PreNormLayer<SelfAttention, GatedMLP>>;
//
// A family whose attention, MLP or layer differs writes its own in its own file and composes it with the rest.
#pragma once
#include <vector>

#include "mobius/components/decode.hpp"
#include "mobius/config/decoder.hpp"
#include "mobius/nn/layers.hpp"

namespace mobius {

using nn::Embedding;
using nn::Linear;
using nn::Module;
using nn::Parameter;
using nn::RMSNorm;
using nn::Scope;

// How the heads of layer `layer` attend.
inline AttentionSpec attention_spec(const DecoderConfig& cfg, std::int64_t layer) {
  return {.num_heads = cfg.num_attention_heads, .num_kv_heads = cfg.num_key_value_heads, .head_dim = cfg.head_dim, .window = cfg.window(layer)};
}

// Grouped-query attention with rotary positions (arXiv 2305.13245, 2104.09864).
struct SelfAttention : Module<SelfAttention, DecoderConfig> {
  std::int64_t layer;
  SelfAttention(Scope s, const DecoderConfig& c, std::int64_t layer_index) : Module(std::move(s), c), layer(layer_index) {}

  Linear q_proj{scope / "q_proj", cfg.hidden_size, cfg.q_size(), cfg.qkv_bias};
  Linear k_proj{scope / "k_proj", cfg.hidden_size, cfg.kv_size(), cfg.qkv_bias};
  Linear v_proj{scope / "v_proj", cfg.hidden_size, cfg.kv_size(), cfg.qkv_bias};
  Linear o_proj{scope / "o_proj", cfg.q_size(), cfg.hidden_size, cfg.o_bias};

  Tensor forward(Tensor x, Decode& at) const {
    const auto q = at.rope(q_proj(x), cfg.num_attention_heads, cfg.rope);
    const auto k = at.rope(k_proj(x), cfg.num_key_value_heads, cfg.rope);
    return o_proj(at.attend(q, k, v_proj(x), attention_spec(cfg, layer)));
  }
};

// down(act(gate(x)) · up(x))  (arXiv 2002.05202)
struct GatedMLP : Module<GatedMLP, DecoderConfig> {
  using Module::Module;

  Linear gate_proj{scope / "gate_proj", cfg.hidden_size, cfg.intermediate_size, cfg.mlp_bias};
  Linear up_proj{scope / "up_proj", cfg.hidden_size, cfg.intermediate_size, cfg.mlp_bias};
  Linear down_proj{scope / "down_proj", cfg.intermediate_size, cfg.hidden_size, cfg.mlp_bias};

  Tensor forward(Tensor x) const {
    const auto gate = nn::activation(cfg.hidden_act, gate_proj(x));  // on a line of its own: C++ leaves the order of operands open
    return down_proj(gate * up_proj(x));
  }
};

template <class Attention, class MLP, class Config = DecoderConfig>
struct PreNormLayer : Module<PreNormLayer<Attention, MLP, Config>, Config> {
  using Base = Module<PreNormLayer, Config>;
  using Base::cfg, Base::scope;
  std::int64_t layer;
  PreNormLayer(Scope s, const Config& c, std::int64_t layer_index) : Base(std::move(s), c), layer(layer_index) {}

  RMSNorm input_layernorm{scope / "input_layernorm", cfg.hidden_size, cfg.rms_norm_eps};
  Attention self_attn{scope / "self_attn", cfg, layer};
  RMSNorm post_attention_layernorm{scope / "post_attention_layernorm", cfg.hidden_size, cfg.rms_norm_eps};
  MLP mlp{scope / "mlp", cfg};

  Tensor forward(Tensor x, Decode& at) const {
    const auto h = x + self_attn(input_layernorm(x), at);
    return h + mlp(post_attention_layernorm(h));
  }
};

// Token embedding, layers, final norm and the vocabulary head; the head's weight is the embedding's when tied.
template <class Layer, class Config = DecoderConfig>
struct CausalLM : Module<CausalLM<Layer, Config>, Config> {
  using Base = Module<CausalLM, Config>;
  using Base::cfg, Base::scope;

  Scope model = scope / "model";
  Scope head = scope / "lm_head";
  Embedding embed_tokens{model / "embed_tokens", cfg.vocab_size, cfg.hidden_size, tied_names()};
  std::vector<Layer> layers = make_layers();
  RMSNorm norm{model / "norm", cfg.hidden_size, cfg.rms_norm_eps};
  Linear lm_head = cfg.tie_word_embeddings ? Linear(head, embed_tokens.weight()) : Linear(head, cfg.hidden_size, cfg.vocab_size);

  CausalLM(Scope s, const Config& c) : Base(std::move(s), c) {}

  // input_ids [B, S] -> logits [B, S, vocab_size]
  Tensor forward(Tensor input_ids, Decode& at) const {
    auto x = embed_tokens(input_ids);
    for (const auto& layer : layers) x = layer(x, at);
    return lm_head(norm(x));
  }

 private:
  std::vector<std::string> tied_names() const { return cfg.tie_word_embeddings ? std::vector{(head / "weight").path()} : std::vector<std::string>{}; }
  std::vector<Layer> make_layers() const {
    std::vector<Layer> out;
    out.reserve(static_cast<std::size_t>(cfg.num_hidden_layers));
    for (std::int64_t i = 0; i < cfg.num_hidden_layers; ++i) out.emplace_back(model / "layers" / i, cfg, i);
    return out;
  }
};

}  // namespace mobius
