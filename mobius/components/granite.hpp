// What Granite models share (IBM): four constants, of the embedding (e), the attention scores (a), the branches (r) and the logits (l).
//
//   x = e · embed(ids);   h = x + r · Attention(RMSNorm(x));   y = h + r · MLP(RMSNorm(h));   logits = head(y) / l
//
//   using Granite = GraniteLM<Layer>;      // Layer(Scope, GraniteConfig, index)
#pragma once
#include "mobius/components/moe_layer.hpp"

namespace mobius {

struct GraniteConfig : MoeConfig {
  double embedding_multiplier = 1, attention_multiplier = 1, residual_multiplier = 1, logits_scaling = 1;
};

inline void read_granite(GraniteConfig& c, const ConfigReader& r) {
  c.qkv_bias = c.o_bias = r.boolean("attention_bias", false);
  c.embedding_multiplier = r.number("embedding_multiplier", 1);
  c.attention_multiplier = r.positive("attention_multiplier", 1);
  c.residual_multiplier = r.number("residual_multiplier", 1);
  c.logits_scaling = r.positive("logits_scaling", 1);
}

inline AttentionSpec attention_spec(const GraniteConfig& cfg, std::int64_t layer) {
  auto spec = attention_spec(static_cast<const DecoderConfig&>(cfg), layer);
  spec.scale = cfg.attention_multiplier;
  return spec;
}

using GraniteAttention = RotaryAttention<GraniteConfig>;

template <class Layer, class Config = GraniteConfig>
struct GraniteLM : Module<GraniteLM<Layer, Config>, Config> {
  using Base = Module<GraniteLM, Config>;
  using Base::Base, Base::cfg, Base::scope;

  DecoderStack<Layer, Config> model{scope / "model", cfg, scope / "lm_head"};
  Linear lm_head = model.make_head();

  Tensor forward(Tensor input_ids, Decode& at) const {
    const auto x = model.embed_tokens(input_ids) * cfg.embedding_multiplier;
    return lm_head(model(x, at)) / cfg.logits_scaling;
  }
};

// Experts whose gate and up projections are one stack [experts, 2·width, hidden], and so are their down projections [experts, hidden, width]: of JetMoe and
// Granite. y = Σ softmax over the chosen(x·Wg)ᵢ · SwiGLUᵢ(x)
template <class Config>
GatedExperts stacked_experts(const Scope& at, const Config& c) {
  const Parameter input(at / "input_linear" / "weight", {c.num_experts, 2 * c.expert_size, c.hidden_size});
  const Parameter output(at / "output_linear" / "weight", {c.num_experts, c.hidden_size, c.expert_size});
  return {at,
          c.num_experts,
          c.hidden_act,
          {turned_rows(input, (at / "gate_linear" / "weight").path(), 0, c.expert_size)},
          {turned_rows(input, (at / "up_linear" / "weight").path(), c.expert_size, 2 * c.expert_size)},
          {turned(output, (at / "output_linear" / "weight").path())}};
}

struct GraniteExperts : Module<GraniteExperts, GraniteConfig> {
  using Module::Module;

  Linear router{scope / "router" / "layer", cfg.hidden_size, cfg.num_experts};
  GatedExperts experts = stacked_experts(scope, cfg);

  Tensor forward(Tensor x) const {
    return over_tokens(x, cfg.hidden_size, [&](Tensor tokens) { return experts(tokens, choose_then_soften(router(tokens), cfg.experts_per_token)); });
  }
};

// The MLP that all tokens go to, besides the experts: gate and up are one matrix, cut when it is loaded.
struct GraniteSharedMLP : Module<GraniteSharedMLP, GraniteConfig> {
  using Module::Module;

  Parameter input{scope / "input_linear" / "weight", {2 * cfg.shared_size, cfg.hidden_size}};
  Linear gate = part("gate_linear", 0), up = part("up_linear", cfg.shared_size);
  Linear output_linear{scope / "output_linear", cfg.shared_size, cfg.hidden_size};

  Tensor forward(Tensor x) const {
    const auto opened = nn::activation(cfg.hidden_act, gate(x));
    return output_linear(opened * up(x));
  }

  Linear part(std::string_view name, std::int64_t first) const {
    return {scope / name, input.rows((scope / name / "weight").path(), first, first + cfg.shared_size)};
  }
};

}  // namespace mobius
