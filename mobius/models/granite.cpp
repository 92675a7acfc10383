// Granite (IBM): Llama with four constants: of the embedding (e), the attention scores (a), the branches (r) and the logits (l).
//
//   x = e · embed(ids);   h = x + r · Attention(RMSNorm(x));   y = h + r · MLP(RMSNorm(h));   logits = head(y) / l
#include "mobius/components/decoder.hpp"
#include "mobius/models/family.hpp"

namespace mobius::models {
namespace granite {

struct Config : DecoderConfig {
  double embedding_multiplier = 1, attention_multiplier = 1, residual_multiplier = 1, logits_scaling = 1;
};

struct Attention : AttentionProjections<Attention, Config> {
  using AttentionProjections::AttentionProjections;

  Tensor forward(Tensor x, Decode& at) const {
    const auto q = at.rope(q_proj(x), cfg.num_attention_heads, cfg.rope);
    const auto k = at.rope(k_proj(x), cfg.num_key_value_heads, cfg.rope);
    auto spec = attention_spec(cfg, layer);
    spec.scale = cfg.attention_multiplier;
    return o_proj(at.attend(q, k, v_proj(x), spec));
  }
};

struct Layer : Module<Layer, Config> {
  std::int64_t layer;
  Layer(Scope s, const Config& c, std::int64_t layer_index) : Module(std::move(s), c), layer(layer_index) {}

  RMSNorm input_layernorm{scope / "input_layernorm", cfg.hidden_size, cfg.rms_norm_eps};
  Attention self_attn{scope / "self_attn", cfg, layer};
  RMSNorm post_attention_layernorm{scope / "post_attention_layernorm", cfg.hidden_size, cfg.rms_norm_eps};
  GatedMLP mlp{scope / "mlp", cfg};

  Tensor forward(Tensor x, Decode& at) const {
    const auto h = x + self_attn(input_layernorm(x), at) * cfg.residual_multiplier;
    return h + mlp(post_attention_layernorm(h)) * cfg.residual_multiplier;
  }
};

struct Granite : Module<Granite, Config> {
  using Module::Module;

  DecoderStack<Layer, Config> model{scope / "model", cfg, scope / "lm_head"};
  Linear lm_head = model.make_head();

  Tensor forward(Tensor input_ids, Decode& at) const {
    const auto x = model.embed_tokens(input_ids) * cfg.embedding_multiplier;
    return lm_head(model(x, at)) / cfg.logits_scaling;
  }
};

Config config(const ConfigReader& r) {
  Config c{read_decoder(r, {})};
  c.qkv_bias = c.o_bias = r.boolean("attention_bias", false);
  c.mlp_bias = r.boolean("mlp_bias", false);
  c.embedding_multiplier = r.number("embedding_multiplier", 1);
  c.attention_multiplier = r.positive("attention_multiplier", 1);
  c.residual_multiplier = r.number("residual_multiplier", 1);
  c.logits_scaling = r.positive("logits_scaling", 1);
  return c;
}

}  // namespace granite

Family family_granite() { return {.types = {"granite"}, .build = causal_lm_of<granite::Granite>(granite::config)}; }

}  // namespace mobius::models
