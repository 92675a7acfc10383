// LFM2 (Liquid AI; transformers modeling_lfm2.py): most layers mix tokens by a short convolution between two gates, the others by attention.
//
//   [B, C, x] = in_proj(u);   y = out_proj(C · conv(B · x))
#include "mobius/components/decoder.hpp"
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

// Heads of queries and keys are RMS-normalised before they are rotated.
struct Attention : Module<Attention, Config> {
  using Module::Module;

  Linear q_proj{scope / "q_proj", cfg.hidden_size, cfg.q_size()};
  Linear k_proj{scope / "k_proj", cfg.hidden_size, cfg.kv_size()};
  Linear v_proj{scope / "v_proj", cfg.hidden_size, cfg.kv_size()};
  Linear out_proj{scope / "out_proj", cfg.q_size(), cfg.hidden_size};
  RMSNorm q_layernorm{scope / "q_layernorm", cfg.head_dim, cfg.rms_norm_eps};
  RMSNorm k_layernorm{scope / "k_layernorm", cfg.head_dim, cfg.rms_norm_eps};

  Tensor forward(Tensor x, Decode& at) const {
    const auto q = at.rope(per_head(q_layernorm, q_proj(x), cfg.num_attention_heads), cfg.num_attention_heads, cfg.rope);
    const auto k = at.rope(per_head(k_layernorm, k_proj(x), cfg.num_key_value_heads), cfg.num_key_value_heads, cfg.rope);
    return out_proj(at.attend(q, k, v_proj(x), attention_spec(cfg, 0)));
  }
};

// w2(silu(w1(x)) · w3(x))
struct FeedForward : Module<FeedForward, Config> {
  using Module::Module;

  Linear w1{scope / "w1", cfg.hidden_size, cfg.intermediate_size};
  Linear w3{scope / "w3", cfg.hidden_size, cfg.intermediate_size};
  Linear w2{scope / "w2", cfg.intermediate_size, cfg.hidden_size};

  Tensor forward(Tensor x) const {
    const auto gate = nn::activation("silu", w1(x));
    return w2(gate * w3(x));
  }
};

struct Layer : Module<Layer, Config> {
  std::int64_t layer;
  bool convolves = cfg.kinds[static_cast<std::size_t>(layer)] == "conv";
  Layer(Scope s, const Config& c, std::int64_t layer_index) : Module(std::move(s), c), layer(layer_index) {}

  RMSNorm operator_norm{scope / "operator_norm", cfg.hidden_size, cfg.rms_norm_eps};
  std::optional<ShortConv> conv = convolves ? std::optional<ShortConv>(std::in_place, scope / "conv", cfg) : std::nullopt;
  std::optional<Attention> self_attn = convolves ? std::nullopt : std::optional<Attention>(std::in_place, scope / "self_attn", cfg);
  RMSNorm ffn_norm{scope / "ffn_norm", cfg.hidden_size, cfg.rms_norm_eps};
  FeedForward feed_forward{scope / "feed_forward", cfg};

  Tensor forward(Tensor x, Decode& at) const {
    at.enter_layer(layer);
    const auto u = operator_norm(x);
    const auto h = x + (conv ? (*conv)(u, at) : (*self_attn)(u, at));
    return h + feed_forward(ffn_norm(h));
  }
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
  std::vector<std::string> kinds(static_cast<std::size_t>(layers), r.has("full_attn_idxs") ? "conv" : "full_attention");
  for (const double i : r.numbers("full_attn_idxs"))
    if (i >= 0 && i < static_cast<double>(layers)) kinds[static_cast<std::size_t>(i)] = "full_attention";
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
  c.kernel = r.size("conv_L_cache", 3);
  c.conv_bias = r.boolean("conv_bias", false);
  c.kinds = kinds_of(r, c.num_hidden_layers);
  return c;
}

}  // namespace lfm2

Family family_lfm2() { return {.types = {"lfm2"}, .task = "hybrid-text-generation", .build = causal_lm_of<lfm2::Lfm2>(lfm2::config)}; }

}  // namespace mobius::models
