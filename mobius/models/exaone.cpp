// EXAONE 3 (arXiv 2408.03541): Llama whose checkpoints have GPT's names.
//
//   h = x + Attention(RMSNorm(x));   y = h + c_proj(silu(c_fc_0(n)) · c_fc_1(n)),   n = RMSNorm(h)
#include "mobius/components/decoder.hpp"
#include "mobius/models/family.hpp"

namespace mobius::models {
namespace exaone {

struct Attention : Module<Attention, DecoderConfig> {
  std::int64_t layer;
  Attention(Scope s, const DecoderConfig& c, std::int64_t layer_index) : Module(std::move(s), c), layer(layer_index) {}

  Linear q_proj{scope / "q_proj", cfg.hidden_size, cfg.q_size(), cfg.qkv_bias};
  Linear k_proj{scope / "k_proj", cfg.hidden_size, cfg.kv_size(), cfg.qkv_bias};
  Linear v_proj{scope / "v_proj", cfg.hidden_size, cfg.kv_size(), cfg.qkv_bias};
  Linear out_proj{scope / "out_proj", cfg.q_size(), cfg.hidden_size, cfg.o_bias};

  Tensor forward(Tensor x, Decode& at) const {
    const auto q = at.rope(q_proj(x), cfg.num_attention_heads, cfg.rope);
    const auto k = at.rope(k_proj(x), cfg.num_key_value_heads, cfg.rope);
    return out_proj(at.attend(q, k, v_proj(x), attention_spec(cfg, layer)));
  }
};

struct MLP : Module<MLP, DecoderConfig> {
  using Module::Module;

  Linear c_fc_0{scope / "c_fc_0", cfg.hidden_size, cfg.intermediate_size, cfg.mlp_bias};
  Linear c_fc_1{scope / "c_fc_1", cfg.hidden_size, cfg.intermediate_size, cfg.mlp_bias};
  Linear c_proj{scope / "c_proj", cfg.intermediate_size, cfg.hidden_size, cfg.mlp_bias};

  Tensor forward(Tensor x) const {
    const auto gate = nn::activation(cfg.hidden_act, c_fc_0(x));
    return c_proj(gate * c_fc_1(x));
  }
};

struct Layer : Module<Layer, DecoderConfig> {
  std::int64_t layer;
  Layer(Scope s, const DecoderConfig& c, std::int64_t layer_index) : Module(std::move(s), c), layer(layer_index) {}

  RMSNorm ln_1{scope / "ln_1", cfg.hidden_size, cfg.rms_norm_eps};
  Attention attention{scope / "attn" / "attention", cfg, layer};
  RMSNorm ln_2{scope / "ln_2", cfg.hidden_size, cfg.rms_norm_eps};
  MLP mlp{scope / "mlp", cfg};

  Tensor forward(Tensor x, Decode& at) const {
    const auto h = x + attention(ln_1(x), at);
    return h + mlp(ln_2(h));
  }
};

struct Exaone : Module<Exaone, DecoderConfig> {
  using Module::Module;

  Scope transformer = (scope / "transformer").or_left_out();
  Scope head = scope / "lm_head";
  Embedding wte{transformer / "wte", cfg.vocab_size, cfg.hidden_size,
                cfg.tie_word_embeddings ? std::vector{(head / "weight").path()} : std::vector<std::string>{}};
  std::vector<Layer> h = make_layers();
  RMSNorm ln_f{transformer / "ln_f", cfg.hidden_size, cfg.rms_norm_eps};
  Linear lm_head = cfg.tie_word_embeddings ? Linear(head, wte.weight()) : Linear(head, cfg.hidden_size, cfg.vocab_size);

  Tensor forward(Tensor input_ids, Decode& at) const {
    auto x = wte(input_ids);
    for (const auto& layer : h) x = layer(x, at);
    return lm_head(ln_f(x));
  }

  std::vector<Layer> make_layers() const {
    std::vector<Layer> out;
    for (std::int64_t i = 0; i < cfg.num_hidden_layers; ++i) out.emplace_back(transformer / "h" / i, cfg, i);
    return out;
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
