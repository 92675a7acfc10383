// Persimmon (Adept 2023; transformers modeling_persimmon.py): LayerNorm, also of each query and key head; rotary positions on a part of each head; a
// squared ReLU.
//
//   q, k = rope(LN(x·Wq)), rope(LN(x·Wk));   MLP(x) = down(relu(up(x))²)
#include "mobius/components/layer_norm_decoder.hpp"
#include "mobius/models/family.hpp"

namespace mobius::models {
namespace persimmon {

using Config = HeadLayerNormConfig;

struct Attention : HeadLayerNormAttention {
  Attention(const Scope& s, const Config& c, std::int64_t layer_index) : HeadLayerNormAttention(s, c, layer_index, fused_qkv(s / "query_key_value", c)) {}
};

struct MLP : FeedForward {
  MLP(const Scope& at, const DecoderConfig& cfg) : FeedForward(at, {"dense_h_to_4h", "dense_4h_to_h"}, cfg) {}
};

using Persimmon = CausalLM<PreNormLayer<Attention, MLP, Config, LayerNorm>, Config, LayerNorm>;

Config config(const ConfigReader& r) {
  Config c{read_decoder(r, {.vocab_size = 262144,
                            .intermediate_size = 16384,
                            .num_hidden_layers = 36,
                            .num_attention_heads = 64,
                            .max_position_embeddings = 16384,
                            .rms_norm_eps = 1e-5,
                            .hidden_act = "relu2",
                            .rope = {.partial_rotary_factor = 0.5},
                            .own_names = {{"rms_norm_eps", "layer_norm_eps"}}})};
  c.num_key_value_heads = c.num_attention_heads;
  c.qkv_bias = c.mlp_bias = true;
  c.qk_layernorm = r.boolean("qk_layernorm", true);
  return c;
}

}  // namespace persimmon

Family family_persimmon() {
  return {.types = {"persimmon"}, .ignorable = {"*.rotary_emb.inv_freq"}, .build = causal_lm_of<persimmon::Persimmon>(persimmon::config)};
}

}  // namespace mobius::models
