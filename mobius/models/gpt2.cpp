// GPT-2 (Radford et al. 2019): learned positions, LayerNorm before attention and MLP, a tied head.
//
//   x = wte[token] + wpe[position];   h = x + Attention(LN(x));   y = h + MLP(LN(h))
#include <cmath>

#include "mobius/components/layer_norm_decoder.hpp"
#include "mobius/models/family.hpp"

namespace mobius::models {
namespace gpt2 {

struct Config : DecoderConfig {
  bool scale = true;            // by 1/√head_dim
  bool scale_by_layer = false;  // also by 1/(layer + 1)
};

struct Attention : Module<Attention, Config> {
  std::int64_t layer;
  Attention(Scope s, const Config& c, std::int64_t layer_index) : Module(std::move(s), c), layer(layer_index) {}

  Projections<Conv1D> c_attn = joined_conv1d(scope / "c_attn", cfg);
  Conv1D c_proj{scope / "c_proj", cfg.q_size(), cfg.hidden_size};

  Tensor forward(Tensor x, Decode& at) const {
    auto spec = attention_spec(cfg, layer);
    spec.scale = (cfg.scale ? 1 / std::sqrt(static_cast<double>(cfg.head_dim)) : 1) / (cfg.scale_by_layer ? static_cast<double>(layer + 1) : 1);
    const auto [q, k, v] = c_attn(x);
    return c_proj(at.attend(q, k, v, spec));
  }
};

struct Layer : Module<Layer, Config> {
  std::int64_t index;
  Layer(Scope s, const Config& c, std::int64_t i) : Module(std::move(s), c), index(i) {}

  LayerNorm ln_1{scope / "ln_1", cfg.hidden_size, cfg.rms_norm_eps};
  Attention attn{scope / "attn", cfg, index};
  LayerNorm ln_2{scope / "ln_2", cfg.hidden_size, cfg.rms_norm_eps};
  Conv1DFeedForward mlp{scope / "mlp", cfg};

  Tensor forward(Tensor x, Decode& at) const {
    const auto h = x + attn(ln_1(x), at);
    return h + mlp(ln_2(h));
  }
};

struct GPT2 : Module<GPT2, Config> {
  using Module::Module;
  Scope transformer = (scope / "transformer").or_left_out();
  Scope head = scope / "lm_head";

  Embedding wte = token_embedding(transformer / "wte", cfg, head);
  Embedding wpe{transformer / "wpe", cfg.max_position_embeddings, cfg.hidden_size};
  std::vector<Layer> h = layers_of<Layer>(transformer / "h", cfg);
  LayerNorm ln_f{transformer / "ln_f", cfg.hidden_size, cfg.rms_norm_eps};
  Linear lm_head = vocabulary_head(head, cfg, wte);

  Tensor forward(Tensor input_ids, Decode& at) const {
    auto x = wte(input_ids);
    x = x + learned_positions(wpe, at);
    for (const auto& layer : h) x = layer(x, at);
    return lm_head(ln_f(x));
  }
};

Config config(const ConfigReader& r) {
  Config c{read_decoder_without_rope(r, {.vocab_size = 50257,
                                         .hidden_size = 768,
                                         .num_hidden_layers = 12,
                                         .num_attention_heads = 12,
                                         .max_position_embeddings = 1024,
                                         .rms_norm_eps = 1e-5,
                                         .hidden_act = "gelu_new",
                                         .tie_word_embeddings = true,
                                         .own_names = gpt_names})};
  c.intermediate_size = r.optional_size("n_inner").value_or(4 * c.hidden_size);
  c.scale = r.boolean("scale_attn_weights", true);
  c.scale_by_layer = r.boolean("scale_attn_by_inverse_layer_idx", false);
  r.only("add_cross_attention", false);
  return c;
}

}  // namespace gpt2

Family family_gpt2() { return {.types = {"gpt2"}, .ignorable = {"*.attn.bias", "*.attn.masked_bias"}, .build = causal_lm_of<gpt2::GPT2>(gpt2::config)}; }

}  // namespace mobius::models
