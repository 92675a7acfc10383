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

// The four projections of an attention layer. What happens between them is the family's.
template <class Self, class Config = DecoderConfig>
struct AttentionProjections : Module<Self, Config> {
  using Base = Module<Self, Config>;
  using Base::cfg, Base::scope;
  std::int64_t layer;
  AttentionProjections(Scope s, const Config& c, std::int64_t layer_index) : Base(std::move(s), c), layer(layer_index) {}

  Linear q_proj{scope / "q_proj", cfg.hidden_size, cfg.q_size(), cfg.qkv_bias};
  Linear k_proj{scope / "k_proj", cfg.hidden_size, cfg.kv_size(), cfg.qkv_bias};
  Linear v_proj{scope / "v_proj", cfg.hidden_size, cfg.kv_size(), cfg.qkv_bias};
  Linear o_proj{scope / "o_proj", cfg.q_size(), cfg.hidden_size, cfg.o_bias};
};

// Grouped-query attention with rotary positions (arXiv 2305.13245, 2104.09864).
struct SelfAttention : AttentionProjections<SelfAttention> {
  using AttentionProjections::AttentionProjections;

  Tensor forward(Tensor x, Decode& at) const {
    const auto q = at.rope(q_proj(x), cfg.num_attention_heads, cfg.rope);
    const auto k = at.rope(k_proj(x), cfg.num_key_value_heads, cfg.rope);
    return o_proj(at.attend(q, k, v_proj(x), attention_spec(cfg, layer)));
  }
};

// The same without positions: the layers around it have an order of their own.
struct UnrotatedAttention : AttentionProjections<UnrotatedAttention> {
  using AttentionProjections::AttentionProjections;

  Tensor forward(Tensor x, Decode& at) const {
    const auto q = q_proj(x), k = k_proj(x);
    return o_proj(at.attend(q, k, v_proj(x), attention_spec(cfg, layer)));
  }
};

// The same with RMS-normalised query and key heads, which are rotated afterwards (arXiv 2302.05442).
struct HeadNormAttention : AttentionProjections<HeadNormAttention> {
  using AttentionProjections::AttentionProjections;

  RMSNorm q_norm{scope / "q_norm", cfg.head_dim, cfg.rms_norm_eps};
  RMSNorm k_norm{scope / "k_norm", cfg.head_dim, cfg.rms_norm_eps};

  Tensor forward(Tensor x, Decode& at) const {
    const auto q = at.rope(per_head(q_norm, q_proj(x), cfg.num_attention_heads), cfg.num_attention_heads, cfg.rope);
    const auto k = at.rope(per_head(k_norm, k_proj(x), cfg.num_key_value_heads), cfg.num_key_value_heads, cfg.rope);
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

// The same with both projections stored as one matrix, which is cut into its parts at load time: the graph is the one above.
struct PackedGatedMLP : Module<PackedGatedMLP, DecoderConfig> {
  using Module::Module;

  Parameter gate_up_proj{scope / "gate_up_proj" / "weight", {2 * cfg.intermediate_size, cfg.hidden_size}};
  Linear gate_proj = part("gate_proj", 0);
  Linear up_proj = part("up_proj", cfg.intermediate_size);
  Linear down_proj{scope / "down_proj", cfg.intermediate_size, cfg.hidden_size};

  Tensor forward(Tensor x) const {
    const auto gate = nn::activation(cfg.hidden_act, gate_proj(x));
    return down_proj(gate * up_proj(x));
  }

  Linear part(std::string_view name, std::int64_t first) const {
    return {scope / name, gate_up_proj.rows((scope / name / "weight").path(), first, first + cfg.intermediate_size)};
  }
};

// down(act(up(x)))
struct UngatedMLP : Module<UngatedMLP, DecoderConfig> {
  using Module::Module;

  Linear up_proj{scope / "up_proj", cfg.hidden_size, cfg.intermediate_size, cfg.mlp_bias};
  Linear down_proj{scope / "down_proj", cfg.intermediate_size, cfg.hidden_size, cfg.mlp_bias};

  Tensor forward(Tensor x) const { return down_proj(nn::activation(cfg.hidden_act, up_proj(x))); }
};

// `Norm` is constructed as RMSNorm is: (scope, width, epsilon).
template <class Attention, class MLP, class Config = DecoderConfig, class Norm = RMSNorm>
struct PreNormLayer : Module<PreNormLayer<Attention, MLP, Config, Norm>, Config> {
  using Base = Module<PreNormLayer, Config>;
  using Base::cfg, Base::scope;
  std::int64_t layer;
  PreNormLayer(Scope s, const Config& c, std::int64_t layer_index) : Base(std::move(s), c), layer(layer_index) {}

  Norm input_layernorm{scope / "input_layernorm", cfg.hidden_size, cfg.rms_norm_eps};
  Attention self_attn{scope / "self_attn", cfg, layer};
  Norm post_attention_layernorm{scope / "post_attention_layernorm", cfg.hidden_size, cfg.rms_norm_eps};
  MLP mlp{scope / "mlp", cfg};

  Tensor forward(Tensor x, Decode& at) const {
    const auto h = x + self_attn(input_layernorm(x), at);
    return h + mlp(post_attention_layernorm(h));
  }
};

// h = x + RMSNorm(Attention(x));   y = h + RMSNorm(MLP(h))
template <class Attention, class MLP, class Config = DecoderConfig>
struct PostNormLayer : Module<PostNormLayer<Attention, MLP, Config>, Config> {
  using Base = Module<PostNormLayer, Config>;
  using Base::cfg, Base::scope;
  std::int64_t layer;
  PostNormLayer(Scope s, const Config& c, std::int64_t layer_index) : Base(std::move(s), c), layer(layer_index) {}

  Attention self_attn{scope / "self_attn", cfg, layer};
  RMSNorm post_attention_layernorm{scope / "post_attention_layernorm", cfg.hidden_size, cfg.rms_norm_eps};
  MLP mlp{scope / "mlp", cfg};
  RMSNorm post_feedforward_layernorm{scope / "post_feedforward_layernorm", cfg.hidden_size, cfg.rms_norm_eps};

  Tensor forward(Tensor x, Decode& at) const {
    const auto h = x + post_attention_layernorm(self_attn(x, at));
    return h + post_feedforward_layernorm(mlp(h));
  }
};

// The final norm's name in the checkpoint: "norm", unless the config says otherwise with a constant `final_norm`.
template <class Config>
constexpr std::string_view final_norm_name() {
  if constexpr (requires { Config::final_norm; }) return Config::final_norm;
  else return "norm";
}

// What is below the head: the embedding of tokens, the layers and the final norm. `head` is where a tied head would be stored.
template <class Layer, class Config = DecoderConfig, class Norm = RMSNorm>
struct DecoderStack : Module<DecoderStack<Layer, Config, Norm>, Config> {
  using Base = Module<DecoderStack, Config>;
  using Base::cfg, Base::scope;
  Scope head;
  // Checkpoints that were saved without the head leave the stack's own name out.
  DecoderStack(const Scope& s, const Config& c, Scope head_scope) : Base(s.or_left_out(), c), head(std::move(head_scope)) {}

  Embedding embed_tokens{scope / "embed_tokens", cfg.vocab_size, cfg.hidden_size, tied_names()};
  std::vector<Layer> layers = make_layers();
  Norm norm{scope / final_norm_name<Config>(), cfg.hidden_size, cfg.rms_norm_eps};

  // Embedded tokens [B, S, hidden_size] -> normalised states [B, S, hidden_size].
  Tensor forward(Tensor x, Decode& at) const {
    for (const auto& layer : layers) x = layer(x, at);
    return norm(x);
  }

  // The vocabulary head: its weight is the embedding's when tied.
  Linear make_head() const { return cfg.tie_word_embeddings ? Linear(head, embed_tokens.weight()) : Linear(head, cfg.hidden_size, cfg.vocab_size); }

 private:
  std::vector<std::string> tied_names() const { return cfg.tie_word_embeddings ? std::vector{(head / "weight").path()} : std::vector<std::string>{}; }
  std::vector<Layer> make_layers() const {
    std::vector<Layer> out;
    out.reserve(static_cast<std::size_t>(cfg.num_hidden_layers));
    for (std::int64_t i = 0; i < cfg.num_hidden_layers; ++i) out.emplace_back(scope / "layers" / i, cfg, i);
    return out;
  }
};

// Token embedding, layers, final norm and the vocabulary head.
template <class Layer, class Config = DecoderConfig, class Norm = RMSNorm>
struct CausalLM : Module<CausalLM<Layer, Config, Norm>, Config> {
  using Base = Module<CausalLM, Config>;
  using Base::cfg, Base::scope;

  DecoderStack<Layer, Config, Norm> model{scope / "model", cfg, scope / "lm_head"};
  Linear lm_head = model.make_head();

  CausalLM(Scope s, const Config& c) : Base(std::move(s), c) {}

  // input_ids [B, S] -> logits [B, S, vocab_size]
  Tensor forward(Tensor input_ids, Decode& at) const { return lm_head(model(model.embed_tokens(input_ids), at)); }
};

}  // namespace mobius
