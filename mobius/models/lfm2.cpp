// LFM2 (Liquid AI; transformers modeling_lfm2.py): most layers mix tokens by a short convolution between two gates, the others by attention.
//
//   [B, C, x] = in_proj(u);   y = out_proj(C · conv(B · x));   the others: q, k = rope(RMSNorm(u·Wq)), rope(RMSNorm(u·Wk))
//   h = x + (conv or Attention)(RMSNorm(x));   y = h + w2(silu(w1(n)) · w3(n)),   n = RMSNorm(h)
#include "mobius/components/decoder.hpp"
#include "mobius/components/one_of.hpp"
#include "mobius/components/state_space.hpp"
#include "mobius/components/state_space_config.hpp"
#include "mobius/models/family.hpp"

namespace mobius::models {
namespace lfm2 {

struct Config : DecoderConfig {
  static constexpr std::string_view final_norm = "embedding_norm";
  std::vector<std::string> kinds = {};  // of each layer: conv or full_attention
  std::int64_t kernel = 3;
  bool conv_bias = false;
};

struct ShortConv : Module<ShortConv, Config> {
  using Module::Module;

  Linear in_proj{scope / "in_proj", cfg.hidden_size, 3 * cfg.hidden_size, cfg.conv_bias};
  CausalConv conv{scope / "conv", cfg.hidden_size, cfg.kernel, cfg.conv_bias};
  Linear out_proj{scope / "out_proj", cfg.hidden_size, cfg.hidden_size, cfg.conv_bias};

  Tensor forward(Tensor u, Decode& at) const {
    const auto [B, C, x] = split<3>(in_proj(u), {cfg.hidden_size, cfg.hidden_size, cfg.hidden_size}, -1);
    return out_proj(C * conv(B * x, at));
  }
};

struct Layer : Module<Layer, Config> {
  using Mixer = OneOf<ShortConv, HeadNormAttention>;
  std::int64_t layer;
  bool convolves = cfg.kinds[static_cast<std::size_t>(layer)] == "conv";
  Layer(Scope s, const Config& c, std::int64_t layer_index) : Module(std::move(s), c), layer(layer_index) {}

  RMSNorm operator_norm{scope / "operator_norm", cfg.hidden_size, cfg.rms_norm_eps};
  Mixer mixer = convolves ? Mixer(ShortConv(scope / "conv", cfg)) : Mixer(attention());
  RMSNorm ffn_norm{scope / "ffn_norm", cfg.hidden_size, cfg.rms_norm_eps};
  GatedMLP feed_forward{scope / "feed_forward", cfg, {"w1", "w3", "w2"}};

  Tensor forward(Tensor x, Decode& at) const {
    at.enter_layer(layer);
    const auto h = x + mixer(operator_norm(x), at);
    return h + feed_forward(ffn_norm(h));
  }

  HeadNormAttention attention() const { return {scope / "self_attn", cfg, layer, {.o = "out_proj", .q_norm = "q_layernorm", .k_norm = "k_layernorm"}}; }
};

using Lfm2 = CausalLM<Layer, Config>;

// Two thirds of the stated size, times a factor, rounded up to a multiple.
std::int64_t adjusted(std::int64_t stated, const ConfigReader& r) {
  if (!r.boolean("block_auto_adjust_ff_dim", true)) return stated;
  auto size = 2 * stated / 3;
  const bool null = r.json().find("block_ffn_dim_multiplier") && !r.has("block_ffn_dim_multiplier");
  const auto multiple = r.size("block_multiple_of", 256);
  if (null) return size;
  size = static_cast<std::int64_t>(r.positive("block_ffn_dim_multiplier", 1) * static_cast<double>(size));
  return (size + multiple - 1) / multiple * multiple;
}

// Without layer_types, full_attn_idxs lists the layers that attend; without that, all do.
std::vector<std::string> kinds_of(const ConfigReader& r, std::int64_t layers) {
  std::vector<std::string> kinds(static_cast<std::size_t>(layers), "full_attention");
  const auto attends = r.places("full_attn_idxs", layers);
  for (std::size_t i = 0; r.has("full_attn_idxs") && i < kinds.size(); ++i)
    if (!attends[i]) kinds[i] = "conv";
  return read_layer_kinds(r, "layer_types", {"conv", "full_attention"}, std::move(kinds));
}

Config config(const ConfigReader& r) {
  Config c{read_decoder(r, {.vocab_size = 65536,
                            .hidden_size = 2560,
                            .intermediate_size = 12288,
                            .num_key_value_heads = 8,
                            .max_position_embeddings = 128000,
                            .tie_word_embeddings = true,
                            .rope = {.theta = 1000000}})};
  c.rms_norm_eps = r.positive("norm_eps", 1e-5);
  c.tie_word_embeddings = r.boolean("tie_embedding", c.tie_word_embeddings);
  c.intermediate_size = adjusted(r.size("block_ff_dim", c.intermediate_size), r);
  c.hidden_act = "silu";  // whatever the config says
  c.kernel = r.size("conv_L_cache", 3);
  c.conv_bias = r.boolean("conv_bias", false);
  c.kinds = kinds_of(r, c.num_hidden_layers);
  return c;
}

}  // namespace lfm2

Family family_lfm2() { return {.types = {"lfm2"}, .task = "hybrid-text-generation", .build = causal_lm_of<lfm2::Lfm2>(lfm2::config)}; }

}  // namespace mobius::models
