// GLM-4 (arXiv 2406.12793) in its first form: Llama that rotates neighbouring elements in half of each head, with packed gate and up.
//
//   q, k = [rope(first half), second half];   [gate, up] = gate_up(x),   MLP(x) = down(silu(gate) · up)
//
// GLM-4 0414 (glm4, Z.ai; transformers modeling_glm4.py) has two more norms, behind attention and MLP:
//
//   h = x + norm(Attention(norm(x)));   y = h + norm(MLP(norm(h)))
#include "mobius/components/decoder.hpp"
#include "mobius/models/family.hpp"

namespace mobius::models {
namespace glm {

using Glm = CausalLM<PreNormLayer<SelfAttention, PackedGatedMLP>>;

struct NormedLayer : Module<NormedLayer, DecoderConfig> {
  std::int64_t layer;
  NormedLayer(Scope s, const DecoderConfig& c, std::int64_t layer_index) : Module(std::move(s), c), layer(layer_index) {}

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

using Glm4 = CausalLM<NormedLayer>;

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

std::vector<Component> build(const ConfigReader& r, ir::DataType dtype) {
  return r.model_type() == "glm4" ? causal_lm_of<Glm4>(config)(r, dtype) : causal_lm_of<Glm>(config)(r, dtype);
}

}  // namespace glm

Family family_glm() { return {.types = {"glm", "glm4"}, .build = glm::build}; }

}  // namespace mobius::models
