// Gemma 3 (arXiv 2503.19786), its language model: Gemma 2 with normalised heads instead of capped scores, five layers of six with a sliding
// window, and positions of their own in those.
//
//   q, k = rope(norm(x·Wq)), rope(norm(x·Wk));   score = q·k / √query_pre_attn_scalar
#include "mobius/components/gemma.hpp"
#include "mobius/models/family.hpp"

namespace mobius::models {
namespace gemma3_text {

using Attention = NormedHeadAttention<GemmaConfig, nn::OffsetRMSNorm>;
using Gemma3 = GemmaLM<SandwichNormLayer<Attention, GatedMLP, GemmaConfig>, GemmaConfig>;

GemmaConfig config(const ConfigReader& r) {
  auto c = read_gemma(r, {.vocab_size = 262208,
                          .hidden_size = 2304,
                          .intermediate_size = 9216,
                          .num_hidden_layers = 26,
                          .num_attention_heads = 8,
                          .num_key_value_heads = 4,
                          .head_dim = 256,
                          .max_position_embeddings = 131072,
                          .tie_word_embeddings = true});
  // The definition reads attn_logit_softcapping too, and then does nothing with it.
  c.logits_softcap = r.nullable_positive("final_logit_softcapping", std::nullopt);
  const auto sliding = sliding_layers(c, r, all_but_every(r.optional_size("sliding_window_pattern").value_or(6), c.num_hidden_layers));
  set_window_by_layer(c, r, r.nullable_size("sliding_window", 4096), sliding);
  set_rope_by_kind(c, sliding, read_rope_of_kind(r, "full_attention", c.rope_shape(), {.theta = 1000000}, "rope_theta"),
                   read_rope_of_kind(r, "sliding_attention", c.rope_shape(), {.theta = 10000}, "rope_local_base_freq"));
  return c;
}

}  // namespace gemma3_text

Family family_gemma3_text() { return {.types = {"gemma3_text"}, .build = causal_lm_of<gemma3_text::Gemma3>(gemma3_text::config)}; }

}  // namespace mobius::models
