// Phi-3 (arXiv 2404.14219): Llama whose q, k and v, and whose gate and up projections, are stored as one matrix each; longrope positions.
//
//   [q, k, v] = qkv_proj(x);   [gate, up] = gate_up_proj(x)
#include "mobius/components/decoder.hpp"
#include "mobius/models/family.hpp"

namespace mobius::models {
namespace phi3 {

// The fused matrices are cut into their parts at load time, so that the graph is Llama's and every fusion applies to it.
struct Attention : Module<Attention, DecoderConfig> {
  std::int64_t layer;
  Attention(Scope s, const DecoderConfig& c, std::int64_t layer_index) : Module(std::move(s), c), layer(layer_index) {}

  Parameter qkv_proj{scope / "qkv_proj" / "weight", {cfg.q_size() + 2 * cfg.kv_size(), cfg.hidden_size}};
  Linear q_proj = part("q_proj", 0, cfg.q_size());
  Linear k_proj = part("k_proj", cfg.q_size(), cfg.kv_size());
  Linear v_proj = part("v_proj", cfg.q_size() + cfg.kv_size(), cfg.kv_size());
  Linear o_proj{scope / "o_proj", cfg.q_size(), cfg.hidden_size};

  Tensor forward(Tensor x, Decode& at) const {
    const auto q = at.rope(q_proj(x), cfg.num_attention_heads, cfg.rope);
    const auto k = at.rope(k_proj(x), cfg.num_key_value_heads, cfg.rope);
    return o_proj(at.attend(q, k, v_proj(x), attention_spec(cfg, layer)));
  }

  Linear part(std::string_view name, std::int64_t first, std::int64_t rows) const {
    return {scope / name, qkv_proj.rows((scope / name / "weight").path(), first, first + rows)};
  }
};

using Phi3 = CausalLM<PreNormLayer<Attention, PackedGatedMLP>>;

DecoderConfig config(const ConfigReader& r) {
  auto c = read_decoder(
      r, {.vocab_size = 32064,
          .hidden_size = 3072,
          .intermediate_size = 8192,
          .max_position_embeddings = 4096,
          .rms_norm_eps = 1e-5,
          .rope = {.partial_rotary_factor = 1, .original_max_position_embeddings = 4096, .type_aliases = {{"su", "longrope"}, {"yarn", "longrope"}}}});
  if (c.rope.type != RopeType::standard && c.rope.type != RopeType::longrope) r.unsupported("phi3 has rope types default and longrope only");
  set_window(c, r.nullable_size("sliding_window", std::nullopt));
  return c;
}

}  // namespace phi3

Family family_phi3() { return {.types = {"phi3"}, .ignorable = {"*.rotary_emb.inv_freq"}, .build = causal_lm_of<phi3::Phi3>(phi3::config)}; }

}  // namespace mobius::models
