// Multi-head latent attention (arXiv 2405.04434): queries, and keys with values, are made from a narrow latent each; a part of every head is rotated, and
// the keys' part of that is one for all heads.
//
//   cq = RMSNorm(x·Wqa);   q = cq·Wqb = [q_nope, rope(q_rope)]
//   ck = RMSNorm(x·Wka);   k = [ck·Wkb, rope(x·Wkr)],   v = ck·Wvb
//
// Stored matrices hold several of these side by side. They are cut when weights are loaded, and heads are turned around so that the rotated part comes
// first, where RotaryEmbedding rotates. The cache holds keys and values.
#pragma once
#include "mobius/components/deepseek_moe.hpp"

namespace mobius {

struct LatentConfig : GroupedMoeConfig {
  std::optional<std::int64_t> q_lora_rank = {};  // absent: queries are made from x
  std::int64_t kv_lora_rank = 0, qk_nope_head_dim = 0, qk_rope_head_dim = 0, v_head_dim = 0;
  double score_scale = 1;                          // 1/√(size of a query head), times YaRN's m² where it says so
  double q_latent_scale = 1, kv_latent_scale = 1;  // of the normalised latents

  std::int64_t qk_head_dim() const { return qk_nope_head_dim + qk_rope_head_dim; }
};

struct LatentDefaults {
  std::optional<std::int64_t> q_lora_rank = 1536;
  std::int64_t kv_lora_rank = 512, qk_nope_head_dim = 128, qk_rope_head_dim = 64, v_head_dim = 128;
  RopeDefaults rope = {};
};

// Reads the sizes, rope of the rotated part, and the scale of scores. Error unsupported where keys have fewer heads than queries.
void read_latent_attention(LatentConfig& config, const ConfigReader& reader, const LatentDefaults& defaults);

struct LatentAttention : Module<LatentAttention, LatentConfig> {
  std::int64_t layer;
  LatentAttention(Scope s, const LatentConfig& c, std::int64_t layer_index);

  struct QueryLatent {
    Linear down;
    RMSNorm norm;
  };
  std::optional<QueryLatent> q_latent;
  Linear q_proj;
  Linear kv_down, k_rope;
  RMSNorm kv_norm;
  Linear k_nope, v_proj;
  Linear o_proj;

  Tensor forward(Tensor x, Decode& at) const;
};

}  // namespace mobius
