// Phi-3.5-MoE (arXiv 2404.14219): Llama's attention, LayerNorm, and two experts by SparseMixer (arXiv 2409.12136): each is weighted by a softmax over those
// experts that come close to it, the first one left out for the second.
//
//   wⱼ = 1 / Σ exp(sᵢ − mⱼ)  over i with  (mⱼ − sᵢ) / max(|sᵢ|, mⱼ) ≤ 2ε,   mⱼ the j-th largest score
#include <limits>

#include "mobius/components/layer_norm_decoder.hpp"
#include "mobius/components/moe_layer.hpp"
#include "mobius/models/family.hpp"

namespace mobius::models {
namespace phimoe {

struct Config : MoeConfig {
  double jitter = 0.01;
  bool head_bias = false;
};

struct SparseMLP : Module<SparseMLP, Config> {
  using Module::Module;

  Linear gate{scope / "gate", cfg.hidden_size, cfg.num_experts};
  GatedExperts experts{scope / "experts", cfg.expert_sizes(), cfg.hidden_act, {.gate = "w1", .up = "w3", .down = "w2"}};

  Tensor forward(Tensor x) const {
    return over_tokens(x, cfg.hidden_size, [&](Tensor tokens) { return experts(tokens, sparse_mixer(in_float32(gate(tokens)))); });
  }

  Routing sparse_mixer(Tensor scores) const {
    constexpr auto nothing = -std::numeric_limits<double>::infinity();
    const auto [best, first] = topk(scores, {1}, -1);
    const auto rest = scatter_elements(scores, first, best + nothing, 1);
    const auto [next, second] = topk(rest, {1}, -1);

    const auto weight = [&](Tensor chosen, Tensor candidates) {
      const auto distance = (chosen - scores) / maximum(abs(scores), chosen);
      // Where all scores are zero a distance is no number, and no reason to leave an expert out.
      const auto close = where(greater(distance, 2 * cfg.jitter), nothing, candidates);
      return reciprocal(reduce_sum(exp(close - chosen), {-1}));
    };
    const auto best_weight = weight(best, scores), next_weight = weight(next, rest);
    return {concat<Tensor>({best_weight, next_weight}, 1), concat<Tensor>({first, second}, 1)};
  }
};

struct PhiMoe : Module<PhiMoe, Config> {
  using Module::Module;

  DecoderStack<BlockSparseLayer<SelfAttention, SparseMLP, Config, LayerNorm>, Config, LayerNorm> model{scope / "model", cfg, scope / "lm_head"};
  Linear lm_head = vocabulary_head(scope / "lm_head", cfg, model.embed_tokens, cfg.head_bias);

  Tensor forward(Tensor input_ids, Decode& at) const { return lm_head(model(model.embed_tokens(input_ids), at)); }
};

// Cosines and sines are scaled by constants of the type's own, one within and one beyond the trained length. The frequencies are those within, always: so has
// it the definition that we follow.
void read_longrope_scale(Config& c, const ConfigReader& r) {
  if (c.rope.type == RopeType::standard) return;
  if (c.rope.type != RopeType::longrope) r.unsupported("phimoe has rope types default and longrope only");
  const ConfigReader rope(rope_parameters(r), r.where() + ": rope_parameters");
  for (const auto* key : {"short_mscale", "long_mscale"})
    if (!rope.has(key)) rope.refuse(key, "missing", "a number");
  const auto within = rope.positive("short_mscale", 1), beyond = rope.positive("long_mscale", 1);
  if (within != beyond) r.unsupported("short_mscale and long_mscale that differ are not supported");
  c.rope.attention_factor = within;
  c.rope.long_factor = c.rope.short_factor;
}

Config config(const ConfigReader& r) {
  Config c{{read_decoder(r, {.vocab_size = 32064,
                             .intermediate_size = 6400,
                             .num_key_value_heads = 8,
                             .max_position_embeddings = 131072,
                             .rms_norm_eps = 1e-5,
                             .rope = {.theta = 1e6}})}};
  read_longrope_scale(c, r);
  c.qkv_bias = c.o_bias = r.boolean("attention_bias", false);
  c.head_bias = r.boolean("lm_head_bias", false);
  set_window(c, r.optional_size("sliding_window"));
  c.num_experts = r.size("num_local_experts", 16);
  r.only("num_experts_per_tok", 2);  // SparseMixer chooses two
  c.experts_per_token = 2;
  c.expert_size = c.intermediate_size;
  c.jitter = r.number("router_jitter_noise", 0.01);
  check_experts(c, r);
  return c;
}

}  // namespace phimoe

Family family_phimoe() { return {.types = {"phimoe"}, .ignorable = {"*.rotary_emb.inv_freq"}, .build = causal_lm_of<phimoe::PhiMoe>(phimoe::config)}; }

}  // namespace mobius::models
