// StarCoder2 (arXiv 2402.19173): Llama with LayerNorm, biases, an ungated MLP, and a sliding window in some sizes.
//
//   h = x + Attention(LN(x));   y = h + c_proj(gelu(c_fc(LN(h))))
#include "mobius/components/layer_norm_decoder.hpp"
#include "mobius/models/family.hpp"

namespace mobius::models {
namespace starcoder2 {

using Starcoder2 = CausalLM<PreNormLayer<SelfAttention, GptFeedForward, DecoderConfig, LayerNorm>, DecoderConfig, LayerNorm>;

DecoderConfig config(const ConfigReader& r) {
  auto c = read_decoder(r, {.vocab_size = 49152,
                            .hidden_size = 3072,
                            .intermediate_size = 12288,
                            .num_hidden_layers = 30,
                            .num_attention_heads = 24,
                            .num_key_value_heads = 2,
                            .max_position_embeddings = 4096,
                            .rms_norm_eps = 1e-5,
                            .hidden_act = "gelu_pytorch_tanh",
                            .tie_word_embeddings = true,
                            .own_names = {{"rms_norm_eps", "norm_epsilon"}}});
  c.qkv_bias = c.o_bias = c.mlp_bias = r.boolean("use_bias", true);
  set_window(c, r.nullable_size("sliding_window", std::nullopt));
  return c;
}

}  // namespace starcoder2

Family family_starcoder2() {
  return {.types = {"starcoder2"}, .ignorable = {"*.rotary_emb.inv_freq"}, .build = causal_lm_of<starcoder2::Starcoder2>(starcoder2::config)};
}

}  // namespace mobius::models
