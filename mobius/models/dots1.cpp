// dots.llm1 (arXiv 2506.05767): a decoder with normalised query and key heads and DeepSeek's experts; windows in the upper layers where there are any.
//
//   q, k = rope(RMSNorm(x·Wq)), rope(RMSNorm(x·Wk));   s = σ(x·Wg);   y = c · Σ sᵢ/Σs · SwiGLUᵢ(x) + SwiGLU(x),   the k largest of s + b
#include "mobius/components/deepseek_moe.hpp"
#include "mobius/models/family.hpp"

namespace mobius::models {
namespace dots1 {

using Dots1 = CausalLM<MoeLayer<HeadNormAttention, CorrectedExperts, GroupedMoeConfig>, GroupedMoeConfig>;

GroupedMoeConfig config(const ConfigReader& r) {
  GroupedMoeConfig c{
      {read_decoder(r, {.vocab_size = 152064, .hidden_size = 4608, .intermediate_size = 10944, .num_hidden_layers = 62, .num_key_value_heads = 32})}};
  c.qkv_bias = c.o_bias = r.boolean("attention_bias", false);
  const auto window = r.nullable_size("sliding_window", 4096);
  const auto from = r.integer("max_window_layers", 62);
  std::vector<bool> sliding(static_cast<std::size_t>(c.num_hidden_layers));
  for (std::size_t i = 0; i < sliding.size(); ++i) sliding[i] = window && static_cast<std::int64_t>(i) >= from;
  set_window_by_layer(c, r, window, sliding);
  // The type has no defaults of its own for the experts' numbers; these are the published model's.
  read_grouped_experts(c, r, {.experts = 128, .experts_per_token = 6, .expert_size = 1408, .shared_experts = 2, .normalise = false});
  return c;
}

}  // namespace dots1

Family family_dots1() { return {.types = {"dots1"}, .build = causal_lm_of<dots1::Dots1>(dots1::config)}; }

}  // namespace mobius::models
