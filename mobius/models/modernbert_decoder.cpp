// ModernBERT as a decoder, Ettin (arXiv 2507.11412): LayerNorm, but none before the first attention; a gated MLP whose two projections are one
// matrix; windows in two of three layers, with rotary positions of their own; a head with a layer more.
//
//   logits = decoder(LN(act(dense(x))))
#include "mobius/base/error.hpp"
#include "mobius/components/layer_norm_decoder.hpp"
#include "mobius/models/family.hpp"

namespace mobius::models {
namespace modernbert_decoder {

struct Config : LayeredConfig {
  LayerNorm::Affine affine = LayerNorm::Affine::weight_only;
  bool head_bias = false, decoder_bias = true;
  std::string head_act = "gelu";
};

struct Attention : Module<Attention, Config> {
  std::int64_t layer;
  Attention(Scope s, const Config& c, std::int64_t layer_index) : Module(std::move(s), c), layer(layer_index) {}

  QKV qkv = separate_qkv(scope, cfg);
  Linear Wo{scope / "Wo", cfg.q_size(), cfg.hidden_size, cfg.o_bias};

  Tensor forward(Tensor x, Decode& at) const {
    auto [q, k, v] = qkv(x);
    q = at.rope(q, cfg.num_attention_heads, cfg.rope_of(layer));
    k = at.rope(k, cfg.num_key_value_heads, cfg.rope_of(layer));
    return Wo(at.attend(q, k, v, attention_spec(cfg, layer)));
  }
};

// Wo(act(input) · gate), both parts of Wi.
struct MLP : Module<MLP, Config> {
  using Module::Module;
  Linear input = part("input", 0);
  Linear gate = part("gate", cfg.intermediate_size);
  Linear Wo{scope / "Wo", cfg.intermediate_size, cfg.hidden_size, cfg.mlp_bias};

  Tensor forward(Tensor x) const {
    const auto a = nn::activation(cfg.hidden_act, input(x));
    return Wo(a * gate(x));
  }

  Linear part(std::string_view name, std::int64_t first) const {
    const auto at = scope / "Wi", own = at / name;
    const auto end = first + cfg.intermediate_size, all = 2 * cfg.intermediate_size;
    const auto weight = Parameter(at / "weight", {all, cfg.hidden_size}).rows((own / "weight").path(), first, end);
    if (!cfg.mlp_bias) return {own, weight};
    return {own, weight, Parameter(at / "bias", {all}).rows((own / "bias").path(), first, end)};
  }
};

struct Layer : Module<Layer, Config> {
  std::int64_t index;
  Layer(Scope s, const Config& c, std::int64_t i) : Module(std::move(s), c), index(i) {}

  LayerNorm attn_norm{scope / "attn_norm", cfg.hidden_size, cfg.rms_norm_eps, cfg.affine};
  Attention attn{scope / "attn", cfg, index};
  LayerNorm mlp_norm{scope / "mlp_norm", cfg.hidden_size, cfg.rms_norm_eps, cfg.affine};
  MLP mlp{scope / "mlp", cfg};

  Tensor forward(Tensor x, Decode& at) const {
    const auto h = x + attn(index == 0 ? x : attn_norm(x), at);  // the embeddings are normalised already
    return h + mlp(mlp_norm(h));
  }
};

struct ModernBertDecoder : Module<ModernBertDecoder, Config> {
  using Module::Module;
  Scope model = (scope / "model").or_left_out();
  Scope head = scope / "lm_head", vocabulary = scope / "decoder";

  Embedding tok_embeddings = token_embedding(model / "embeddings" / "tok_embeddings", cfg, vocabulary);
  LayerNorm embeddings_norm{model / "embeddings" / "norm", cfg.hidden_size, cfg.rms_norm_eps, cfg.affine};
  std::vector<Layer> layers = layers_of<Layer>(model / "layers", cfg);
  LayerNorm final_norm{model / "final_norm", cfg.hidden_size, cfg.rms_norm_eps, cfg.affine};
  Linear dense{head / "dense", cfg.hidden_size, cfg.hidden_size, cfg.head_bias};
  LayerNorm head_norm{head / "norm", cfg.hidden_size, cfg.rms_norm_eps, cfg.affine};
  Linear decoder = vocabulary_head(vocabulary, cfg, tok_embeddings, cfg.decoder_bias);

  Tensor forward(Tensor input_ids, Decode& at) const {
    auto x = embeddings_norm(tok_embeddings(input_ids));
    for (const auto& layer : layers) x = layer(x, at);
    x = nn::activation(cfg.head_act, dense(final_norm(x)));
    return decoder(head_norm(x));
  }
};

// A query sees as many tokens as half the width of the encoder's window. A stated "sliding_window" is that number.
std::optional<std::int64_t> window(const ConfigReader& r) {
  if (const auto stated = r.optional_size("sliding_window")) return stated;
  const auto width = r.nullable_size("local_attention", 128);
  return width && *width > 1 ? std::optional(*width / 2) : std::nullopt;
}

Config config(const ConfigReader& r) {
  Config c{{read_decoder_without_rope(r, {.vocab_size = 50368,
                                          .hidden_size = 768,
                                          .intermediate_size = 1152,
                                          .num_hidden_layers = 22,
                                          .num_attention_heads = 12,
                                          .max_position_embeddings = 8192,
                                          .rms_norm_eps = 1e-5,
                                          .hidden_act = "gelu",
                                          .tie_word_embeddings = true,
                                          .own_names = {{"hidden_act", "hidden_activation"}, {"rms_norm_eps", "norm_eps"}}}),
            {}}};
  c.qkv_bias = c.o_bias = r.boolean("attention_bias", false);
  c.mlp_bias = r.boolean("mlp_bias", false);
  if (r.boolean("norm_bias", false)) c.affine = LayerNorm::Affine::full;
  c.head_bias = r.boolean("classifier_bias", false);
  c.head_act = r.text("classifier_activation", "gelu");
  c.decoder_bias = r.boolean("decoder_bias", true);

  const auto every = r.size("global_attn_every_n_layers", 3);
  std::vector<bool> usual;
  for (std::int64_t i = 0; i < c.num_hidden_layers; ++i) usual.push_back(i % every != 0);
  const auto sliding = sliding_layers(c, r, usual);
  set_window_by_layer(c, r, window(r), sliding);
  r.only("rope_scaling", nullptr);
  set_rope_by_kind(c, sliding, read_rope_of_kind(r, "full_attention", c.rope_shape(), {.theta = 160000}, "global_rope_theta"),
                   read_rope_of_kind(r, "sliding_attention", c.rope_shape(), {.theta = 10000}, "local_rope_theta"));
  return c;
}

}  // namespace modernbert_decoder

Family family_modernbert_decoder() {
  return {.types = {"modernbert-decoder"}, .build = causal_lm_of<modernbert_decoder::ModernBertDecoder>(modernbert_decoder::config)};
}

}  // namespace mobius::models
