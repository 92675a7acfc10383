// Phi-1 (arXiv 2306.11644) and Phi-2: one LayerNorm for attention and MLP, which stand side by side; rotary positions on a part of each head;
// biases everywhere, the head included.
//
//   y = x + Attention(LN(x)) + MLP(LN(x))
#include "mobius/components/layer_norm_decoder.hpp"
#include "mobius/models/family.hpp"

namespace mobius::models {
namespace phi {

using Config = HeadLayerNormConfig;

struct Attention : HeadLayerNormAttention {
  Attention(const Scope& s, const Config& c, std::int64_t layer_index) : HeadLayerNormAttention(s, c, layer_index, separate_qkv(s, c)) {}
};

struct MLP : FeedForward {
  MLP(const Scope& at, const DecoderConfig& cfg) : FeedForward(at, {"fc1", "fc2"}, cfg) {}
};

struct Phi : Module<Phi, Config> {
  using Module::Module;

  DecoderStack<ParallelLayer<Attention, MLP, Config>, Config, LayerNorm> model{scope / "model", cfg, scope / "lm_head"};
  Linear lm_head = vocabulary_head(model.head, cfg, model.embed_tokens, true);

  Tensor forward(Tensor input_ids, Decode& at) const { return lm_head(model(model.embed_tokens(input_ids), at)); }
};

Config config(const ConfigReader& r) {
  Config c{read_decoder(r, {.vocab_size = 51200,
                            .hidden_size = 2048,
                            .intermediate_size = 8192,
                            .num_hidden_layers = 24,
                            .rms_norm_eps = 1e-5,
                            .hidden_act = "gelu_new",
                            .rope = {.partial_rotary_factor = 0.5},
                            .own_names = {{"rms_norm_eps", "layer_norm_eps"}}})};
  c.qkv_bias = c.mlp_bias = true;
  c.qk_layernorm = r.boolean("qk_layernorm", false);
  return c;
}

}  // namespace phi

Family family_phi() { return {.types = {"phi"}, .ignorable = {"*.rotary_emb.inv_freq"}, .build = causal_lm_of<phi::Phi>(phi::config)}; }

}  // namespace mobius::models
