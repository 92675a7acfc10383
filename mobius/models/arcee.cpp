// Arcee's AFM (transformers modeling_arcee.py): Llama whose MLP has no gate and a squared ReLU (arXiv 2109.08668):   y = down(relu(up(x))²)
#include "mobius/components/decoder.hpp"
#include "mobius/models/family.hpp"

namespace mobius::models {
namespace arcee {

using Arcee = CausalLM<PreNormLayer<SelfAttention, UngatedMLP>>;

DecoderConfig config(const ConfigReader& r) {
  auto c = read_decoder(r, {.hidden_size = 2560, .intermediate_size = 18432, .max_position_embeddings = 4096, .rms_norm_eps = 1e-5, .hidden_act = "relu2"});
  c.qkv_bias = c.o_bias = r.boolean("attention_bias", false);
  c.mlp_bias = r.boolean("mlp_bias", false);
  return c;
}

}  // namespace arcee

Family family_arcee() { return {.types = {"arcee"}, .build = causal_lm_of<arcee::Arcee>(arcee::config)}; }

}  // namespace mobius::models
