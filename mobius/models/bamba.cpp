// Bamba (IBM, Princeton, CMU, UIUC; transformers modeling_bamba.py): Mamba-2 layers, and a few of attention that rotates half of each head; every layer
// has a gated MLP.
//
//   h = x + (Mamba2 or Attention)(RMSNorm(x));   y = h + SwiGLU(RMSNorm(h))
#include <algorithm>

#include "mobius/components/decoder.hpp"
#include "mobius/components/one_of.hpp"
#include "mobius/components/state_space.hpp"
#include "mobius/components/state_space_config.hpp"
#include "mobius/models/family.hpp"

namespace mobius::models {
namespace bamba {

struct Config : DecoderConfig {
  static constexpr std::string_view final_norm = "final_layernorm";
  Mamba2Shape mamba = {};
  std::vector<bool> attention_layers = {};
  bool attends(std::int64_t layer) const { return attention_layers[static_cast<std::size_t>(layer)]; }
};

struct Layer : Module<Layer, Config> {
  using Mixer = OneOf<Mamba2Mixer, SelfAttention>;
  std::int64_t layer;
  Layer(Scope s, const Config& c, std::int64_t layer_index) : Module(std::move(s), c), layer(layer_index) {}

  RMSNorm input_layernorm{scope / "input_layernorm", cfg.hidden_size, cfg.rms_norm_eps};
  Mixer mixer = cfg.attends(layer) ? Mixer(SelfAttention(scope / "self_attn", cfg, layer)) : Mixer(Mamba2Mixer(scope / "mamba", cfg.mamba));
  RMSNorm pre_ff_layernorm{scope / "pre_ff_layernorm", cfg.hidden_size, cfg.rms_norm_eps};
  GatedMLP feed_forward{scope / "feed_forward", cfg};

  Tensor forward(Tensor x, Decode& at) const {
    at.enter_layer(layer);
    const auto h = x + mixer(input_layernorm(x), at);
    return h + feed_forward(pre_ff_layernorm(h));
  }
};

using Bamba = CausalLM<Layer, Config>;

Config config(const ConfigReader& r) {
  Config c{read_decoder(r, {.vocab_size = 128000,
                            .intermediate_size = 14336,
                            .num_key_value_heads = 8,
                            .max_position_embeddings = 262144,
                            .rms_norm_eps = 1e-5,
                            .rope = {.partial_rotary_factor = 0.5}})};
  c.qkv_bias = c.o_bias = r.boolean("attention_bias", false);
  c.mlp_bias = r.boolean("mlp_bias", false);
  c.mamba = read_hybrid_mixer(r, c.hidden_size, r.size("mamba_expand", 2) * c.hidden_size, c.rms_norm_eps);
  c.attention_layers = r.places("attn_layer_indices", c.num_hidden_layers);
  return c;
}

}  // namespace bamba

Family family_bamba() { return {.types = {"bamba"}, .task = "hybrid-text-generation", .build = causal_lm_of<bamba::Bamba>(bamba::config)}; }

}  // namespace mobius::models
