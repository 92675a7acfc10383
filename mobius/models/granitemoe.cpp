// Granite with experts (IBM; transformers modeling_granitemoe.py, modeling_granitemoeshared.py), and with an MLP that all tokens go to beside them:
//
//   h = x + r · Attention(RMSNorm(x));   n = RMSNorm(h);   y = h + r · (Σ softmax(top-k(n·Wg))ᵢ · SwiGLUᵢ(n) + SwiGLU(n))
#include "mobius/components/granite.hpp"
#include "mobius/models/family.hpp"

namespace mobius::models {
namespace granitemoe {

struct Layer : Module<Layer, GraniteConfig> {
  std::int64_t layer;
  Layer(Scope s, const GraniteConfig& c, std::int64_t layer_index) : Module(std::move(s), c), layer(layer_index) {}

  RMSNorm input_layernorm{scope / "input_layernorm", cfg.hidden_size, cfg.rms_norm_eps};
  GraniteAttention self_attn{scope / "self_attn", cfg, layer};
  RMSNorm post_attention_layernorm{scope / "post_attention_layernorm", cfg.hidden_size, cfg.rms_norm_eps};
  GraniteExperts block_sparse_moe{scope / "block_sparse_moe", cfg};
  std::optional<GraniteSharedMLP> shared_mlp = cfg.shared_size == 0 ? std::nullopt : std::optional(GraniteSharedMLP(scope / "shared_mlp", cfg));

  Tensor forward(Tensor x, Decode& at) const {
    const auto h = x + self_attn(input_layernorm(x), at) * cfg.residual_multiplier;
    const auto n = post_attention_layernorm(h);
    const auto routed = block_sparse_moe(n);
    return h + (shared_mlp ? routed + (*shared_mlp)(n) : routed) * cfg.residual_multiplier;
  }
};

GraniteConfig config(const ConfigReader& r) {
  GraniteConfig c{{read_decoder(r, {})}};
  read_granite(c, r);
  c.num_experts = r.size("num_local_experts", 8);
  c.experts_per_token = r.size("num_experts_per_tok", 2);
  c.expert_size = c.intermediate_size;
  if (c.model_type == "granitemoeshared") c.shared_size = r.count("shared_intermediate_size", 0);
  check_experts(c, r);
  return c;
}

}  // namespace granitemoe

Family family_granitemoe() { return {.types = {"granitemoe", "granitemoeshared"}, .build = causal_lm_of<GraniteLM<granitemoe::Layer>>(granitemoe::config)}; }

}  // namespace mobius::models
