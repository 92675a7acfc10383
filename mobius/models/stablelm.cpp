// StableLM (arXiv 2402.17834): Llama with LayerNorm and rotary positions on a part of each head. StableLM 2 12B has attention and MLP side by
// side, and normalises each query and key head with weights of its own.
//
//   y = x + Attention(LN(x)) + MLP(LN(x))
#include "mobius/components/layer_norm_decoder.hpp"
#include "mobius/models/family.hpp"

namespace mobius::models {
namespace stablelm {

struct Config : DecoderConfig {
  bool parallel = false;
  bool qk_layernorm = false;
};

struct Attention : AttentionProjections<Attention, Config> {
  using AttentionProjections::AttentionProjections;

  Parameter q_layernorm = head_weights(scope / "q_layernorm", cfg.num_attention_heads);
  Parameter k_layernorm = head_weights(scope / "k_layernorm", cfg.num_key_value_heads);

  Tensor forward(Tensor x, Decode& at) const {
    auto q = q_proj(x), k = k_proj(x);
    if (cfg.qk_layernorm) {
      q = normalise_heads(q, q_layernorm, cfg.rms_norm_eps);
      k = normalise_heads(k, k_layernorm, cfg.rms_norm_eps);
    }
    q = at.rope(q, cfg.num_attention_heads, cfg.rope);
    k = at.rope(k, cfg.num_key_value_heads, cfg.rope);
    return o_proj(at.attend(q, k, v_proj(x), attention_spec(cfg, layer)));
  }

  // Each head's weight is a tensor of its own in the checkpoint: [heads, head_dim] of all.
  Parameter head_weights(const Scope& at, std::int64_t heads) const {
    std::vector<ir::TensorPtr> weights;
    for (std::int64_t i = 0; i < heads; ++i) weights.push_back(Parameter(at / "norms" / i / "weight", {cfg.head_dim}).data());
    return {(at / "weight").path(), ir::stack(weights)};
  }
};

struct Layer : Module<Layer, Config> {
  std::int64_t index;
  Layer(Scope s, const Config& c, std::int64_t i) : Module(std::move(s), c), index(i) {}

  LayerNorm input_layernorm{scope / "input_layernorm", cfg.hidden_size, cfg.rms_norm_eps};
  Attention self_attn{scope / "self_attn", cfg, index};
  LayerNorm post_attention_layernorm{scope / "post_attention_layernorm", cfg.hidden_size, cfg.rms_norm_eps};
  GatedMLP mlp{scope / "mlp", cfg};

  Tensor forward(Tensor x, Decode& at) const {
    const auto n = input_layernorm(x);
    const auto h = x + self_attn(n, at);
    return h + mlp(cfg.parallel ? n : post_attention_layernorm(h));
  }
};

using StableLM = CausalLM<Layer, Config, LayerNorm>;

Config config(const ConfigReader& r) {
  Config c{read_decoder(r, {.vocab_size = 50304,
                            .hidden_size = 2560,
                            .intermediate_size = 6912,
                            .num_key_value_heads = 32,
                            .max_position_embeddings = 4096,
                            .rms_norm_eps = 1e-5,
                            .rope = {.partial_rotary_factor = 0.25},
                            .own_names = {{"rms_norm_eps", "layer_norm_eps"}}})};
  c.qkv_bias = r.boolean("use_qkv_bias", false);
  c.parallel = r.boolean("use_parallel_residual", false);
  c.qk_layernorm = r.boolean("qk_layernorm", false);
  return c;
}

}  // namespace stablelm

Family family_stablelm() {
  return {.types = {"stablelm"}, .ignorable = {"*.rotary_emb.inv_freq"}, .build = causal_lm_of<stablelm::StableLM>(stablelm::config)};
}

}  // namespace mobius::models
