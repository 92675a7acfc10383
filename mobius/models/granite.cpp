// Granite (IBM; transformers modeling_granite.py): Llama with four constants: of the embedding (e), the attention scores (a), the branches (r) and the
// logits (l).
//
//   x = e · embed(ids);   h = x + r · Attention(RMSNorm(x));   y = h + r · MLP(RMSNorm(h));   logits = head(y) / l
#include "mobius/components/granite.hpp"
#include "mobius/models/family.hpp"

namespace mobius::models {
namespace granite {

struct Layer : Module<Layer, GraniteConfig> {
  std::int64_t layer;
  Layer(Scope s, const GraniteConfig& c, std::int64_t layer_index) : Module(std::move(s), c), layer(layer_index) {}

  RMSNorm input_layernorm{scope / "input_layernorm", cfg.hidden_size, cfg.rms_norm_eps};
  GraniteAttention self_attn{scope / "self_attn", cfg, layer};
  RMSNorm post_attention_layernorm{scope / "post_attention_layernorm", cfg.hidden_size, cfg.rms_norm_eps};
  GatedMLP mlp{scope / "mlp", cfg};

  Tensor forward(Tensor x, Decode& at) const {
    const auto h = x + self_attn(input_layernorm(x), at) * cfg.residual_multiplier;
    return h + mlp(post_attention_layernorm(h)) * cfg.residual_multiplier;
  }
};

GraniteConfig config(const ConfigReader& r) {
  GraniteConfig c{{read_decoder(r, {})}};
  read_granite(c, r);
  c.mlp_bias = r.boolean("mlp_bias", false);
  return c;
}

}  // namespace granite

Family family_granite() { return {.types = {"granite"}, .build = causal_lm_of<GraniteLM<granite::Layer>>(granite::config)}; }

}  // namespace mobius::models
