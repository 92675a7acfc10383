// Qwen3-Next (Qwen; transformers modeling_qwen3_next.py): gated delta networks, every fourth layer gated attention, and many small experts with a gated
// one for all tokens.
//
//   h = x + (DeltaNet or GatedAttention)(norm(x));   y = h + (Σ softmax(n·Wg)ᵢ/Σ · SwiGLUᵢ + σ(n·ws) · SwiGLU)(n),   n = norm(h)
//   GatedAttention(x) = (σ(x·Wz) · Attention(q, k, v))·Wo,   q, k = rope(norm(x·Wq)), rope(norm(x·Wk))
#include "mobius/components/qwen_hybrid.hpp"
#include "mobius/models/family.hpp"

namespace mobius::models {
namespace qwen3_next {

// The delta network's projections are stored as two matrices, whose rows are grouped by key head: (q, k, v, z) and (b, a), with several value heads to one key
// head. The rows are put in order at load time.
struct DeltaNet : Module<DeltaNet, GatedDeltaShape> {
  using Module::Module;

  std::int64_t per_key = cfg.value_heads / cfg.key_heads;  // value heads of one key head
  std::int64_t wide = per_key * cfg.value_dim;
  Parameter qkvz{scope / "in_proj_qkvz" / "weight", {2 * cfg.keys() + 2 * cfg.values(), cfg.hidden}};
  Parameter ba{scope / "in_proj_ba" / "weight", {2 * cfg.value_heads, cfg.hidden}};

  Linear in_proj_qkv = rows("in_proj_qkv", qkvz, 2 * (cfg.key_dim + wide), {{0, cfg.key_dim}, {cfg.key_dim, cfg.key_dim}, {2 * cfg.key_dim, wide}});
  Linear in_proj_z = rows("in_proj_z", qkvz, 2 * (cfg.key_dim + wide), {{2 * cfg.key_dim + wide, wide}});
  Linear in_proj_b = rows("in_proj_b", ba, 2 * per_key, {{0, per_key}});
  Linear in_proj_a = rows("in_proj_a", ba, 2 * per_key, {{per_key, per_key}});
  GatedDeltaNet net{scope, cfg};

  Tensor forward(Tensor x, Decode& at) const {
    const auto qkv = in_proj_qkv(x), z = in_proj_z(x), b = in_proj_b(x);
    return net(qkv, z, b, in_proj_a(x), at);
  }

  struct Part {
    std::int64_t first, size;  // within the rows of one key head
  };
  // Each part of all key heads, one part after the other.
  Linear rows(std::string_view name, const Parameter& stored, std::int64_t per_head, const std::vector<Part>& parts) const {
    std::vector<std::int64_t> indices;
    for (const auto& part : parts)
      for (std::int64_t h = 0; h < cfg.key_heads; ++h)
        for (std::int64_t i = 0; i < part.size; ++i) indices.push_back(h * per_head + part.first + i);
    return {scope / name, Parameter((scope / name / "weight").path(), ir::take(stored.data(), 0, std::move(indices)))};
  }
};

using Qwen3Next = CausalLM<QwenHybridLayer<DeltaNet, GatedShareExperts>, QwenHybridConfig, nn::OffsetRMSNorm>;

QwenHybridConfig config(const ConfigReader& r) {
  auto c = read_qwen_hybrid(r, {.vocab_size = 151936,
                                .hidden_size = 2048,
                                .intermediate_size = 5632,
                                .num_hidden_layers = 48,
                                .num_attention_heads = 16,
                                .num_key_value_heads = 2,
                                .head_dim = 256,
                                .max_position_embeddings = 32768,
                                .rope = {.partial_rotary_factor = 0.25}});
  if (r.count("num_experts", 512) == 0) return c;
  read_qwen_experts(c, r, 512, 10);
  c.normalise = r.boolean("norm_topk_prob", true);
  c.sparse = sparse_by_step(r, c.num_hidden_layers);
  return c;
}

}  // namespace qwen3_next

Family family_qwen3_next() {
  return {.types = {"qwen3_next"}, .task = "hybrid-text-generation", .ignorable = {"mtp*"}, .build = causal_lm_of<qwen3_next::Qwen3Next>(qwen3_next::config)};
}

}  // namespace mobius::models
