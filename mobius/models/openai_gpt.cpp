// GPT (Radford et al. 2018): GPT-2 with LayerNorm behind attention and MLP instead of before them, and none at the end.
//
//   h = LN(x + Attention(x));   y = LN(h + MLP(h))
#include "mobius/components/layer_norm_decoder.hpp"
#include "mobius/models/family.hpp"

namespace mobius::models {
namespace openai_gpt {

struct Attention : Module<Attention, DecoderConfig> {
  std::int64_t layer;
  Attention(Scope s, const DecoderConfig& c, std::int64_t layer_index) : Module(std::move(s), c), layer(layer_index) {}

  Projections<Conv1D> c_attn = joined_conv1d(scope / "c_attn", cfg);
  Conv1D c_proj{scope / "c_proj", cfg.q_size(), cfg.hidden_size};

  Tensor forward(Tensor x, Decode& at) const {
    const auto [q, k, v] = c_attn(x);
    return c_proj(at.attend(q, k, v, attention_spec(cfg, layer)));
  }
};

struct Layer : Module<Layer, DecoderConfig> {
  std::int64_t index;
  Layer(Scope s, const DecoderConfig& c, std::int64_t i) : Module(std::move(s), c), index(i) {}

  Attention attn{scope / "attn", cfg, index};
  LayerNorm ln_1{scope / "ln_1", cfg.hidden_size, cfg.rms_norm_eps};
  Conv1DFeedForward mlp{scope / "mlp", cfg};
  LayerNorm ln_2{scope / "ln_2", cfg.hidden_size, cfg.rms_norm_eps};

  Tensor forward(Tensor x, Decode& at) const {
    const auto h = ln_1(x + attn(x, at));
    return ln_2(h + mlp(h));
  }
};

struct GPT : Module<GPT, DecoderConfig> {
  using Module::Module;
  Scope transformer = (scope / "transformer").or_left_out();
  Scope head = scope / "lm_head";

  Embedding tokens_embed = token_embedding(transformer / "tokens_embed", cfg, head);
  Embedding positions_embed{transformer / "positions_embed", cfg.max_position_embeddings, cfg.hidden_size};
  std::vector<Layer> h = layers_of<Layer>(transformer / "h", cfg);
  Linear lm_head = vocabulary_head(head, cfg, tokens_embed);

  Tensor forward(Tensor input_ids, Decode& at) const {
    auto x = tokens_embed(input_ids);
    x = x + learned_positions(positions_embed, at);
    for (const auto& layer : h) x = layer(x, at);
    return lm_head(x);
  }
};

DecoderConfig config(const ConfigReader& r) {
  auto c = read_decoder_without_rope(r, {.vocab_size = 40478,
                                         .hidden_size = 768,
                                         .num_hidden_layers = 12,
                                         .num_attention_heads = 12,
                                         .max_position_embeddings = 512,
                                         .rms_norm_eps = 1e-5,
                                         .tie_word_embeddings = true,
                                         .own_names = gpt_names});
  c.intermediate_size = 4 * c.hidden_size;
  // The type has a table of its own, in which "gelu" is the tanh form.
  c.hidden_act = r.text("afn", "gelu");
  if (c.hidden_act == "gelu") c.hidden_act = "gelu_new";
  else if (c.hidden_act != "relu" && c.hidden_act != "silu" && c.hidden_act != "swish")
    r.unsupported("afn = '" + c.hidden_act + "' is not supported; known: gelu, relu, silu, swish");
  return c;
}

}  // namespace openai_gpt

Family family_openai_gpt() {
  return {.types = {"openai-gpt"}, .ignorable = {"*.attn.bias", "*position_ids"}, .build = causal_lm_of<openai_gpt::GPT>(openai_gpt::config)};
}

}  // namespace mobius::models
