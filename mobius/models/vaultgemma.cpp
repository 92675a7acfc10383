// VaultGemma (arXiv 2510.15001): Gemma 2 without the norms behind the branches.
//
//   h = x + Attention(norm(x));   y = h + MLP(norm(h))
#include "mobius/components/gemma.hpp"
#include "mobius/models/family.hpp"

namespace mobius::models {
namespace vaultgemma {

struct Layer : Module<Layer, GemmaConfig> {
  std::int64_t layer;
  Layer(Scope s, const GemmaConfig& c, std::int64_t layer_index) : Module(std::move(s), c), layer(layer_index) {}

  nn::OffsetRMSNorm input_layernorm{scope / "input_layernorm", cfg.hidden_size, cfg.rms_norm_eps};
  GemmaAttention self_attn{scope / "self_attn", cfg, layer};
  nn::OffsetRMSNorm pre_feedforward_layernorm{scope / "pre_feedforward_layernorm", cfg.hidden_size, cfg.rms_norm_eps};
  GatedMLP mlp{scope / "mlp", cfg};

  Tensor forward(Tensor x, Decode& at) const {
    const auto h = x + self_attn(input_layernorm(x), at);
    return h + mlp(pre_feedforward_layernorm(h));
  }
};

using VaultGemma = GemmaLM<Layer, GemmaConfig>;

GemmaConfig config(const ConfigReader& r) {
  auto c = read_gemma(r, {.vocab_size = 256000,
                          .hidden_size = 2304,
                          .intermediate_size = 9216,
                          .num_hidden_layers = 26,
                          .num_attention_heads = 8,
                          .num_key_value_heads = 4,
                          .head_dim = 256,
                          .max_position_embeddings = 8192,
                          .tie_word_embeddings = true});
  c.attention_softcap = r.nullable_positive("attn_logit_softcapping", 50);
  c.logits_softcap = r.nullable_positive("final_logit_softcapping", 30);
  set_window_by_layer(c, r, r.nullable_size("sliding_window", 4096), all_but_every(2, c.num_hidden_layers));
  set_rope(c, read_rope(r, c.rope_shape(), {}));
  return c;
}

}  // namespace vaultgemma

Family family_vaultgemma() { return {.types = {"vaultgemma"}, .build = causal_lm_of<vaultgemma::VaultGemma>(vaultgemma::config)}; }

}  // namespace mobius::models
