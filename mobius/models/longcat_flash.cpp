// LongCat-Flash (arXiv 2509.01322): each layer is two, latent attention and a dense MLP twice, with experts that go around the second; some experts do
// nothing, so that easy tokens cost less.
//
//   h = x + A₀(N(x));   n = N(h);   e = Σ c · softmax(n·Wg)ᵢ · Eᵢ(n),   Eᵢ(n) = n for the last `zero_expert_num`
//   g = h + MLP₀(n);    u = g + A₁(N(g));    y = u + MLP₁(N(u)) + e
//
// The latents of attention are scaled by √(hidden / rank).
#include <fmt/format.h>

#include <cmath>

#include "mobius/components/latent_attention.hpp"
#include "mobius/models/family.hpp"

namespace mobius::models {
namespace longcat_flash {

struct Config : LatentConfig {
  std::int64_t idle_experts = 0;
};

struct Experts : Module<Experts, Config> {
  using Module::Module;

  Scope router = scope.in(ir::DataType::float32) / "router";
  Linear classifier{router / "classifier", cfg.hidden_size, cfg.num_experts + cfg.idle_experts};
  Parameter correction{router / "e_score_correction_bias", {cfg.num_experts + cfg.idle_experts}};
  GatedExperts experts{scope / "experts", cfg.expert_sizes(), cfg.hidden_act};

  Tensor forward(Tensor x) const {
    return over_tokens(x, cfg.hidden_size, [&](Tensor tokens) {
      const auto scores = softmax(classifier(in_float32(tokens)), -1);
      const auto routing = scaled(choose_by(scores + correction, scores, cfg.experts_per_token), cfg.routed_scale);
      return cfg.idle_experts == 0 ? experts(tokens, routing) : with_idle(tokens, routing);
    });
  }

  // The idle experts' weights all go to the token itself. Where one was chosen, a real one takes the place with weight zero: they are spread, so that none
  // gets many.
  Tensor with_idle(Tensor tokens, const Routing& routing) const {
    const auto works = less(routing.experts, cfg.num_experts);
    const auto weights = where(works, routing.weights, 0);
    const auto stand_in = routing.experts - routing.experts / cfg.num_experts * cfg.num_experts;
    const auto idle = reduce_sum(where(works, routing.weights * 0, routing.weights), {-1});
    const auto kept = tokens * (idle.dtype() == tokens.dtype() ? idle : cast(idle, tokens.dtype()));
    return experts(tokens, {weights, stand_in}) + kept;
  }
};

struct Layer : Module<Layer, Config> {
  std::int64_t layer;
  Layer(Scope s, const Config& c, std::int64_t layer_index) : Module(std::move(s), c), layer(layer_index) {}

  // One of the two halves.
  struct Half {
    Half(const Scope& s, const Config& c, std::int64_t layer_index, std::int64_t i)
        : input_layernorm(s / "input_layernorm" / i, c.hidden_size, c.rms_norm_eps),
          self_attn(s / "self_attn" / i, c, layer_index),
          post_attention_layernorm(s / "post_attention_layernorm" / i, c.hidden_size, c.rms_norm_eps),
          mlp(s / "mlps" / i, c) {}
    RMSNorm input_layernorm;
    LatentAttention self_attn;
    RMSNorm post_attention_layernorm;
    GatedMLP mlp;
  };
  Half first{scope, cfg, layer, 0}, second{scope, cfg, layer, 1};
  Experts mlp{scope / "mlp", cfg};

  Tensor forward(Tensor x, Decode& at) const {
    const auto h = x + first.self_attn(first.input_layernorm(x), at);
    const auto n = first.post_attention_layernorm(h);
    const auto around = mlp(n);
    const auto g = h + first.mlp(n);
    const auto u = g + second.self_attn(second.input_layernorm(g), at);
    return u + second.mlp(second.post_attention_layernorm(u)) + around;
  }
};

using LongCat = CausalLM<Layer, Config>;

Config config(const ConfigReader& r) {
  Config c{{{{read_decoder_without_rope(r, {.vocab_size = 131072,
                                            .hidden_size = 6144,
                                            .intermediate_size = 12288,
                                            .num_hidden_layers = 28,
                                            .num_attention_heads = 64,
                                            .max_position_embeddings = 131072,
                                            .rms_norm_eps = 1e-5,
                                            .own_names = {{"num_hidden_layers", "num_layers"}, {"intermediate_size", "ffn_hidden_size"}}})}}}};
  if (!r.has("num_layers") && r.has("num_hidden_layers")) {  // which counts the halves
    if (c.num_hidden_layers % 2 != 0) r.refuse("num_hidden_layers", std::to_string(c.num_hidden_layers), "an even number: each layer counts as two");
    c.num_hidden_layers /= 2;
  }
  r.only("router_bias", false);
  read_latent_attention(c, r, {.rope = {.theta = 1e7, .interleaved = true}});
  // Other types with latent attention have this key from both of its parts, whatever the config says.
  if (const auto stated = r.optional_size("qk_head_dim"); stated && *stated != c.qk_head_dim())
    r.unsupported(fmt::format("qk_head_dim = {} is not supported: only qk_nope_head_dim + qk_rope_head_dim = {}", *stated, c.qk_head_dim()));
  if (!c.q_lora_rank) r.refuse("q_lora_rank", "null", "a positive integer");
  c.q_latent_scale = std::sqrt(static_cast<double>(c.hidden_size) / static_cast<double>(*c.q_lora_rank));
  c.kv_latent_scale = std::sqrt(static_cast<double>(c.hidden_size) / static_cast<double>(c.kv_lora_rank));
  c.num_experts = r.size("n_routed_experts", 512);
  c.idle_experts = r.count("zero_expert_num", 256);
  c.experts_per_token = r.size("moe_topk", 12);
  if (const auto all = c.num_experts + c.idle_experts; c.experts_per_token > all)
    r.refuse("moe_topk", std::to_string(c.experts_per_token), fmt::format("at most {}, as many as there are experts", all));
  c.expert_size = r.size("expert_ffn_hidden_size", 2048);
  c.routed_scale = r.number("routed_scaling_factor", 6);
  return c;
}

}  // namespace longcat_flash

// Checkpoints may hold gate and up matrices of the idle experts too, and layers that predict further tokens.
Family family_longcat_flash() {
  return {.types = {"longcat_flash"},
          .ignorable = {"model.mtp.*", "*.mlp.experts.*.gate_proj.weight", "*.mlp.experts.*.up_proj.weight"},
          .build = causal_lm_of<longcat_flash::LongCat>(longcat_flash::config)};
}

}  // namespace mobius::models
