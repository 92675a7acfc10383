// BioGPT (arXiv 2210.10341): GPT-2 as fairseq has it: embeddings scaled by √hidden, learned positions that start at 2.
// XGLM (arXiv 2112.10668) is the same with sinusoidal positions.
//
//   x = √hidden · embed[token] + positions[position + 2];   h = x + Attention(LN(x));   y = h + MLP(LN(h))
#include <cmath>

#include "mobius/components/layer_norm_decoder.hpp"
#include "mobius/models/family.hpp"

namespace mobius::models {
namespace biogpt {

struct Config : DecoderConfig {
  bool sinusoidal = false;
  bool scale_embedding = true;
  std::optional<std::int64_t> pad_token = {};  // XGLM's table holds nothing in this row
};

struct Layer : Module<Layer, Config> {
  std::int64_t index;
  Layer(Scope s, const Config& c, std::int64_t i) : Module(std::move(s), c), index(i) {}

  LayerNorm self_attn_layer_norm{scope / "self_attn_layer_norm", cfg.hidden_size, cfg.rms_norm_eps};
  UnrotatedAttention self_attn{scope / "self_attn", cfg, index, {.o = "out_proj"}};
  LayerNorm final_layer_norm{scope / "final_layer_norm", cfg.hidden_size, cfg.rms_norm_eps};
  FeedForward mlp{scope, {"fc1", "fc2"}, cfg};

  Tensor forward(Tensor x, Decode& at) const {
    const auto h = x + self_attn(self_attn_layer_norm(x), at);
    return h + mlp(final_layer_norm(h));
  }
};

struct BioGPT : Module<BioGPT, Config> {
  using Module::Module;
  static constexpr std::int64_t offset = 2;  // of positions
  Scope body = (scope / (cfg.sinusoidal ? "model" : "biogpt")).or_left_out();
  Scope head = scope / (cfg.sinusoidal ? "lm_head" : "output_projection");

  Embedding embed_tokens = token_embedding(body / "embed_tokens", cfg, head);
  Embedding embed_positions{body / "embed_positions", position_table()};
  std::vector<Layer> layers = layers_of<Layer>(body / "layers", cfg);
  LayerNorm layer_norm{body / "layer_norm", cfg.hidden_size, cfg.rms_norm_eps};
  Linear output_projection = vocabulary_head(head, cfg, embed_tokens);

  Tensor forward(Tensor input_ids, Decode& at) const {
    auto x = embed_tokens(input_ids);
    if (cfg.scale_embedding) x = x * std::sqrt(static_cast<double>(cfg.hidden_size));
    x = x + learned_positions(embed_positions, at, offset);
    for (const auto& layer : layers) x = layer(x, at);
    return output_projection(layer_norm(x));
  }

  // Frequencies fall from 1 to 1/10000, both included.
  Parameter position_table() const {
    const auto name = body / "embed_positions" / "weight";
    const auto rows = cfg.max_position_embeddings + offset;
    if (!cfg.sinusoidal) return {name, {rows, cfg.hidden_size}};
    const auto half = cfg.hidden_size / 2;
    const auto step = static_cast<float>(-std::log(10000.0) / static_cast<double>(half - 1));
    std::vector<float> frequencies;
    for (std::int64_t i = 0; i < half; ++i) frequencies.push_back(std::exp(static_cast<float>(i) * step));
    return sinusoids(name, rows, std::move(frequencies), cfg.pad_token);
  }
};

Config biogpt(const ConfigReader& r) {
  return {read_decoder_without_rope(r, {.vocab_size = 42384,
                                        .hidden_size = 1024,
                                        .intermediate_size = 4096,
                                        .num_hidden_layers = 24,
                                        .num_attention_heads = 16,
                                        .max_position_embeddings = 1024,
                                        .hidden_act = "gelu",
                                        .tie_word_embeddings = true})};
}

Config xglm(const ConfigReader& r) {
  Config c{read_decoder_without_rope(r, {.vocab_size = 256008,
                                         .hidden_size = 1024,
                                         .intermediate_size = 4096,
                                         .num_hidden_layers = 24,
                                         .num_attention_heads = 16,
                                         .hidden_act = "gelu",
                                         .tie_word_embeddings = true,
                                         .own_names = {{"hidden_size", "d_model"},
                                                       {"intermediate_size", "ffn_dim"},
                                                       {"num_hidden_layers", "num_layers"},
                                                       {"num_attention_heads", "attention_heads"},
                                                       {"hidden_act", "activation_function"}}})};
  c.sinusoidal = true;
  if (c.hidden_size % 2 != 0 || c.hidden_size < 4) r.refuse("d_model", std::to_string(c.hidden_size), "an even number of at least 4");
  if (r.has("pad_token_id") || !r.json().find("pad_token_id")) c.pad_token = r.integer("pad_token_id", 1);
  r.only("add_cross_attention", false);
  return c;
}

Config config(const ConfigReader& r) {
  auto c = r.model_type() == "xglm" ? xglm(r) : biogpt(r);
  c.rms_norm_eps = 1e-5;  // whatever the config says: the layers don't ask for it
  c.qkv_bias = c.o_bias = c.mlp_bias = true;
  c.scale_embedding = r.boolean("scale_embedding", true);
  return c;
}

}  // namespace biogpt

Family family_biogpt() {
  return {.types = {"biogpt", "xglm"}, .ignorable = {"*.embed_positions.weights"}, .build = causal_lm_of<biogpt::BioGPT>(biogpt::config)};
}

}  // namespace mobius::models
