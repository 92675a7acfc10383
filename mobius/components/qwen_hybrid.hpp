// What Qwen3-Next and Qwen3.5 share: three layers of a gated delta network to one of gated attention, and norms that are stored as their distance from one.
//
//   using Qwen35 = CausalLM<QwenHybridLayer<DeltaNet, DenseOrSparse<...>>, QwenHybridConfig, nn::OffsetRMSNorm>;
#pragma once
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "mobius/components/gated_delta_net.hpp"
#include "mobius/components/moe_layer.hpp"
#include "mobius/components/one_of.hpp"
#include "mobius/components/state_space_config.hpp"

namespace mobius {

struct QwenHybridConfig : MoeConfig {
  GatedDeltaShape delta = {};
  std::vector<std::string> kinds = {};  // of each layer: linear_attention or full_attention
};

// The keys of the delta network, the layers' kinds and the attention's bias; by default every fourth layer attends.
QwenHybridConfig read_qwen_hybrid(const ConfigReader& reader, const DecoderDefaults& defaults);
// The keys of the experts.
void read_qwen_experts(QwenHybridConfig& config, const ConfigReader& reader, std::int64_t num_experts, std::int64_t experts_per_token);

// Attention whose result is gated: each head of q_proj's result is a query followed by its gate, which is taken apart at load time.
//   o_proj(σ(gate) · Attention(RMSNorm(q), RMSNorm(k), v))
struct GatedAttention : Module<GatedAttention, QwenHybridConfig> {
  std::int64_t layer;
  GatedAttention(Scope s, const QwenHybridConfig& c, std::int64_t layer_index) : Module(std::move(s), c), layer(layer_index) {}

  Linear q_proj = half("q_proj", 0);
  Linear gate_proj = half("gate_proj", 1);
  Linear k_proj{scope / "k_proj", cfg.hidden_size, cfg.kv_size(), cfg.qkv_bias};
  Linear v_proj{scope / "v_proj", cfg.hidden_size, cfg.kv_size(), cfg.qkv_bias};
  Linear o_proj{scope / "o_proj", cfg.q_size(), cfg.hidden_size, cfg.o_bias};
  nn::OffsetRMSNorm q_norm{scope / "q_norm", cfg.head_dim, cfg.rms_norm_eps};
  nn::OffsetRMSNorm k_norm{scope / "k_norm", cfg.head_dim, cfg.rms_norm_eps};

  Tensor forward(Tensor x, Decode& at) const {
    const auto q = at.rope(per_head(q_norm, q_proj(x), cfg.num_attention_heads), cfg.num_attention_heads, cfg.rope);
    const auto k = at.rope(per_head(k_norm, k_proj(x), cfg.num_key_value_heads), cfg.num_key_value_heads, cfg.rope);
    const auto y = at.attend(q, k, v_proj(x), attention_spec(cfg, layer));
    return o_proj(y * sigmoid(gate_proj(x)));
  }

  // Blocks 0 (queries) or 1 (gates) of each head's two.
  Linear half(std::string_view name, std::int64_t which) const {
    std::vector<std::int64_t> order;
    for (std::int64_t h = 0; h < cfg.num_attention_heads; ++h) order.push_back(2 * h + which);
    const auto part = [&](std::string_view what, ir::Dims dims) {
      return Parameter(scope / "q_proj" / what, std::move(dims)).blocks((scope / name / what).path(), cfg.head_dim, order);
    };
    return {scope / name, part("weight", {2 * cfg.q_size(), cfg.hidden_size}), cfg.qkv_bias ? std::optional(part("bias", {2 * cfg.q_size()})) : std::nullopt};
  }
};

// h = x + DeltaNet or GatedAttention(RMSNorm(x));   y = h + MLP(RMSNorm(h))
template <class DeltaNet, class MLP>
struct QwenHybridLayer : Module<QwenHybridLayer<DeltaNet, MLP>, QwenHybridConfig> {
  using Base = Module<QwenHybridLayer, QwenHybridConfig>;
  using Mixer = OneOf<GatedAttention, DeltaNet>;
  using Base::cfg, Base::scope;
  std::int64_t layer;
  bool attends = cfg.kinds[static_cast<std::size_t>(layer)] == "full_attention";
  QwenHybridLayer(Scope s, const QwenHybridConfig& c, std::int64_t layer_index) : Base(std::move(s), c), layer(layer_index) {}

  nn::OffsetRMSNorm input_layernorm{scope / "input_layernorm", cfg.hidden_size, cfg.rms_norm_eps};
  Mixer mixer = attends ? Mixer(GatedAttention(scope / "self_attn", cfg, layer)) : Mixer(DeltaNet(scope / "linear_attn", cfg.delta));
  nn::OffsetRMSNorm post_attention_layernorm{scope / "post_attention_layernorm", cfg.hidden_size, cfg.rms_norm_eps};
  DenseOrSparse<MLP> mlp{scope / "mlp", cfg, layer};

  Tensor forward(Tensor x, Decode& at) const {
    at.enter_layer(layer);
    const auto h = x + mixer(input_layernorm(x), at);
    return h + mlp(post_attention_layernorm(h));
  }
};

// Qwen3.5's projections, each stored by itself.
struct SeparateDeltaNet : Module<SeparateDeltaNet, GatedDeltaShape> {
  using Module::Module;

  Linear in_proj_qkv{scope / "in_proj_qkv", cfg.hidden, cfg.convolved()};
  Linear in_proj_z{scope / "in_proj_z", cfg.hidden, cfg.values()};
  Linear in_proj_b{scope / "in_proj_b", cfg.hidden, cfg.value_heads};
  Linear in_proj_a{scope / "in_proj_a", cfg.hidden, cfg.value_heads};
  GatedDeltaNet net{scope, cfg};

  Tensor forward(Tensor x, Decode& at) const {
    const auto qkv = in_proj_qkv(x), z = in_proj_z(x), b = in_proj_b(x);
    return net(qkv, z, b, in_proj_a(x), at);
  }
};

}  // namespace mobius
