// Jamba (arXiv 2403.19887): Mamba layers whose dt, B and C are normalised, every eighth layer attention without positions, every other one experts.
//
//   h = x + (Mamba or Attention)(RMSNorm(x));   y = h + (SwiGLU or Σ softmax(n·Wg)ᵢ · SwiGLUᵢ)(n),   n = RMSNorm(h)
//   [dt, B, C] = x_proj(x);   Δ = softplus(dt_proj(RMSNorm(dt)));   SSM(x, Δ, RMSNorm(B), RMSNorm(C))
#include "mobius/components/moe_layer.hpp"
#include "mobius/components/one_of.hpp"
#include "mobius/components/selective_mixer.hpp"
#include "mobius/models/family.hpp"

namespace mobius::models {
namespace jamba {

struct Config : MoeConfig {
  static constexpr std::string_view final_norm = "final_layernorm";
  SelectiveShape mamba = {};
  std::int64_t attention_period = 8, attention_offset = 4;
  bool attends(std::int64_t layer) const { return layer % attention_period == attention_offset; }
};

// The chosen experts' weights are their shares of all: they don't sum to 1.
struct SparseMLP : Module<SparseMLP, Config> {
  using Module::Module;

  Linear router{scope / "router", cfg.hidden_size, cfg.num_experts};
  GatedExperts experts{scope / "experts", cfg.expert_sizes(), cfg.hidden_act};

  Tensor forward(Tensor x) const {
    return over_tokens(x, cfg.hidden_size, [&](Tensor tokens) { return experts(tokens, choose_by_softmax(router(tokens), cfg.experts_per_token)); });
  }
};

struct Layer : Module<Layer, Config> {
  using Mamba = SelectiveMixer<RMSNorm>;
  using Mixer = OneOf<Mamba, UnrotatedAttention>;
  std::int64_t layer;
  Layer(Scope s, const Config& c, std::int64_t layer_index) : Module(std::move(s), c), layer(layer_index) {}

  RMSNorm input_layernorm{scope / "input_layernorm", cfg.hidden_size, cfg.rms_norm_eps};
  Mixer mixer = cfg.attends(layer) ? Mixer(UnrotatedAttention(scope / "self_attn", cfg, layer)) : Mixer(Mamba(scope / "mamba", cfg.mamba));
  RMSNorm pre_ff_layernorm{scope / "pre_ff_layernorm", cfg.hidden_size, cfg.rms_norm_eps};
  DenseOrSparse<SparseMLP> feed_forward{scope / "feed_forward", cfg, layer};

  Tensor forward(Tensor x, Decode& at) const {
    at.enter_layer(layer);
    const auto h = x + mixer(input_layernorm(x), at);
    return h + feed_forward(pre_ff_layernorm(h));
  }
};

using Jamba = CausalLM<Layer, Config>;

// Layers i with i mod period = offset.
struct Every {
  std::int64_t period, offset;
  Every(const ConfigReader& r, const std::string& what, std::int64_t p, std::int64_t o)
      : period(r.size(what + "_period", p)), offset(r.count(what + "_offset", o)) {
    if (offset >= period) r.refuse(what + "_offset", std::to_string(offset), "a number below " + what + "_period, " + std::to_string(period));
  }
};

Config config(const ConfigReader& r) {
  Config c{{read_decoder_without_rope(
      r, {.vocab_size = 65536, .intermediate_size = 14336, .num_key_value_heads = 8, .max_position_embeddings = 262144, .rms_norm_eps = 1e-6})}};
  c.mamba = {.hidden = c.hidden_size,
             .inner = r.size("mamba_expand", 2) * c.hidden_size,
             .state = r.size("mamba_d_state", 16),
             .step_rank = read_step_rank(r, "mamba_dt_rank", c.hidden_size),
             .kernel = r.size("mamba_d_conv", 4),
             .conv_bias = r.boolean("mamba_conv_bias", true),
             .proj_bias = r.boolean("mamba_proj_bias", false),
             .activation = c.hidden_act,
             .norm_eps = c.rms_norm_eps};
  const Every attention(r, "attn_layer", 8, 4), experts(r, "expert_layer", 2, 1);
  c.attention_period = attention.period;
  c.attention_offset = attention.offset;
  c.num_experts = r.size(r.has("num_local_experts") ? "num_local_experts" : "num_experts", 16);
  c.experts_per_token = r.size("num_experts_per_tok", 2);
  c.expert_size = c.intermediate_size;
  for (std::int64_t i = 0; i < c.num_hidden_layers; ++i) c.sparse.push_back(c.num_experts > 1 && i % experts.period == experts.offset);
  if (c.num_experts > 1) check_experts(c, r);
  return c;
}

}  // namespace jamba

Family family_jamba() { return {.types = {"jamba"}, .task = "hybrid-text-generation", .build = causal_lm_of<jamba::Jamba>(jamba::config)}; }

}  // namespace mobius::models
