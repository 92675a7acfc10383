// Qwen1.5-MoE, Qwen2-MoE (arXiv 2407.10671): Qwen2 with many small experts, and one that every token goes to, behind a gate of its own:
//   y = Σ softmax(x·Wg)ᵢ · SwiGLUᵢ(x) + σ(x·ws) · SwiGLU(x)
#include "mobius/components/moe_layer.hpp"
#include "mobius/models/family.hpp"

namespace mobius::models {
namespace qwen2_moe {

using Qwen2Moe = CausalLM<MoeLayer<SelfAttention, GatedShareExperts>, MoeConfig>;

// Without layer_types every other of the first max_window_layers layers has the window.
void set_windows(MoeConfig& c, const ConfigReader& r) {
  const bool used = r.boolean("use_sliding_window", false);
  const auto window = used ? r.nullable_size("sliding_window", 4096) : std::nullopt;  // may be 0 where it isn't used
  const auto below = r.integer("max_window_layers", 28);
  std::vector<bool> sliding(static_cast<std::size_t>(c.num_hidden_layers));
  for (std::size_t i = 0; i < sliding.size(); ++i) sliding[i] = used && i % 2 == 0 && static_cast<std::int64_t>(i) < below;
  set_window_by_layer(c, r, window, sliding);
}

MoeConfig config(const ConfigReader& r) {
  MoeConfig c{read_decoder(r, {.vocab_size = 151936,
                               .hidden_size = 2048,
                               .intermediate_size = 5632,
                               .num_hidden_layers = 24,
                               .num_attention_heads = 16,
                               .num_key_value_heads = 16,
                               .max_position_embeddings = 32768})};
  c.qkv_bias = r.boolean("qkv_bias", true);
  set_windows(c, r);
  c.num_experts = r.size("num_experts", 60);
  c.experts_per_token = r.size("num_experts_per_tok", 4);
  c.expert_size = r.size("moe_intermediate_size", 1408);
  c.shared_size = r.size("shared_expert_intermediate_size", 5632);
  c.normalise = r.boolean("norm_topk_prob", false);
  c.sparse = sparse_by_step(r, c.num_hidden_layers);
  check_experts(c, r);
  return c;
}

}  // namespace qwen2_moe

Family family_qwen2_moe() {
  return {.types = {"qwen2_moe"}, .ignorable = {"*.rotary_emb.inv_freq"}, .build = causal_lm_of<qwen2_moe::Qwen2Moe>(qwen2_moe::config)};
}

}  // namespace mobius::models
