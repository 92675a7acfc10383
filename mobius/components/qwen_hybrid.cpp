// Configs of Qwen's hybrids.
#include "mobius/components/qwen_hybrid.hpp"

namespace mobius {

QwenHybridConfig read_qwen_hybrid(const ConfigReader& r, const DecoderDefaults& defaults) {
  QwenHybridConfig c{{read_decoder(r, defaults)}};
  c.qkv_bias = c.o_bias = r.boolean("attention_bias", false);
  c.delta = read_gated_delta(r, c.hidden_size, c.rms_norm_eps);
  const auto period = r.size("full_attention_interval", 4);
  std::vector<std::string> otherwise;
  for (std::int64_t i = 0; i < c.num_hidden_layers; ++i) otherwise.emplace_back((i + 1) % period == 0 ? "full_attention" : "linear_attention");
  c.kinds = read_layer_kinds(r, "layer_types", {"linear_attention", "full_attention"}, std::move(otherwise));
  c.sparse.assign(static_cast<std::size_t>(c.num_hidden_layers), false);
  return c;
}

void read_qwen_experts(QwenHybridConfig& c, const ConfigReader& r, std::int64_t num_experts, std::int64_t experts_per_token) {
  c.num_experts = r.size("num_experts", num_experts);
  c.experts_per_token = r.size("num_experts_per_tok", experts_per_token);
  c.expert_size = r.size("moe_intermediate_size", 512);
  c.shared_size = r.size("shared_expert_intermediate_size", 512);
  check_experts(c, r);
}

}  // namespace mobius
