// Nemotron (arXiv 2402.16819, 2407.14679): Llama with LayerNorm whose weights are stored as their distance from one, rotary positions on a part
// of each head, and an ungated MLP with a squared ReLU.
//
//   LN(x) = (x − mean(x)) / √(var(x) + ε) · (1 + weight) + bias
#include "mobius/components/layer_norm_decoder.hpp"
#include "mobius/models/family.hpp"

namespace mobius::models {
namespace nemotron {

struct Norm : LayerNorm {
  Norm(const Scope& scope, std::int64_t dim, double eps)
      : LayerNorm(scope, Parameter(scope / "weight", {dim}).plus(1), Parameter(scope / "bias", {dim}), eps) {}
};

using Nemotron = CausalLM<PreNormLayer<SelfAttention, UngatedMLP, DecoderConfig, Norm>, DecoderConfig, Norm>;

DecoderConfig config(const ConfigReader& r) {
  auto c = read_decoder(r, {.vocab_size = 256000,
                            .hidden_size = 6144,
                            .intermediate_size = 24576,
                            .num_attention_heads = 48,
                            .max_position_embeddings = 4096,
                            .rms_norm_eps = 1e-5,
                            .hidden_act = "relu2",
                            .rope = {.partial_rotary_factor = 0.5},
                            .own_names = {{"rms_norm_eps", "norm_eps"}}});
  c.qkv_bias = c.o_bias = r.boolean("attention_bias", false);
  c.mlp_bias = r.boolean("mlp_bias", false);
  return c;
}

}  // namespace nemotron

Family family_nemotron() {
  return {.types = {"nemotron"}, .ignorable = {"*.rotary_emb.inv_freq"}, .build = causal_lm_of<nemotron::Nemotron>(nemotron::config)};
}

}  // namespace mobius::models
