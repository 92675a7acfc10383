// GLM-4.5 (arXiv 2508.06471): a Llama-style decoder with DeepSeek's experts that rotates a part of each head, and may normalise query and key heads.
//
//   s = σ(x·Wg);   chosen: the k largest of s + b within the best groups;   y = c · Σ sᵢ/Σs · SwiGLUᵢ(x) + SwiGLU(x)
#include "mobius/components/deepseek_moe.hpp"
#include "mobius/components/one_of.hpp"
#include "mobius/models/family.hpp"

namespace mobius::models {
namespace glm4_moe {

struct Config : GroupedMoeConfig {
  bool head_norms = false;
};

struct Attention : OneOf<SelfAttention, HeadNormAttention> {
  Attention(const Scope& s, const Config& c, std::int64_t layer)
      : OneOf(c.head_norms ? OneOf(HeadNormAttention(s, c, layer)) : OneOf(SelfAttention(s, c, layer))) {}
};

using Glm4Moe = CausalLM<MoeLayer<Attention, CorrectedExperts, Config>, Config>;

// The published sizes go with a head size of their own; with others it follows from them.
std::optional<std::int64_t> head_dim_without_key(const ConfigReader& r) {
  return r.has("hidden_size") || r.has("num_attention_heads") ? std::nullopt : std::optional<std::int64_t>(128);
}

Config config(const ConfigReader& r) {
  Config c{{{read_decoder(r, {.vocab_size = 151552,
                              .intermediate_size = 10944,
                              .num_hidden_layers = 46,
                              .num_attention_heads = 96,
                              .num_key_value_heads = 8,
                              .head_dim = head_dim_without_key(r),
                              .max_position_embeddings = 131072,
                              .rms_norm_eps = 1e-5,
                              .rope = {.partial_rotary_factor = 0.5}})}}};
  c.qkv_bias = r.boolean("attention_bias", false);
  c.head_norms = r.boolean("use_qk_norm", false);
  read_grouped_experts(c, r, {.experts = 128, .expert_size = 1408, .dense_layers = 1});
  return c;
}

}  // namespace glm4_moe

// Checkpoints hold one more layer, which predicts the token after the next.
Family family_glm4_moe() {
  return {.types = {"glm4_moe"}, .ignorable = {"model.layers.46.*", "model.layers.92.*"}, .build = causal_lm_of<glm4_moe::Glm4Moe>(glm4_moe::config)};
}

}  // namespace mobius::models
