// gpt-oss (OpenAI, arXiv 2508.10925): windows in every other layer, a sink per head that attention may spend weight on, YaRN, and experts with biases and a
// clamped SwiGLU.
//
//   softmax over the keys' scores and the sink;   y = Σ softmax(top-k(x·Wg + b))ᵢ · Eᵢ(x)
//   E(x) = ((min(max(u, −L), L) + 1) · g · σ(α·g))·Wd + bd,   g = min(gate, L)
#include "mobius/components/moe_layer.hpp"
#include "mobius/models/family.hpp"

namespace mobius::models {
namespace gpt_oss {

struct Config : MoeConfig {
  double alpha = 1.702, limit = 7;
};

struct Attention : AttentionProjections<Attention, Config> {
  using AttentionProjections::AttentionProjections;

  Parameter sinks{scope / "sinks", {cfg.num_attention_heads}};

  Tensor forward(Tensor x, Decode& at) const {
    const auto q = at.rope(q_proj(x), cfg.num_attention_heads, cfg.rope);
    const auto k = at.rope(k_proj(x), cfg.num_key_value_heads, cfg.rope);
    auto spec = attention_spec(cfg, layer);
    spec.sink = sinks;
    return o_proj(at.attend(q, k, v_proj(x), spec));
  }
};

struct SparseMLP : Module<SparseMLP, Config> {
  using Module::Module;

  Linear router{scope / "router", cfg.hidden_size, cfg.num_experts, true};
  GatedExperts experts = stored_experts();

  Tensor forward(Tensor x) const {
    return over_tokens(x, cfg.hidden_size, [&](Tensor tokens) { return experts(tokens, choose_then_soften(router(tokens), cfg.experts_per_token)); });
  }

  // Stored as they are multiplied.
  GatedExperts stored_experts() const {
    const auto at = scope / "experts";
    const auto matrix = [&](std::string_view name, std::int64_t in, std::int64_t out) {
      return ExpertMatrix{Parameter(at / name, {cfg.num_experts, in, out}), Parameter(at / (std::string(name) + "_bias"), {cfg.num_experts, out})};
    };
    return GatedExperts::taking_turns(at, cfg.num_experts, SwiGLU{.alpha = cfg.alpha, .beta = 1, .limit = cfg.limit},
                                      matrix("gate_up_proj", cfg.hidden_size, 2 * cfg.expert_size), matrix("down_proj", cfg.expert_size, cfg.hidden_size));
  }
};

using GptOss = CausalLM<PreNormLayer<Attention, SparseMLP, Config>, Config>;

// What the type's configuration uses when config.json has no rope keys at all.
ConfigReader with_default_rope(const ConfigReader& r) {
  if (!rope_parameters(r).as_object().empty()) return r;
  auto json = r.json();
  json.set(
      "rope_parameters",
      Json(Json::Object{
          {"rope_type", "yarn"}, {"factor", 32.0}, {"beta_fast", 32.0}, {"beta_slow", 1.0}, {"truncate", false}, {"original_max_position_embeddings", 4096}}));
  return r.with(std::move(json));
}

Config config(const ConfigReader& given) {
  const auto r = with_default_rope(given);
  Config c{{read_decoder(r, {.vocab_size = 201088,
                             .hidden_size = 2880,
                             .intermediate_size = 2880,
                             .num_hidden_layers = 36,
                             .num_attention_heads = 64,
                             .num_key_value_heads = 8,
                             .head_dim = 64,
                             .max_position_embeddings = 131072,
                             .rms_norm_eps = 1e-5,
                             .rope = {.theta = 150000}})}};
  c.qkv_bias = c.o_bias = r.boolean("attention_bias", true);
  set_window_by_layer(c, r, r.nullable_size("sliding_window", 128), all_but_every(2, c.num_hidden_layers));
  c.num_experts = r.size("num_local_experts", r.size("num_experts", 128));
  c.experts_per_token = r.size("num_experts_per_tok", 4);
  c.expert_size = c.intermediate_size;
  c.alpha = r.number("swiglu_alpha", 1.702);
  c.limit = r.positive("swiglu_limit", 7);
  check_experts(c, r);
  return c;
}

}  // namespace gpt_oss

Family family_gpt_oss() { return {.types = {"gpt_oss"}, .build = causal_lm_of<gpt_oss::GptOss>(gpt_oss::config)}; }

}  // namespace mobius::models
