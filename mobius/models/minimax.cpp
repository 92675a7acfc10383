// MiniMax-01 (arXiv 2501.08313): lightning attention, which is linear with a fixed decay per head, between layers of softmax attention; experts everywhere.
//
//   u = RMSNorm(x);   h = α·u + β·Attention(u);   v = RMSNorm(h);   y = α'·v + β'·MoE(v)
#include <cmath>

#include "mobius/components/moe_layer.hpp"
#include "mobius/components/state_space_config.hpp"
#include "mobius/models/family.hpp"

namespace mobius::models {
namespace minimax {

struct Config : MoeConfig {
  std::vector<std::string> kinds = {};  // of each layer: linear_attention or full_attention
  double full_alpha = 1, full_beta = 1, linear_alpha = 1, linear_beta = 1, mlp_alpha = 1, mlp_beta = 1;
  bool linear(std::int64_t layer) const { return kinds[static_cast<std::size_t>(layer)] == "linear_attention"; }
};

// S ← e^−r·S + k ⊗ v;   out_proj(σ(output_gate(x)) · RMSNorm(Sᵀq)),  q, k and v through the activation. The rate r falls from head to head and from layer to
// layer.
struct LightningAttention : Module<LightningAttention, Config> {
  std::int64_t layer;
  LightningAttention(Scope s, const Config& c, std::int64_t layer_index) : Module(std::move(s), c), layer(layer_index) {}

  Linear q_proj = third("q_proj", 0);
  Linear k_proj = third("k_proj", 1);
  Linear v_proj = third("v_proj", 2);
  Parameter rate{(scope / "decay").path(), minus_rates()};
  RMSNorm norm{scope / "norm", cfg.q_size(), 1e-6};
  Linear output_gate{scope / "output_gate", cfg.hidden_size, cfg.q_size()};
  Linear out_proj{scope / "out_proj", cfg.q_size(), cfg.hidden_size};

  Tensor forward(Tensor x, Decode& at) const {
    const auto q = nn::activation(cfg.hidden_act, q_proj(x));
    const auto k = nn::activation(cfg.hidden_act, k_proj(x));
    const auto v = at.only_tokens(nn::activation(cfg.hidden_act, v_proj(x)));
    const auto decay = at.only_tokens(x.with(rate));  // [heads] for each token: [B, S, heads]
    const auto heads = cfg.num_attention_heads;
    const auto y = at.recur(q, k, v, decay, {}, {.query_heads = heads, .heads = heads, .key_dim = cfg.head_dim, .value_dim = cfg.head_dim});
    const auto gate = sigmoid(output_gate(x));
    return out_proj(gate * norm(y));
  }

  // qkv_proj has q, k and v of one head after the other.
  Linear third(std::string_view name, std::int64_t part) const {
    std::vector<std::int64_t> order;
    for (std::int64_t h = 0; h < cfg.num_attention_heads; ++h) order.push_back(3 * h + part);
    const Parameter stored(scope / "qkv_proj" / "weight", {3 * cfg.q_size(), cfg.hidden_size});
    return {scope / name, stored.blocks((scope / name / "weight").path(), cfg.head_dim, order)};
  }

  ir::TensorPtr minus_rates() const {
    const auto heads = cfg.num_attention_heads;
    const double base = std::pow(2.0, -8.0 / static_cast<double>(heads));
    const double factor = 1 - static_cast<double>(layer) / (static_cast<double>(cfg.num_hidden_layers - 1) + 1e-5) + 1e-5;
    std::vector<float> rates;
    for (std::int64_t h = 1; h <= heads; ++h) rates.push_back(-static_cast<float>(std::pow(base, static_cast<double>(h)) * factor));
    return ir::cast(ir::make_tensor({heads}, std::span<const float>(rates)), scope.dtype());
  }
};

struct Layer : Module<Layer, Config> {
  std::int64_t layer;
  bool linear = cfg.linear(layer);
  double alpha = linear ? cfg.linear_alpha : cfg.full_alpha, beta = linear ? cfg.linear_beta : cfg.full_beta;
  Layer(Scope s, const Config& c, std::int64_t layer_index) : Module(std::move(s), c), layer(layer_index) {}

  RMSNorm input_layernorm{scope / "input_layernorm", cfg.hidden_size, cfg.rms_norm_eps};
  std::optional<LightningAttention> lightning = linear ? std::optional<LightningAttention>(std::in_place, scope / "self_attn", cfg, layer) : std::nullopt;
  std::optional<SelfAttention> self_attn = linear ? std::nullopt : std::optional<SelfAttention>(std::in_place, scope / "self_attn", cfg, layer);
  RMSNorm post_attention_layernorm{scope / "post_attention_layernorm", cfg.hidden_size, cfg.rms_norm_eps};
  MixtralExperts block_sparse_moe{scope / "block_sparse_moe", cfg};

  Tensor forward(Tensor x, Decode& at) const {
    at.enter_layer(layer);
    const auto u = input_layernorm(x);
    const auto h = u * alpha + (lightning ? (*lightning)(u, at) : (*self_attn)(u, at)) * beta;
    const auto v = post_attention_layernorm(h);
    return v * cfg.mlp_alpha + block_sparse_moe(v) * cfg.mlp_beta;
  }
};

using MiniMax = CausalLM<Layer, Config>;

Config config(const ConfigReader& r) {
  Config c{{read_decoder(
      r, {.intermediate_size = 14336, .num_key_value_heads = 8, .max_position_embeddings = 131072, .rms_norm_eps = 1e-5, .rope = {.theta = 1000000}})}};
  set_window(c, r.optional_size("sliding_window"));
  std::vector<std::string> otherwise;
  for (std::int64_t i = 0; i < c.num_hidden_layers; ++i) otherwise.emplace_back(i % 2 == 0 ? "full_attention" : "linear_attention");
  c.kinds = read_layer_kinds(r, "layer_types", {"linear_attention", "full_attention"}, std::move(otherwise));
  c.num_experts = r.size("num_local_experts", r.size("num_experts", 8));
  c.experts_per_token = r.size("num_experts_per_tok", 2);
  c.expert_size = c.intermediate_size;
  c.full_alpha = r.number("full_attn_alpha_factor", 1);
  c.full_beta = r.number("full_attn_beta_factor", 1);
  c.linear_alpha = r.number("linear_attn_alpha_factor", 1);
  c.linear_beta = r.number("linear_attn_beta_factor", 1);
  c.mlp_alpha = r.number("mlp_alpha_factor", 1);
  c.mlp_beta = r.number("mlp_beta_factor", 1);
  check_experts(c, r);
  return c;
}

}  // namespace minimax

// Some checkpoints hold the decays, too: they follow from the config.
Family family_minimax() {
  return {.types = {"minimax"},
          .task = "hybrid-text-generation",
          .ignorable = {"*.rotary_emb.inv_freq", "*.slope_rate", "*.query_decay", "*.key_decay", "*.diagonal_decay"},
          .build = causal_lm_of<minimax::MiniMax>(minimax::config)};
}

}  // namespace mobius::models
