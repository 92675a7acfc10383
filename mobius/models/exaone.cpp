// EXAONE 3 (arXiv 2408.03541): Llama whose checkpoints have GPT's names.
//
//   h = x + Attention(RMSNorm(x));   y = h + c_proj(silu(c_fc_0(n)) · c_fc_1(n)),   n = RMSNorm(h)
#include "mobius/components/decoder.hpp"
#include "mobius/models/family.hpp"

namespace mobius::models {
namespace exaone {

struct Layer : Module<Layer, DecoderConfig> {
  std::int64_t layer;
  Layer(Scope s, const DecoderConfig& c, std::int64_t layer_index) : Module(std::move(s), c), layer(layer_index) {}

  RMSNorm ln_1{scope / "ln_1", cfg.hidden_size, cfg.rms_norm_eps};
  SelfAttention attention{scope / "attn" / "attention", cfg, layer, {.o = "out_proj"}};
  RMSNorm ln_2{scope / "ln_2", cfg.hidden_size, cfg.rms_norm_eps};
  GatedMLP mlp{scope / "mlp", cfg, {.gate = "c_fc_0", .up = "c_fc_1", .down = "c_proj"}};

  Tensor forward(Tensor x, Decode& at) const {
    const auto h = x + attention(ln_1(x), at);
    return h + mlp(ln_2(h));
  }
};

struct Exaone : Module<Exaone, DecoderConfig> {
  using Module::Module;

  Scope transformer = (scope / "transformer").or_left_out();
  Scope head = scope / "lm_head";
  Embedding wte = token_embedding(transformer / "wte", cfg, head);
  std::vector<Layer> h = layers_of<Layer>(transformer / "h", cfg);
  RMSNorm ln_f{transformer / "ln_f", cfg.hidden_size, cfg.rms_norm_eps};
  Linear lm_head = vocabulary_head(head, cfg, wte);

  Tensor forward(Tensor input_ids, Decode& at) const {
    auto x = wte(input_ids);
    for (const auto& layer : h) x = layer(x, at);
    return lm_head(ln_f(x));
  }
};

DecoderConfig config(const ConfigReader& r) {
  auto c = read_decoder(r, {.vocab_size = 102400,
                            .intermediate_size = 14336,
                            .num_key_value_heads = 8,
                            .max_position_embeddings = 4096,
                            .rms_norm_eps = 1e-5,
                            .rope = {.theta = 500000},
                            .own_names = {{"num_hidden_layers", "num_layers"}, {"rms_norm_eps", "layer_norm_epsilon"}, {"hidden_act", "activation_function"}}});
  c.qkv_bias = c.o_bias = r.boolean("attention_bias", false);
  c.mlp_bias = r.boolean("mlp_bias", false);
  return c;
}

}  // namespace exaone

Family family_exaone() { return {.types = {"exaone"}, .build = causal_lm_of<exaone::Exaone>(exaone::config)}; }

}  // namespace mobius::models
