// BLOOM (arXiv 2211.05100): no positions but ALiBi, scores that fall with the distance; LayerNorm, also of the embeddings.
//
//   score(query, key) = q · k / √d − slope(head) · distance(query, key)
#include "mobius/components/layer_norm_decoder.hpp"
#include "mobius/models/family.hpp"

namespace mobius::models {
namespace bloom {

struct Config : DecoderConfig {
  bool residual_behind_norm = false;  // what is added to a branch is what the branch took, normalised
};

struct Attention : Module<Attention, Config> {
  std::int64_t layer;
  Attention(Scope s, const Config& c, std::int64_t layer_index) : Module(std::move(s), c), layer(layer_index) {}

  QKV query_key_value = fused_qkv(scope / "query_key_value", cfg);
  Linear dense{scope / "dense", cfg.q_size(), cfg.hidden_size, true};

  Tensor forward(Tensor x, Decode& at, Tensor distances) const {
    auto spec = attention_spec(cfg, layer);
    spec.bias = distances;
    const auto [q, k, v] = query_key_value(x);
    return dense(at.attend(q, k, v, spec));
  }
};

struct Layer : Module<Layer, Config> {
  std::int64_t index;
  Layer(Scope s, const Config& c, std::int64_t i) : Module(std::move(s), c), index(i) {}

  LayerNorm input_layernorm{scope / "input_layernorm", cfg.hidden_size, cfg.rms_norm_eps};
  Attention self_attention{scope / "self_attention", cfg, index};
  LayerNorm post_attention_layernorm{scope / "post_attention_layernorm", cfg.hidden_size, cfg.rms_norm_eps};
  FeedForward mlp{scope / "mlp", {"dense_h_to_4h", "dense_4h_to_h"}, cfg};

  Tensor forward(Tensor x, Decode& at, Tensor distances) const {
    const auto n = input_layernorm(x);
    const auto h = (cfg.residual_behind_norm ? n : x) + self_attention(n, at, distances);
    const auto m = post_attention_layernorm(h);
    return (cfg.residual_behind_norm ? m : h) + mlp(m);
  }
};

struct Bloom : Module<Bloom, Config> {
  using Module::Module;
  Scope transformer = (scope / "transformer").or_left_out();
  Scope head = scope / "lm_head";

  Embedding word_embeddings = token_embedding(transformer / "word_embeddings", cfg, head);
  LayerNorm word_embeddings_layernorm{transformer / "word_embeddings_layernorm", cfg.hidden_size, cfg.rms_norm_eps};
  std::vector<Layer> h = layers_of<Layer>(transformer / "h", cfg);
  LayerNorm ln_f{transformer / "ln_f", cfg.hidden_size, cfg.rms_norm_eps};
  Linear lm_head = vocabulary_head(head, cfg, word_embeddings);

  Tensor forward(Tensor input_ids, Decode& at) const {
    const auto distances = alibi(at, alibi_slopes(cfg.num_attention_heads));
    auto x = word_embeddings_layernorm(word_embeddings(input_ids));
    for (const auto& layer : h) x = layer(x, at, distances);
    return lm_head(ln_f(x));
  }
};

Config config(const ConfigReader& r) {
  Config c{read_decoder_without_rope(
      r, {.vocab_size = 250880,
          .hidden_size = 64,
          .num_hidden_layers = 2,
          .num_attention_heads = 8,
          .rms_norm_eps = 1e-5,
          .tie_word_embeddings = true,
          .own_names = {
              {"hidden_size", "n_embed"}, {"num_hidden_layers", "n_layer"}, {"num_attention_heads", "n_head"}, {"rms_norm_eps", "layer_norm_epsilon"}}})};
  c.intermediate_size = 4 * c.hidden_size;
  c.hidden_act = "gelu_pytorch_tanh";
  c.qkv_bias = c.mlp_bias = true;
  c.residual_behind_norm = r.boolean("apply_residual_connection_post_layernorm", false);
  // transformers' sum over slices leaves the biases out, which the training had.
  if (r.size("pretraining_tp", 1) > 1) r.only("slow_but_exact", false);
  return c;
}

}  // namespace bloom

Family family_bloom() { return {.types = {"bloom"}, .build = causal_lm_of<bloom::Bloom>(bloom::config)}; }

}  // namespace mobius::models
