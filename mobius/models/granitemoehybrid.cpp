// Granite 4.0 hybrids (IBM; transformers modeling_granitemoehybrid.py): Granite whose layers mix tokens by Mamba-2 or by attention, mostly without
// positions, and whose MLP is a shared one plus experts.
//
//   x = e · embed(ids);   h = x + r · (Mamba2 or Attention)(RMSNorm(x));   n = RMSNorm(h)
//   y = h + r · (shared(n) + Σ softmax(topk(n·Wg))ᵢ · MLPᵢ(n));   logits = head(y) / l
#include "mobius/components/granite.hpp"
#include "mobius/components/one_of.hpp"
#include "mobius/components/state_space.hpp"
#include "mobius/components/state_space_config.hpp"
#include "mobius/models/family.hpp"

namespace mobius::models {
namespace granitemoehybrid {

struct Config : GraniteConfig {
  Mamba2Shape mamba = {};
  std::vector<std::string> kinds = {};    // of each layer: linear_attention or full_attention
  std::optional<RopeConfig> rotary = {};  // absent: attention without positions
};

const std::optional<RopeConfig>& rope_of(const Config& cfg, std::int64_t) { return cfg.rotary; }

using Attention = RotaryAttention<Config>;

struct Layer : Module<Layer, Config> {
  using Mixer = OneOf<Mamba2Mixer, Attention>;
  std::int64_t layer;
  bool attends = cfg.kinds[static_cast<std::size_t>(layer)] == "full_attention";
  Layer(Scope s, const Config& c, std::int64_t layer_index) : Module(std::move(s), c), layer(layer_index) {}

  RMSNorm input_layernorm{scope / "input_layernorm", cfg.hidden_size, cfg.rms_norm_eps};
  Mixer mixer = attends ? Mixer(Attention(scope / "self_attn", cfg, layer)) : Mixer(Mamba2Mixer(scope / "mamba", cfg.mamba));
  RMSNorm post_attention_layernorm{scope / "post_attention_layernorm", cfg.hidden_size, cfg.rms_norm_eps};
  std::optional<GraniteExperts> block_sparse_moe = cfg.num_experts > 0 ? std::optional<GraniteExperts>(std::in_place, scope / "block_sparse_moe", cfg)
                                                                       : std::nullopt;
  GraniteSharedMLP shared_mlp{scope / "shared_mlp", cfg};

  Tensor forward(Tensor x, Decode& at) const {
    at.enter_layer(layer);
    const auto h = x + mixer(input_layernorm(x), at) * cfg.residual_multiplier;
    const auto v = post_attention_layernorm(h);
    auto y = shared_mlp(v);
    if (block_sparse_moe) y = (*block_sparse_moe)(v) + y;
    return h + y * cfg.residual_multiplier;
  }
};

Config config(const ConfigReader& r) {
  Config c{{{read_decoder_without_rope(r, {})}}};
  read_granite(c, r);
  if (r.has("position_embedding_type") && r.text("position_embedding_type", "") == "rope") c.rotary = read_rope(r, c.rope_shape(), {});
  c.mamba = read_hybrid_mixer(r, c.hidden_size, r.size("mamba_expand", 2) * c.hidden_size, c.rms_norm_eps);
  const std::vector<std::string> otherwise(static_cast<std::size_t>(c.num_hidden_layers), "linear_attention");
  c.kinds = read_layer_kinds(r, r.has("layer_types") ? "layer_types" : "layers_block_type", {"linear_attention", "full_attention"}, otherwise);
  c.expert_size = c.intermediate_size;
  c.shared_size = r.size("shared_intermediate_size", 1024);
  c.num_experts = r.count("num_local_experts", 8);
  if (c.num_experts == 0) return c;  // the sizes without experts say 0 of them per token, too
  c.experts_per_token = r.size("num_experts_per_tok", 2);
  check_experts(c, r);
  return c;
}

}  // namespace granitemoehybrid

Family family_granitemoehybrid() {
  return {.types = {"granitemoehybrid"},
          .task = "hybrid-text-generation",
          .build = causal_lm_of<GraniteLM<granitemoehybrid::Layer, granitemoehybrid::Config>>(granitemoehybrid::config)};
}

}  // namespace mobius::models
