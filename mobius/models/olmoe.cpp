// OLMoE (arXiv 2409.02060): Llama with small experts, queries and keys normalised as wholes, and q, k and v that may be clipped.
//
//   q, k ← RMSNorm(x·Wq), RMSNorm(x·Wk);   q, k, v ← clip(·, −c, c);   y = Σ softmax(x·Wg)ᵢ · SwiGLUᵢ(x)
#include "mobius/components/moe_layer.hpp"
#include "mobius/models/family.hpp"

namespace mobius::models {
namespace olmoe {

struct Config : MoeConfig {
  std::optional<double> clip_qkv = {};
};

struct Attention : AttentionProjections<Attention, Config> {
  using AttentionProjections::AttentionProjections;

  RMSNorm q_norm{scope / "q_norm", cfg.q_size(), cfg.rms_norm_eps};
  RMSNorm k_norm{scope / "k_norm", cfg.kv_size(), cfg.rms_norm_eps};

  Tensor forward(Tensor x, Decode& at) const {
    const auto q = at.rope(clipped(q_norm(q_proj(x))), cfg.num_attention_heads, cfg.rope);
    const auto k = at.rope(clipped(k_norm(k_proj(x))), cfg.num_key_value_heads, cfg.rope);
    return o_proj(at.attend(q, k, clipped(v_proj(x)), attention_spec(cfg, layer)));
  }

  Tensor clipped(Tensor x) const { return cfg.clip_qkv ? clip(x, -*cfg.clip_qkv, *cfg.clip_qkv) : x; }
};

using Olmoe = CausalLM<PreNormLayer<Attention, SoftmaxExperts, Config>, Config>;

Config config(const ConfigReader& r) {
  Config c{{read_decoder(r, {.vocab_size = 50304,
                             .hidden_size = 2048,
                             .intermediate_size = 2048,
                             .num_hidden_layers = 16,
                             .num_attention_heads = 16,
                             .max_position_embeddings = 4096,
                             .rms_norm_eps = 1e-5})}};
  c.qkv_bias = c.o_bias = r.boolean("attention_bias", false);
  c.clip_qkv = r.nullable_positive("clip_qkv", std::nullopt);
  c.num_experts = r.size("num_experts", r.size("num_local_experts", 64));
  c.experts_per_token = r.size("num_experts_per_tok", 8);
  c.expert_size = c.intermediate_size;
  c.normalise = r.boolean("norm_topk_prob", false);
  check_experts(c, r);
  return c;
}

}  // namespace olmoe

Family family_olmoe() { return {.types = {"olmoe"}, .build = causal_lm_of<olmoe::Olmoe>(olmoe::config)}; }

}  // namespace mobius::models
