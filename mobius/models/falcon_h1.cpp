// Falcon-H1 (arXiv 2507.22448): each layer has Mamba-2 and attention side by side, and every branch its own constant (maximal update parametrisation).
//
//   u = RMSNorm(x);   h = x + o·Mamba2(u) + a·Attention(i·u);   y = h + MLP(RMSNorm(h))
#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "mobius/components/decoder.hpp"
#include "mobius/components/state_space.hpp"
#include "mobius/components/state_space_config.hpp"
#include "mobius/models/family.hpp"

namespace mobius::models {
namespace falcon_h1 {

struct Config : DecoderConfig {
  static constexpr std::string_view final_norm = "final_layernorm";
  Mamba2Shape mamba = {};
  bool out_bias = false;         // of the mixer's projection back
  bool has_norm = false;         // the mixer's
  bool norm_before_gate = true;  // norm(y)·silu(z) rather than norm(y·silu(z))
  double embedding = 1, logits = 1, key = 1, attention_in = 1, attention_out = 1, ssm_in = 1, ssm_out = 1, gate = 1, down = 1;
  std::vector<double> projected = {};  // of what the mixer projects: z, x, B, C, dt
};

// Keys times a constant: as well the scores.
AttentionSpec attention_spec(const Config& cfg, std::int64_t layer) {
  auto spec = mobius::attention_spec(cfg, layer);
  spec.scale = cfg.key / std::sqrt(static_cast<double>(cfg.head_dim));
  return spec;
}

using Attention = RotaryAttention<Config>;

struct Mixer : Module<Mixer, Config> {
  using Module::Module;
  const Mamba2Shape& m = cfg.mamba;

  Linear in_proj{scope / "in_proj", scaled("weight", {m.projected(), m.hidden}), m.proj_bias ? std::optional(scaled("bias", {m.projected()})) : std::nullopt};
  CausalConv conv1d{scope / "conv1d", m.convolved(), m.kernel, m.conv_bias};
  StateSpaceDual ssm{scope, m};
  std::optional<GroupedRMSNorm> norm =
      cfg.has_norm ? std::optional<GroupedRMSNorm>(std::in_place, scope / "norm", m.inner(), m.groups, m.norm_eps) : std::nullopt;
  Linear out_proj{scope / "out_proj", m.inner(), m.hidden, cfg.out_bias};

  Tensor forward(Tensor u, Decode& at) const {
    const auto [z, xBC, dt] = split<3>(in_proj(u * cfg.ssm_in), {m.inner(), m.convolved(), m.heads}, -1);
    const auto [x, B, C] = split<3>(conv1d(xBC, at, m.activation), {m.inner(), m.in_out(), m.in_out()}, -1);
    const auto y = ssm(x, dt, B, C, at);
    const auto gate = nn::activation("silu", z);
    if (!norm) return out_proj(y * gate);
    return out_proj(cfg.norm_before_gate ? (*norm)(y)*gate : (*norm)(y * gate));
  }

  // The projection's rows for z, x, B, C and dt, each times its constant: at load time.
  Parameter scaled(std::string_view name, ir::Dims dims) const {
    const auto at = scope / "in_proj" / name;
    const Parameter exact(at.in(ir::DataType::float32), std::move(dims));
    std::vector<ir::TensorPtr> parts;
    std::int64_t row = 0;
    const std::int64_t sizes[] = {m.inner(), m.inner(), m.in_out(), m.in_out(), m.heads};
    for (std::size_t i = 0; i < cfg.projected.size(); row += sizes[i++])
      parts.push_back(ir::affine(ir::slice(exact.data(), 0, row, row + sizes[i]), cfg.projected[i], 0));
    const bool neutral = std::ranges::all_of(cfg.projected, [](double f) { return f == 1; });
    return {at.path(), ir::cast(neutral ? exact.data() : ir::concat(std::move(parts), 0), scope.dtype())};
  }
};

struct MLP : Module<MLP, Config> {
  using Module::Module;

  Linear gate_proj{scope / "gate_proj", cfg.hidden_size, cfg.intermediate_size, cfg.mlp_bias};
  Linear up_proj{scope / "up_proj", cfg.hidden_size, cfg.intermediate_size, cfg.mlp_bias};
  Linear down_proj{scope / "down_proj", cfg.intermediate_size, cfg.hidden_size, cfg.mlp_bias};

  Tensor forward(Tensor x) const {
    const auto gate = nn::activation(cfg.hidden_act, gate_proj(x) * cfg.gate);
    return down_proj(gate * up_proj(x)) * cfg.down;
  }
};

struct Layer : Module<Layer, Config> {
  std::int64_t layer;
  Layer(Scope s, const Config& c, std::int64_t layer_index) : Module(std::move(s), c), layer(layer_index) {}

  RMSNorm input_layernorm{scope / "input_layernorm", cfg.hidden_size, cfg.rms_norm_eps};
  Mixer mamba{scope / "mamba", cfg};
  Attention self_attn{scope / "self_attn", cfg, layer};
  RMSNorm pre_ff_layernorm{scope / "pre_ff_layernorm", cfg.hidden_size, cfg.rms_norm_eps};
  MLP feed_forward{scope / "feed_forward", cfg};

  Tensor forward(Tensor x, Decode& at) const {
    at.enter_layer(layer);
    const auto u = input_layernorm(x);
    const auto states = mamba(u, at) * cfg.ssm_out;
    const auto h = x + (states + self_attn(u * cfg.attention_in, at) * cfg.attention_out);
    return h + feed_forward(pre_ff_layernorm(h));
  }
};

struct FalconH1 : Module<FalconH1, Config> {
  using Module::Module;

  DecoderStack<Layer, Config> model{scope / "model", cfg, scope / "lm_head"};
  Linear lm_head = model.make_head();

  Tensor forward(Tensor input_ids, Decode& at) const { return lm_head(model(model.embed_tokens(input_ids) * cfg.embedding, at)) * cfg.logits; }
};

// A list of n numbers; absent: ones.
std::vector<double> factors(const ConfigReader& r, std::string_view key, std::size_t n) {
  auto list = r.has(key) ? r.numbers(key) : std::vector<double>(n, 1);
  if (list.size() != n) r.refuse(key, fmt::format("a list of {}", list.size()), fmt::format("{} numbers", n));
  return list;
}

Config config(const ConfigReader& r) {
  Config c{
      read_decoder(r, {.vocab_size = 128000, .intermediate_size = 14336, .num_key_value_heads = 8, .max_position_embeddings = 8192, .rms_norm_eps = 1e-5})};
  c.qkv_bias = c.o_bias = r.boolean("attention_bias", false);
  c.mlp_bias = r.boolean("mlp_bias", false);
  const auto inner = r.nullable_size("mamba_d_ssm", 1024);
  c.mamba = read_hybrid_mixer(r, c.hidden_size, inner ? *inner : r.size("mamba_expand", 2) * c.hidden_size, c.rms_norm_eps);
  c.out_bias = r.boolean("projectors_bias", false);
  c.has_norm = r.boolean("mamba_rms_norm", false);
  c.norm_before_gate = r.boolean("mamba_norm_before_gate", true);
  c.embedding = r.number("embedding_multiplier", 1);
  c.logits = r.number("lm_head_multiplier", 1);
  c.key = r.number("key_multiplier", 1);
  c.attention_in = r.number("attention_in_multiplier", 1);
  c.attention_out = r.number("attention_out_multiplier", 1);
  c.ssm_in = r.number("ssm_in_multiplier", 1);
  c.ssm_out = r.number("ssm_out_multiplier", 1);
  const auto mlp = factors(r, "mlp_multipliers", 2);
  c.gate = mlp[0];
  c.down = mlp[1];
  c.projected = factors(r, "ssm_multipliers", 5);
  return c;
}

}  // namespace falcon_h1

Family family_falcon_h1() { return {.types = {"falcon_h1"}, .task = "hybrid-text-generation", .build = causal_lm_of<falcon_h1::FalconH1>(falcon_h1::config)}; }

}  // namespace mobius::models
