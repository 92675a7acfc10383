// GLM-4 0414 (Z.ai; transformers modeling_glm4.py): GLM with two more norms, behind attention and MLP.
//
//   h = x + norm(Attention(norm(x)));   y = h + norm(MLP(norm(h)))
#include "mobius/components/decoder.hpp"
#include "mobius/models/family.hpp"

namespace mobius::models {
namespace glm4 {

struct Layer : Module<Layer, DecoderConfig> {
  std::int64_t layer;
  Layer(Scope s, const DecoderConfig& c, std::int64_t layer_index) : Module(std::move(s), c), layer(layer_index) {}

  RMSNorm input_layernorm{scope / "input_layernorm", cfg.hidden_size, cfg.rms_norm_eps};
  SelfAttention self_attn{scope / "self_attn", cfg, layer};
  RMSNorm post_self_attn_layernorm{scope / "post_self_attn_layernorm", cfg.hidden_size, cfg.rms_norm_eps};
  RMSNorm post_attention_layernorm{scope / "post_attention_layernorm", cfg.hidden_size, cfg.rms_norm_eps};
  PackedGatedMLP mlp{scope / "mlp", cfg};
  RMSNorm post_mlp_layernorm{scope / "post_mlp_layernorm", cfg.hidden_size, cfg.rms_norm_eps};

  Tensor forward(Tensor x, Decode& at) const {
    const auto h = x + post_self_attn_layernorm(self_attn(input_layernorm(x), at));
    return h + post_mlp_layernorm(mlp(post_attention_layernorm(h)));
  }
};

using Glm4 = CausalLM<Layer>;

DecoderConfig config(const ConfigReader& r) {
  auto c = read_decoder(r, {.vocab_size = 151552,
                            .intermediate_size = 13696,
                            .num_hidden_layers = 40,
                            .num_key_value_heads = 2,
                            .head_dim = 128,
                            .max_position_embeddings = 131072,
                            .rms_norm_eps = 1.5625e-7,
                            .rope = {.partial_rotary_factor = 0.5, .interleaved = true}});
  c.qkv_bias = r.boolean("attention_bias", true);
  return c;
}

}  // namespace glm4

Family family_glm4() { return {.types = {"glm4"}, .build = causal_lm_of<glm4::Glm4>(glm4::config)}; }

}  // namespace mobius::models
