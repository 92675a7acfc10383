// MiniMax-01 (arXiv 2501.08313): lightning attention, which is linear with a fixed decay per head, between layers of softmax attention; experts everywhere.
//
//   u = RMSNorm(x);   h = α·u + β·Attention(u);   v = RMSNorm(h);   y = α'·v + β'·MoE(v)
#include <fmt/format.h>

#include <cmath>
#include <cstring>

#include "mobius/base/error.hpp"
#include "mobius/components/moe_layer.hpp"
#include "mobius/components/one_of.hpp"
#include "mobius/components/state_space_config.hpp"
#include "mobius/models/family.hpp"

namespace mobius::models {
namespace minimax {

struct Config : MoeConfig {
  std::vector<std::string> kinds = {};  // of each layer: linear_attention or full_attention
  double full_alpha = 1, full_beta = 1, linear_alpha = 1, linear_beta = 1, mlp_alpha = 1, mlp_beta = 1;
  std::int64_t block_size = 256;  // tokens that transformers computes at once: how far its tables of decays reach
  bool linear(std::int64_t layer) const { return kinds[static_cast<std::size_t>(layer)] == "linear_attention"; }
};

// The rate of each head where a checkpoint holds none. It falls from head to head and from layer to layer.
std::vector<double> default_rates(const Config& cfg, std::int64_t layer) {
  const double base = std::pow(2.0, -8.0 / static_cast<double>(cfg.num_attention_heads));
  const double factor = 1 - static_cast<double>(layer) / (static_cast<double>(cfg.num_hidden_layers - 1) + 1e-5) + 1e-5;
  std::vector<double> rates;
  for (std::int64_t h = 1; h <= cfg.num_attention_heads; ++h) rates.push_back(std::pow(base, static_cast<double>(h)) * factor);
  return rates;
}

// S ← e^−r·S + k ⊗ v;   out_proj(σ(output_gate(x)) · RMSNorm(Sᵀq)),  q, k and v through the activation. The rate r of each head is the checkpoint's slope_rate.
struct LightningAttention : Module<LightningAttention, Config> {
  std::int64_t layer;
  LightningAttention(Scope s, const Config& c, std::int64_t layer_index) : Module(std::move(s), c), layer(layer_index) {}

  Linear q_proj = third("q_proj", 0);
  Linear k_proj = third("k_proj", 1);
  Linear v_proj = third("v_proj", 2);
  Parameter minus_rate{(scope / "decay").path(),
                       ir::reshape(Parameter(scope / "slope_rate", {cfg.num_attention_heads, 1, 1}).scaled(-1).data(), {cfg.num_attention_heads})};
  RMSNorm norm{scope / "norm", cfg.q_size(), 1e-6};
  Linear output_gate{scope / "output_gate", cfg.hidden_size, cfg.q_size()};
  Linear out_proj{scope / "out_proj", cfg.q_size(), cfg.hidden_size};

  Tensor forward(Tensor x, Decode& at) const {
    const auto q = nn::activation(cfg.hidden_act, q_proj(x));
    const auto k = nn::activation(cfg.hidden_act, k_proj(x));
    const auto v = at.only_tokens(nn::activation(cfg.hidden_act, v_proj(x)));
    const auto decay = at.only_tokens(x.with(minus_rate));  // [heads] for each token: [B, S, heads]
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
};

struct Layer : Module<Layer, Config> {
  using Attention = OneOf<LightningAttention, SelfAttention>;
  std::int64_t layer;
  bool linear = cfg.linear(layer);
  double alpha = linear ? cfg.linear_alpha : cfg.full_alpha, beta = linear ? cfg.linear_beta : cfg.full_beta;
  Layer(Scope s, const Config& c, std::int64_t layer_index) : Module(std::move(s), c), layer(layer_index) {}

  RMSNorm input_layernorm{scope / "input_layernorm", cfg.hidden_size, cfg.rms_norm_eps};
  Attention self_attn = linear ? Attention(LightningAttention(scope / "self_attn", cfg, layer)) : Attention(SelfAttention(scope / "self_attn", cfg, layer));
  RMSNorm post_attention_layernorm{scope / "post_attention_layernorm", cfg.hidden_size, cfg.rms_norm_eps};
  MixtralExperts block_sparse_moe{scope / "block_sparse_moe", cfg};

  Tensor forward(Tensor x, Decode& at) const {
    at.enter_layer(layer);
    const auto u = input_layernorm(x);
    const auto h = u * alpha + self_attn(u, at) * beta;
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
  c.block_size = r.size("block_size", 256);
  check_experts(c, r);
  return c;
}

// ── the decays of a checkpoint ──
//
// Checkpoints hold the rates twice: as slope_rate, by which transformers takes tokens one by one and blocks as a whole, and as tables of e^−r·n for the tokens
// of a block. Our recurrence has one rate for both, which is right where the tables are what the rates make of them; any others are refused.

using Find = Family::FindTensor;

std::string stored_name(std::int64_t layer, std::string_view name) { return fmt::format("model.layers.{}.self_attn.{}", layer, name); }

ir::TensorPtr missing_rates(const ConfigReader& reader, const ir::Placeholder& wanted) {
  const Config cfg = config(reader);
  for (std::int64_t layer = 0; layer < cfg.num_hidden_layers; ++layer) {
    if (wanted.name() != stored_name(layer, "slope_rate")) continue;
    return ir::make_tensor_of(ir::DataType::float32, wanted.dims(), default_rates(cfg, layer));
  }
  return nullptr;
}

// The most that rounding a number to this type changes it by, relatively.
double rounding(ir::DataType dtype) { return dtype == ir::DataType::bfloat16 ? 0x1p-8 : dtype == ir::DataType::float16 ? 0x1p-11 : 0x1p-24; }

std::vector<float> floats(const ir::TensorPtr& x) {
  const auto bytes = ir::cast(x, ir::DataType::float32)->bytes();
  std::vector<float> out(bytes.size() / sizeof(float));
  std::memcpy(out.data(), bytes.data(), bytes.size());
  return out;
}

// The tables of one layer against its rates.
class DecayCheck {
 public:
  DecayCheck(const Config& config, const Find& find_tensor, std::int64_t index) : cfg_(config), find_(find_tensor), layer_(index) {
    const auto known = default_rates(cfg_, layer_);
    rates_ = known;
    if (!stored_rates_) return;
    const auto values = floats(stored_rates_);
    expect(values.size() == known.size(), "slope_rate was bound with another shape");
    rates_.assign(values.begin(), values.end());
    for (std::size_t h = 0; h < known.size(); ++h) is_default_ &= std::abs(rates_[h] - known[h]) <= power_rounding(stored_rates_->dtype()) * known[h];
  }

  // What an element of a table belongs to: it is e^−r·tokens of this head, 0 for less than no token.
  struct Element {
    std::int64_t head, tokens;
  };
  template <class ElementAt>
  void table(std::string_view name, const ir::Dims& dims, ElementAt element_at) const {
    const auto full = stored_name(layer_, name);
    const auto stored = find_(full);
    if (!stored && is_default_) return;  // transformers computes it from the config, as it does the rates
    if (!stored) fail(ErrorKind::unsupported, "{} is not what the config gives, but {} is missing, which would be made by the config", rates_name_, full);
    if (stored->dims() != dims) fail(ErrorKind::invalid_argument, "{} is [{}], expected [{}]", full, fmt::join(stored->dims(), ", "), fmt::join(dims, ", "));
    const double rates_rounding = stored_rates_ ? rounding(stored_rates_->dtype()) : power_rounding(stored->dtype());
    const double allowed = rates_rounding / std::exp(1) + 4 * rounding(stored->dtype());  // x·e^−x is 1/e at most
    const auto values = floats(stored);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double expected = decay(element_at(static_cast<std::int64_t>(i)));
      if (std::abs(values[i] - expected) <= allowed) continue;
      fail(ErrorKind::unsupported, "{}: element {} is {}, but {} gives {}: a prompt would decay otherwise than the tokens that follow it", full, i, values[i],
           stored_rates_ ? rates_name_ : "the config", static_cast<float>(expected));
    }
  }

 private:
  // Rates are powers of one number that is rounded, too.
  double power_rounding(ir::DataType dtype) const { return static_cast<double>(cfg_.num_attention_heads + 4) * rounding(dtype); }
  double decay(Element e) const { return e.tokens < 0 ? 0 : std::exp(-rates_[static_cast<std::size_t>(e.head)] * static_cast<double>(e.tokens)); }

  const Config& cfg_;
  const Find& find_;
  std::int64_t layer_;
  std::string rates_name_ = stored_name(layer_, "slope_rate");
  ir::TensorPtr stored_rates_ = find_(rates_name_);
  std::vector<double> rates_;
  bool is_default_ = true;
};

void check_decays(const ConfigReader& reader, const Find& find) {
  const Config cfg = config(reader);
  const auto heads = cfg.num_attention_heads, block = cfg.block_size;
  for (std::int64_t layer = 0; layer < cfg.num_hidden_layers; ++layer) {
    if (!cfg.linear(layer)) continue;
    const DecayCheck check(cfg, find, layer);
    check.table("query_decay", {heads, block, 1}, [&](std::int64_t i) { return DecayCheck::Element{i / block, i % block + 1}; });
    check.table("key_decay", {heads, block, 1}, [&](std::int64_t i) { return DecayCheck::Element{i / block, block - 1 - i % block}; });
    check.table("diagonal_decay", {1, heads, block, block}, [&](std::int64_t i) {
      return DecayCheck::Element{i / (block * block), i / block % block - i % block};
    });
  }
}

}  // namespace minimax

Family family_minimax() {
  return {.types = {"minimax"},
          .task = "hybrid-text-generation",
          .ignorable = {"*.rotary_emb.inv_freq", "*.query_decay", "*.key_decay", "*.diagonal_decay"},
          .otherwise = minimax::missing_rates,
          .check = minimax::check_decays,
          .build = causal_lm_of<minimax::MiniMax>(minimax::config)};
}

}  // namespace mobius::models
