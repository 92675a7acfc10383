// nanochat (Karpathy; transformers modeling_nanochat.py): a small Llama without any norm weights, which also normalises the embedding, and the heads behind
// rope; rope turns the other way.
//
//   x = n(embed(ids));   q, k = n(rope(x·Wq)), n(rope(x·Wk));   MLP(x) = down(relu(up(x))²);   logits ← c · tanh(logits / c)
//   n(v) = v / √(mean(v²) + ε)
#include "mobius/components/decoder.hpp"
#include "mobius/models/family.hpp"

namespace mobius::models {
namespace nanochat {

struct Config : DecoderConfig {
  std::optional<double> logits_softcap;
};

struct MLP : Module<MLP, DecoderConfig> {
  using Module::Module;

  Linear fc1{scope / "fc1", cfg.hidden_size, cfg.intermediate_size};
  Linear fc2{scope / "fc2", cfg.intermediate_size, cfg.hidden_size};

  Tensor forward(Tensor x) const { return fc2(nn::activation(cfg.hidden_act, fc1(x))); }
};

using Layer = PreNormLayer<RotatedThenNormedAttention<nn::UnweightedRMSNorm>, MLP, DecoderConfig, nn::UnweightedRMSNorm>;

struct NanoChat : Module<NanoChat, Config> {
  using Module::Module;

  DecoderStack<Layer, DecoderConfig, nn::UnweightedRMSNorm> model{scope / "model", cfg, scope / "lm_head"};
  Linear lm_head = model.make_head();

  Tensor forward(Tensor input_ids, Decode& at) const {
    const auto x = model.norm(model.embed_tokens(input_ids));
    return nn::softcap(lm_head(model(x, at)), cfg.logits_softcap);
  }
};

Config config(const ConfigReader& r) {
  Config c{
      read_decoder(
          r, {.vocab_size = 50304, .hidden_size = 768, .intermediate_size = 8192, .num_hidden_layers = 12, .num_attention_heads = 6, .hidden_act = "relu2"}),
      {}};
  c.rope.clockwise = true;
  c.qkv_bias = c.o_bias = r.boolean("attention_bias", false);
  c.logits_softcap = r.nullable_positive("final_logit_softcapping", 15);
  return c;
}

}  // namespace nanochat

Family family_nanochat() { return {.types = {"nanochat"}, .build = causal_lm_of<nanochat::NanoChat>(nanochat::config)}; }

}  // namespace mobius::models
