// The parts of a Llama-style decoder: pre-norm residual layers of self-attention and a gated MLP.
//
//   h = x + Attention(RMSNorm(x));   y = h + MLP(RMSNorm(h))
//
//   using Llama = CausalLM<PreNormLayer<SelfAttention, GatedMLP>>;
//
// A family whose attention, MLP or layer differs writes its own in its own file and composes it with the rest.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
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

// The positions of layer `layer`. A type that keeps them elsewhere has its own overload beside its config, and so it is with attention_spec.
inline const RopeConfig& rope_of(const DecoderConfig& cfg, std::int64_t) { return cfg.rope; }
inline const std::optional<RopeConfig>& rope_of(const LayeredConfig& cfg, std::int64_t layer) { return cfg.rope_of(layer); }

// What the checkpoint calls the parts of an attention:  SelfAttention attn{scope / "attn", cfg, layer, {.o = "out_proj"}};
struct AttentionNames {
  std::string_view q = "q_proj", k = "k_proj", v = "v_proj", o = "o_proj", q_norm = "q_norm", k_norm = "k_norm";
};

// The four projections of an attention layer. What happens between them is the family's.
template <class Self, class Config = DecoderConfig>
struct AttentionProjections : Module<Self, Config> {
  using Base = Module<Self, Config>;
  using Base::cfg, Base::scope;
  std::int64_t layer;
  AttentionNames names;
  AttentionProjections(Scope s, const Config& c, std::int64_t layer_index, AttentionNames given = {})
      : Base(std::move(s), c), layer(layer_index), names(given) {}

  Linear q_proj{scope / names.q, cfg.hidden_size, cfg.q_size(), cfg.qkv_bias};
  Linear k_proj{scope / names.k, cfg.hidden_size, cfg.kv_size(), cfg.qkv_bias};
  Linear v_proj{scope / names.v, cfg.hidden_size, cfg.kv_size(), cfg.qkv_bias};
  Linear o_proj{scope / names.o, cfg.q_size(), cfg.hidden_size, cfg.o_bias};
};

// Grouped-query attention with rotary positions (arXiv 2305.13245, 2104.09864), those and the spec as `Config` has them.
template <class Config>
struct RotaryAttention : AttentionProjections<RotaryAttention<Config>, Config> {
  using Base = AttentionProjections<RotaryAttention, Config>;
  using Base::Base, Base::cfg, Base::layer, Base::q_proj, Base::k_proj, Base::v_proj, Base::o_proj;

  Tensor forward(Tensor x, Decode& at) const {
    const auto q = at.rope(q_proj(x), cfg.num_attention_heads, rope_of(cfg, layer));
    const auto k = at.rope(k_proj(x), cfg.num_key_value_heads, rope_of(cfg, layer));
    return o_proj(at.attend(q, k, v_proj(x), attention_spec(cfg, layer)));
  }
};
using SelfAttention = RotaryAttention<DecoderConfig>;

// The same without positions: they are in the embeddings, or the layers around it have an order of their own.
struct UnrotatedAttention : AttentionProjections<UnrotatedAttention> {
  using AttentionProjections::AttentionProjections;

  Tensor forward(Tensor x, Decode& at) const {
    const auto q = q_proj(x), k = k_proj(x);
    return o_proj(at.attend(q, k, v_proj(x), attention_spec(cfg, layer)));
  }
};

// The same with RMS-normalised query and key heads, which are rotated afterwards (arXiv 2302.05442).
template <class Config, class Norm = RMSNorm>
struct NormedHeadAttention : AttentionProjections<NormedHeadAttention<Config, Norm>, Config> {
  using Base = AttentionProjections<NormedHeadAttention, Config>;
  using Base::Base, Base::cfg, Base::scope, Base::layer, Base::names, Base::q_proj, Base::k_proj, Base::v_proj, Base::o_proj;

  Norm q_norm{scope / names.q_norm, cfg.head_dim, cfg.rms_norm_eps};
  Norm k_norm{scope / names.k_norm, cfg.head_dim, cfg.rms_norm_eps};

  Tensor forward(Tensor x, Decode& at) const {
    const auto q = at.rope(per_head(q_norm, q_proj(x), cfg.num_attention_heads), cfg.num_attention_heads, rope_of(cfg, layer));
    const auto k = at.rope(per_head(k_norm, k_proj(x), cfg.num_key_value_heads), cfg.num_key_value_heads, rope_of(cfg, layer));
    return o_proj(at.attend(q, k, v_proj(x), attention_spec(cfg, layer)));
  }
};
using HeadNormAttention = NormedHeadAttention<DecoderConfig>;

// Heads that are normalised after they are rotated (Hunyuan V1, nanochat).
template <class Norm = RMSNorm>
struct RotatedThenNormedAttention : AttentionProjections<RotatedThenNormedAttention<Norm>> {
  using Base = AttentionProjections<RotatedThenNormedAttention>;
  using Base::Base, Base::cfg, Base::scope, Base::layer, Base::names, Base::q_proj, Base::k_proj, Base::v_proj, Base::o_proj;

  Norm q_norm{scope / names.q_norm, cfg.head_dim, cfg.rms_norm_eps};
  Norm k_norm{scope / names.k_norm, cfg.head_dim, cfg.rms_norm_eps};

  Tensor forward(Tensor x, Decode& at) const {
    const auto q = per_head(q_norm, at.rope(q_proj(x), cfg.num_attention_heads, cfg.rope), cfg.num_attention_heads);
    const auto k = per_head(k_norm, at.rope(k_proj(x), cfg.num_key_value_heads, cfg.rope), cfg.num_key_value_heads);
    return o_proj(at.attend(q, k, v_proj(x), attention_spec(cfg, layer)));
  }
};

// Queries and keys that are normalised as wholes, before they are cut into heads (OLMo 2, arXiv 2501.00656; FlexOlmo).
template <class Config>
struct WholeNormAttention : AttentionProjections<WholeNormAttention<Config>, Config> {
  using Base = AttentionProjections<WholeNormAttention, Config>;
  using Base::Base, Base::cfg, Base::scope, Base::layer, Base::names, Base::q_proj, Base::k_proj, Base::v_proj, Base::o_proj;

  RMSNorm q_norm{scope / names.q_norm, cfg.q_size(), cfg.rms_norm_eps};
  RMSNorm k_norm{scope / names.k_norm, cfg.kv_size(), cfg.rms_norm_eps};

  Tensor forward(Tensor x, Decode& at) const {
    const auto q = at.rope(q_norm(q_proj(x)), cfg.num_attention_heads, rope_of(cfg, layer));
    const auto k = at.rope(k_norm(k_proj(x)), cfg.num_key_value_heads, rope_of(cfg, layer));
    return o_proj(at.attend(q, k, v_proj(x), attention_spec(cfg, layer)));
  }
};

// down(act(gate(x)) · up(x))  (arXiv 2002.05202)
struct GatedMLPNames {
  std::string_view gate = "gate_proj", up = "up_proj", down = "down_proj";
};
struct GatedMLP : Module<GatedMLP, DecoderConfig> {
  GatedMLPNames names;
  GatedMLP(Scope s, const DecoderConfig& c, GatedMLPNames given = {}) : Module(std::move(s), c), names(given) {}

  Linear gate_proj{scope / names.gate, cfg.hidden_size, cfg.intermediate_size, cfg.mlp_bias};
  Linear up_proj{scope / names.up, cfg.hidden_size, cfg.intermediate_size, cfg.mlp_bias};
  Linear down_proj{scope / names.down, cfg.intermediate_size, cfg.hidden_size, cfg.mlp_bias};

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

// What the checkpoint calls the parts of a layer. Others replace what is different:
//   struct Names : LayerNames { static constexpr std::string_view mlp = "block_sparse_moe"; };
struct LayerNames {
  static constexpr std::string_view attention_norm = "input_layernorm", attention = "self_attn", mlp_norm = "post_attention_layernorm", mlp = "mlp";
};

// A part of a layer, which is told the layer's number if it asks for it.
template <class Part, class Config>
Part part_of_layer(const Scope& at, const Config& cfg, std::int64_t layer) {
  if constexpr (std::is_constructible_v<Part, const Scope&, const Config&, std::int64_t>) return Part(at, cfg, layer);
  else return Part(at, cfg);
}

// h = x + Attention(Norm(x));   y = h + MLP(Norm(h)).  `Norm` is constructed as RMSNorm is: (scope, width, epsilon).
template <class Attention, class MLP, class Config = DecoderConfig, class Norm = RMSNorm, class Names = LayerNames>
struct PreNormLayer : Module<PreNormLayer<Attention, MLP, Config, Norm, Names>, Config> {
  using Base = Module<PreNormLayer, Config>;
  using Base::cfg, Base::scope;
  std::int64_t layer;
  PreNormLayer(Scope s, const Config& c, std::int64_t layer_index) : Base(std::move(s), c), layer(layer_index) {}

  Norm attention_norm{scope / Names::attention_norm, cfg.hidden_size, cfg.rms_norm_eps};
  Attention attention{scope / Names::attention, cfg, layer};
  Norm mlp_norm{scope / Names::mlp_norm, cfg.hidden_size, cfg.rms_norm_eps};
  MLP mlp = part_of_layer<MLP>(scope / Names::mlp, cfg, layer);

  Tensor forward(Tensor x, Decode& at) const {
    const auto h = x + attention(attention_norm(x), at);
    return h + mlp(mlp_norm(h));
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

// Layers 0, 1, ... below `at`: Layer(Scope, config, index).
template <class Layer, class Config>
std::vector<Layer> layers_of(const Scope& at, const Config& cfg) {
  std::vector<Layer> out;
  out.reserve(static_cast<std::size_t>(cfg.num_hidden_layers));
  for (std::int64_t i = 0; i < cfg.num_hidden_layers; ++i) out.emplace_back(at / i, cfg, i);
  return out;
}

// The token embedding at `at`, whose weight may be stored as the head's when they are tied.
Embedding token_embedding(const Scope& at, const DecoderConfig& cfg, const Scope& head);
// The vocabulary head at `at`: the embedding's weight when tied, else one of its own; with a bias of its own either way.
Linear vocabulary_head(const Scope& at, const DecoderConfig& cfg, const Embedding& embedding, bool bias = false);

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

  Embedding embed_tokens = token_embedding(scope / "embed_tokens", cfg, head);
  std::vector<Layer> layers = layers_of<Layer>(scope / "layers", cfg);
  Norm norm{scope / final_norm_name<Config>(), cfg.hidden_size, cfg.rms_norm_eps};

  // Embedded tokens [B, S, hidden_size] -> normalised states [B, S, hidden_size].
  Tensor forward(Tensor x, Decode& at) const {
    for (const auto& layer : layers) x = layer(x, at);
    return norm(x);
  }

  // The vocabulary head: its weight is the embedding's when tied.
  Linear make_head() const { return vocabulary_head(head, cfg, embed_tokens); }
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
