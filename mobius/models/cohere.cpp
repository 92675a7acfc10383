// Command R (Cohere 2024): attention and MLP side by side behind one LayerNorm without bias; rotary positions in neighbouring pairs; scaled
// logits; in some sizes each query and key head is normalised with weights of its own.
//
//   y = x + Attention(LN(x)) + MLP(LN(x));   logits = s · head(LN(y))
//
// Command R7B and Command A (cohere2, arXiv 2504.00698): three of four layers have a sliding window and rotary positions, the others see all
// and have no positions.
#include "mobius/components/layer_norm_decoder.hpp"
#include "mobius/models/family.hpp"

namespace mobius::models {
namespace cohere {

struct Config : LayeredConfig {
  double logit_scale = 0.0625;
  bool qk_norm = false;
};

struct Norm : LayerNorm {
  Norm(const Scope& scope, std::int64_t dim, double eps) : LayerNorm(scope, dim, eps, Affine::weight_only) {}
};

struct Attention : AttentionProjections<Attention, Config> {
  using AttentionProjections::AttentionProjections;

  Parameter q_norm{scope / "q_norm" / "weight", {cfg.num_attention_heads, cfg.head_dim}};
  Parameter k_norm{scope / "k_norm" / "weight", {cfg.num_key_value_heads, cfg.head_dim}};

  Tensor forward(Tensor x, Decode& at) const {
    auto q = q_proj(x), k = k_proj(x);
    if (cfg.qk_norm) {
      q = normalise_heads(q, q_norm, cfg.rms_norm_eps);
      k = normalise_heads(k, k_norm, cfg.rms_norm_eps);
    }
    q = at.rope(q, cfg.num_attention_heads, cfg.rope_of(layer));
    k = at.rope(k, cfg.num_key_value_heads, cfg.rope_of(layer));
    return o_proj(at.attend(q, k, v_proj(x), attention_spec(cfg, layer)));
  }
};

struct Cohere : Module<Cohere, Config> {
  using Module::Module;

  DecoderStack<ParallelLayer<Attention, GatedMLP, Config, Norm>, Config, Norm> model{scope / "model", cfg, scope / "lm_head"};
  Linear lm_head = model.make_head();

  Tensor forward(Tensor input_ids, Decode& at) const { return lm_head(model(model.embed_tokens(input_ids), at)) * cfg.logit_scale; }
};

Config config(const ConfigReader& r) {
  const bool second = r.model_type() == "cohere2";
  Config c{{read_decoder(r, {.vocab_size = 256000,
                             .hidden_size = 8192,
                             .intermediate_size = 22528,
                             .num_hidden_layers = 40,
                             .num_attention_heads = 64,
                             .max_position_embeddings = 8192,
                             .rms_norm_eps = 1e-5,
                             .tie_word_embeddings = true,
                             .rope = {.theta = second ? 10000.0 : 500000.0, .interleaved = true},
                             .own_names = {{"rms_norm_eps", "layer_norm_eps"}}}),
            {}}};
  c.qkv_bias = c.o_bias = r.boolean("attention_bias", false);
  c.logit_scale = r.number("logit_scale", 0.0625);
  if (second)
    set_window_by_layer(c, r, r.nullable_size("sliding_window", 4096),
                        all_but_every(r.optional_size("sliding_window_pattern").value_or(4), c.num_hidden_layers));
  else c.qk_norm = r.boolean("use_qk_norm", false);
  for (std::int64_t i = 0; i < c.num_hidden_layers; ++i) c.rope_by_layer.push_back(second && !c.window(i) ? std::nullopt : std::optional(c.rope));
  return c;
}

}  // namespace cohere

Family family_cohere() {
  return {.types = {"cohere", "cohere2"}, .ignorable = {"*.rotary_emb.inv_freq"}, .build = causal_lm_of<cohere::Cohere>(cohere::config)};
}

}  // namespace mobius::models
