// OPT (arXiv 2205.01068): learned positions that start at 2, LayerNorm before or behind attention and MLP, and token embeddings that may be
// narrower than the layers.
//
//   x = project_in(embed[token]) + positions[position + 2];   h = x + Attention(LN(x)) or LN(x + Attention(x));   MLP likewise
#include "mobius/components/layer_norm_decoder.hpp"
#include "mobius/models/family.hpp"

namespace mobius::models {
namespace opt {

struct Config : DecoderConfig {
  std::int64_t embedding_size = 0;  // of tokens
  bool norm_first = true, norm_last = true;
  LayerNorm::Affine affine = LayerNorm::Affine::full;
};

struct Layer : Module<Layer, Config> {
  std::int64_t index;
  Layer(Scope s, const Config& c, std::int64_t i) : Module(std::move(s), c), index(i) {}

  UnrotatedAttention self_attn{scope / "self_attn", cfg, index, {.o = "out_proj"}};
  LayerNorm self_attn_layer_norm{scope / "self_attn_layer_norm", cfg.hidden_size, cfg.rms_norm_eps, cfg.affine};
  FeedForward mlp{scope, {"fc1", "fc2"}, cfg};
  LayerNorm final_layer_norm{scope / "final_layer_norm", cfg.hidden_size, cfg.rms_norm_eps, cfg.affine};

  Tensor forward(Tensor x, Decode& at) const {
    if (cfg.norm_first) {
      const auto h = x + self_attn(self_attn_layer_norm(x), at);
      return h + mlp(final_layer_norm(h));
    }
    const auto h = self_attn_layer_norm(x + self_attn(x, at));
    return final_layer_norm(h + mlp(h));
  }
};

struct OPT : Module<OPT, Config> {
  using Module::Module;
  static constexpr std::int64_t offset = 2;  // of positions: the first two rows were kept for padding
  Scope decoder = (scope / "model").or_left_out() / "decoder";
  Scope head = scope / "lm_head";

  Embedding embed_tokens{decoder / "embed_tokens", cfg.vocab_size, cfg.embedding_size,
                         cfg.tie_word_embeddings ? std::vector{(head / "weight").path()} : std::vector<std::string>()};
  Embedding embed_positions{decoder / "embed_positions", cfg.max_position_embeddings + offset, cfg.hidden_size};
  Linear project_in{decoder / "project_in", cfg.embedding_size, cfg.hidden_size};
  std::vector<Layer> layers = layers_of<Layer>(decoder / "layers", cfg);
  LayerNorm final_layer_norm{decoder / "final_layer_norm", cfg.hidden_size, cfg.rms_norm_eps, cfg.affine};
  Linear project_out{decoder / "project_out", cfg.hidden_size, cfg.embedding_size};
  Linear lm_head = cfg.tie_word_embeddings ? Linear(head, embed_tokens.weight()) : Linear(head, cfg.embedding_size, cfg.vocab_size);

  Tensor forward(Tensor input_ids, Decode& at) const {
    const bool projects = cfg.embedding_size != cfg.hidden_size;
    auto x = embed_tokens(input_ids);
    if (projects) x = project_in(x);
    x = x + learned_positions(embed_positions, at, offset);
    for (const auto& layer : layers) x = layer(x, at);
    if (cfg.norm_first && cfg.norm_last) x = final_layer_norm(x);
    if (projects) x = project_out(x);
    return lm_head(x);
  }
};

Config config(const ConfigReader& r) {
  Config c{read_decoder_without_rope(r, {.vocab_size = 50272,
                                         .hidden_size = 768,
                                         .intermediate_size = 3072,
                                         .num_hidden_layers = 12,
                                         .num_attention_heads = 12,
                                         .hidden_act = "relu",
                                         .tie_word_embeddings = true,
                                         .own_names = {{"intermediate_size", "ffn_dim"}, {"hidden_act", "activation_function"}}})};
  c.rms_norm_eps = 1e-5;  // the type has no key for it
  c.qkv_bias = c.o_bias = c.mlp_bias = r.boolean("enable_bias", true);
  c.embedding_size = r.optional_size("word_embed_proj_dim").value_or(c.hidden_size);
  c.norm_first = r.boolean("do_layer_norm_before", true);
  c.norm_last = !r.boolean("_remove_final_layer_norm", false);
  if (!r.boolean("layer_norm_elementwise_affine", true)) c.affine = LayerNorm::Affine::none;
  return c;
}

}  // namespace opt

Family family_opt() { return {.types = {"opt"}, .build = causal_lm_of<opt::OPT>(opt::config)}; }

}  // namespace mobius::models
