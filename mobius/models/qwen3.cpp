// Qwen3 (arXiv 2505.09388): a Llama-style decoder whose query and key heads are RMS-normalised before they are rotated.
#include "mobius/components/decoder.hpp"
#include "mobius/models/family.hpp"

namespace mobius::models {
namespace qwen3 {

struct Attention : Module<Attention, DecoderConfig> {
  std::int64_t layer;
  Attention(Scope s, const DecoderConfig& c, std::int64_t layer_index) : Module(std::move(s), c), layer(layer_index) {}

  Linear q_proj{scope / "q_proj", cfg.hidden_size, cfg.q_size(), cfg.qkv_bias};
  Linear k_proj{scope / "k_proj", cfg.hidden_size, cfg.kv_size(), cfg.qkv_bias};
  Linear v_proj{scope / "v_proj", cfg.hidden_size, cfg.kv_size(), cfg.qkv_bias};
  Linear o_proj{scope / "o_proj", cfg.q_size(), cfg.hidden_size, cfg.o_bias};
  RMSNorm q_norm{scope / "q_norm", cfg.head_dim, cfg.rms_norm_eps};
  RMSNorm k_norm{scope / "k_norm", cfg.head_dim, cfg.rms_norm_eps};

  Tensor forward(Tensor x, Decode& at) const {
    const auto q = at.rope(per_head(q_norm, q_proj(x), cfg.num_attention_heads), cfg.num_attention_heads, cfg.rope);
    const auto k = at.rope(per_head(k_norm, k_proj(x), cfg.num_key_value_heads), cfg.num_key_value_heads, cfg.rope);
    return o_proj(at.attend(q, k, v_proj(x), attention_spec(cfg, layer)));
  }
};

using Qwen3 = CausalLM<PreNormLayer<Attention, GatedMLP>>;

DecoderConfig config(const ConfigReader& r) {
  auto c = read_decoder(r, {.vocab_size = 151936, .intermediate_size = 22016, .num_key_value_heads = 32, .head_dim = 128, .max_position_embeddings = 32768});
  c.qkv_bias = c.o_bias = r.boolean("attention_bias", false);
  set_window_above(c, r);
  return c;
}

}  // namespace qwen3

Family family_qwen3() { return {.types = {"qwen3"}, .build = causal_lm_of<qwen3::Qwen3>(qwen3::config)}; }

}  // namespace mobius::models
