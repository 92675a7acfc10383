// XLM (arXiv 1901.07291) as a causal language model: learned positions, LayerNorm of the embeddings and behind attention and MLP.
//
//   h = LN₁(x + Attention(x));   y = LN₂(h + MLP(h))
#include "mobius/components/layer_norm_decoder.hpp"
#include "mobius/models/family.hpp"

namespace mobius::models {
namespace xlm {

// The checkpoint lists attentions, norms and MLPs one by one, not layer by layer.
struct Layer : Module<Layer, DecoderConfig> {
  std::int64_t index;
  Layer(const Scope& transformer, const DecoderConfig& c, std::int64_t i) : Module(transformer, c), index(i) {}

  UnrotatedAttention attention{scope / "attentions" / index, cfg, index, {.q = "q_lin", .k = "k_lin", .v = "v_lin", .o = "out_lin"}};
  LayerNorm layer_norm1{scope / "layer_norm1" / index, cfg.hidden_size, cfg.rms_norm_eps};
  FeedForward ffn{scope / "ffns" / index, {"lin1", "lin2"}, cfg};
  LayerNorm layer_norm2{scope / "layer_norm2" / index, cfg.hidden_size, cfg.rms_norm_eps};

  Tensor forward(Tensor x, Decode& at) const {
    const auto h = layer_norm1(x + attention(x, at));
    return layer_norm2(h + ffn(h));
  }
};

struct XLM : Module<XLM, DecoderConfig> {
  using Module::Module;
  Scope transformer = (scope / "transformer").or_left_out();
  Scope head = scope / "pred_layer" / "proj";

  Embedding embeddings = token_embedding(transformer / "embeddings", cfg, head);
  Embedding position_embeddings{transformer / "position_embeddings", cfg.max_position_embeddings, cfg.hidden_size};
  LayerNorm layer_norm_emb{transformer / "layer_norm_emb", cfg.hidden_size, cfg.rms_norm_eps};
  std::vector<Layer> layers = make_layers();
  Linear pred_layer = vocabulary_head(head, cfg, embeddings, true);

  Tensor forward(Tensor input_ids, Decode& at) const {
    auto x = embeddings(input_ids);
    x = layer_norm_emb(x + learned_positions(position_embeddings, at));
    for (const auto& layer : layers) x = layer(x, at);
    return pred_layer(x);
  }

  std::vector<Layer> make_layers() const {
    std::vector<Layer> out;
    for (std::int64_t i = 0; i < cfg.num_hidden_layers; ++i) out.emplace_back(transformer, cfg, i);
    return out;
  }
};

DecoderConfig config(const ConfigReader& r) {
  auto c = read_decoder_without_rope(r, {.vocab_size = 30145,
                                         .hidden_size = 2048,
                                         .num_hidden_layers = 12,
                                         .num_attention_heads = 16,
                                         .max_position_embeddings = 512,
                                         .rms_norm_eps = 1e-12,
                                         .tie_word_embeddings = true,
                                         .own_names = {{"vocab_size", "n_words"},
                                                       {"hidden_size", "emb_dim"},
                                                       {"num_hidden_layers", "n_layers"},
                                                       {"num_attention_heads", "n_heads"},
                                                       {"rms_norm_eps", "layer_norm_eps"}}});
  c.intermediate_size = 4 * c.hidden_size;
  c.hidden_act = r.boolean("gelu_activation", true) ? "gelu" : "relu";
  c.qkv_bias = c.o_bias = c.mlp_bias = true;
  if (!r.boolean("causal", false)) r.unsupported("causal = false is not supported: such an XLM looks both ways, and can't generate text");
  if (r.size("n_langs", 1) > 1 && r.boolean("use_lang_emb", true))
    r.unsupported("n_langs above 1 with use_lang_emb is not supported: graphs have no input for the language of a token");
  r.only("asm", false);
  r.only("is_encoder", true);
  return c;
}

}  // namespace xlm

Family family_xlm() { return {.types = {"xlm"}, .ignorable = {"*position_ids"}, .build = causal_lm_of<xlm::XLM>(xlm::config)}; }

}  // namespace mobius::models
