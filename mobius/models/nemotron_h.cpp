// Nemotron-H (arXiv 2504.03624): a layer is one thing only, Mamba-2, attention without positions, an MLP of squared ReLUs or experts.
//
//   y = x + part(RMSNorm(x));   MLP(x) = down(relu(up(x))²)
#include <fmt/core.h>

#include <limits>
#include <variant>

#include "mobius/base/error.hpp"
#include "mobius/components/moe_layer.hpp"
#include "mobius/components/state_space.hpp"
#include "mobius/components/state_space_config.hpp"
#include "mobius/models/family.hpp"

namespace mobius::models {
namespace nemotron_h {

struct Config : MoeConfig {
  std::vector<std::string> kinds = {};  // of each layer: linear_attention, full_attention, mlp or moe
  Mamba2Shape mamba = {};
  std::int64_t groups = 1, kept_groups = 1;      // of experts
  std::optional<std::int64_t> latent_size = {};  // what experts see instead of the hidden size
};

// down(act(up(x))), of a width of its own.
struct SharedMLP : Module<SharedMLP, Config> {
  using Module::Module;

  Linear up_proj{scope / "up_proj", cfg.hidden_size, cfg.shared_size, cfg.mlp_bias};
  Linear down_proj{scope / "down_proj", cfg.shared_size, cfg.hidden_size, cfg.mlp_bias};

  Tensor forward(Tensor x) const { return down_proj(nn::activation(cfg.hidden_act, up_proj(x))); }
};

// Chosen by their sigmoid and a correction within the best groups; without gates; in a smaller space where the config says so.
struct Experts : Module<Experts, Config> {
  using Module::Module;

  std::int64_t width = cfg.latent_size.value_or(cfg.hidden_size);
  Scope router = scope.in(ir::DataType::float32) / "gate";
  Linear gate{router, cfg.hidden_size, cfg.num_experts};
  Parameter correction{router / "e_score_correction_bias", {cfg.num_experts}};
  Parameter up = stack_experts(scope / "experts", cfg.num_experts, "up_proj", cfg.expert_size, width);
  Parameter down = stack_experts(scope / "experts", cfg.num_experts, "down_proj", width, cfg.expert_size);
  std::optional<Linear> fc1_latent_proj =
      cfg.latent_size ? std::optional(Linear(scope / "fc1_latent_proj", cfg.hidden_size, width, cfg.mlp_bias)) : std::nullopt;
  std::optional<Linear> fc2_latent_proj =
      cfg.latent_size ? std::optional(Linear(scope / "fc2_latent_proj", width, cfg.hidden_size, cfg.mlp_bias)) : std::nullopt;
  SharedMLP shared_experts{scope / "shared_experts", cfg};

  Tensor forward(Tensor x) const {
    const auto routed = over_tokens(x, cfg.hidden_size, [&](Tensor tokens) {
      const Dispatch to(route(tokens), cfg.num_experts);
      const auto seen = to.group(fc1_latent_proj ? (*fc1_latent_proj)(tokens) : tokens);
      const auto y = to.combine(to.choices(to.linear(nn::activation(cfg.hidden_act, to.linear(seen, up)), down)));
      return fc2_latent_proj ? (*fc2_latent_proj)(y) : y;
    });
    return routed + shared_experts(x);
  }

  Routing route(Tensor tokens) const {
    const auto scores = sigmoid(gate(in_float32(tokens)));
    auto preference = scores + correction;
    if (cfg.kept_groups < cfg.groups)
      preference = within_groups(
          preference,
          {.experts = cfg.num_experts, .groups = cfg.groups, .kept = cfg.kept_groups, .counted = 2, .outside = -std::numeric_limits<double>::infinity()});
    const auto routing = choose_by(preference, scores, cfg.experts_per_token);
    return scaled(cfg.normalise ? normalised(routing, 1e-20) : routing, cfg.routed_scale);
  }
};

struct Layer : Module<Layer, Config> {
  using Part = std::variant<Mamba2Mixer, UnrotatedAttention, UngatedMLP, Experts>;
  std::int64_t layer;
  Layer(Scope s, const Config& c, std::int64_t layer_index) : Module(std::move(s), c), layer(layer_index) {}

  RMSNorm norm{scope / "norm", cfg.hidden_size, cfg.rms_norm_eps};
  Part mixer = make();

  Tensor forward(Tensor x, Decode& at) const {
    at.enter_layer(layer);
    const auto u = norm(x);
    return x + std::visit([&](const auto& part) { return apply(part, u, at); }, mixer);
  }

 private:
  static Tensor apply(const Mamba2Mixer& part, Tensor u, Decode& at) { return part(u, at); }
  static Tensor apply(const UnrotatedAttention& part, Tensor u, Decode& at) { return part(u, at); }
  static Tensor apply(const UngatedMLP& part, Tensor u, Decode&) { return part(u); }
  static Tensor apply(const Experts& part, Tensor u, Decode&) { return part(u); }

  Part make() const {
    const auto& kind = cfg.kinds[static_cast<std::size_t>(layer)];
    if (kind == "linear_attention") return Mamba2Mixer(scope / "mixer", cfg.mamba);
    if (kind == "full_attention") return UnrotatedAttention(scope / "mixer", cfg, layer);
    if (kind == "mlp") return UngatedMLP(scope / "mixer", cfg);
    return Experts(scope / "mixer", cfg);
  }
};

struct NemotronH : Module<NemotronH, Config> {
  using Module::Module;

  Scope backbone = (scope / "backbone").or_left_out();
  Embedding embeddings{backbone / "embeddings", cfg.vocab_size, cfg.hidden_size};
  std::vector<Layer> layers = layers_of<Layer>(backbone / "layers", cfg);
  RMSNorm norm_f{backbone / "norm_f", cfg.hidden_size, cfg.rms_norm_eps};
  Linear lm_head{scope / "lm_head", cfg.hidden_size, cfg.vocab_size};  // never tied, whatever the config says

  Tensor forward(Tensor input_ids, Decode& at) const {
    auto x = embeddings(input_ids);
    for (const auto& layer : layers) x = layer(x, at);
    return lm_head(norm_f(x));
  }
};

// layers_block_type or layer_types; else a letter for each layer: M, *, - and E.
std::vector<std::string> kinds_of(const ConfigReader& r) {
  for (const auto* key : {"layers_block_type", "layer_types"})
    if (const auto stated = r.texts(key))
      return read_layer_kinds(r, key, {"linear_attention", "full_attention", "mlp", "moe"}, std::vector<std::string>(stated->size()));
  std::vector<std::string> kinds;
  const auto pattern = r.text("hybrid_override_pattern", "ME*-");
  if (pattern.empty()) r.refuse("hybrid_override_pattern", "empty", "a letter for each layer");
  for (const char letter : pattern) {
    const std::string_view letters = "M*-E";
    const auto at = letters.find(letter);
    if (at == std::string_view::npos) r.refuse("hybrid_override_pattern", fmt::format("'{}'", letter), "one of M, *, - and E for each layer");
    constexpr const char* names[] = {"linear_attention", "full_attention", "mlp", "moe"};
    kinds.emplace_back(names[at]);
  }
  return kinds;
}

// Some keys have had another name, which wins.
template <class Read>
auto either(const ConfigReader& r, std::string_view older, std::string_view newer, Read&& read) {
  return read(r.has(older) ? older : newer);
}

Mamba2Shape mixer(const ConfigReader& r, const Config& c) {
  const auto size = [&](std::int64_t otherwise) { return [&r, otherwise](std::string_view key) { return r.size(key, otherwise); }; };
  Mamba2Shape m;
  m.hidden = c.hidden_size;
  m.heads = r.size("mamba_num_heads", 128);
  m.head_dim = r.size("mamba_head_dim", 64);
  m.groups = either(r, "mamba_n_groups", "n_groups", size(8));
  m.state = r.size("ssm_state_size", 128);
  m.kernel = either(r, "mamba_d_conv", "conv_kernel", size(4));
  m.conv_bias = either(r, "mamba_conv_bias", "use_conv_bias", [&](std::string_view key) { return r.boolean(key, true); });
  m.proj_bias = r.boolean("use_bias", false);
  m.activation = r.text("mamba_hidden_act", "silu");
  m.norm_eps = c.rms_norm_eps;
  m.min_step = either(r, "mamba_dt_min", "time_step_min", [&](std::string_view key) { return r.number(key, 0.001); });
  check_inner_size(m, r, m.inner());
  return m;
}

void read_experts(Config& c, const ConfigReader& r) {
  c.num_experts = r.size("n_routed_experts", r.size("num_local_experts", 8));
  c.experts_per_token = r.size("num_experts_per_tok", 2);
  c.expert_size = r.size("moe_intermediate_size", 7688);
  c.shared_size = r.size("moe_shared_expert_intermediate_size", 7688);
  c.latent_size = r.optional_size("moe_latent_size");
  c.groups = r.size("n_group", 1);
  c.kept_groups = r.size("topk_group", 1);
  c.normalise = r.boolean("norm_topk_prob", true);
  c.routed_scale = r.number("routed_scaling_factor", 1);
  check_experts(c, r);
  if (c.num_experts % c.groups != 0 || c.kept_groups > c.groups || c.num_experts / c.groups < 2 ||
      c.num_experts / c.groups * c.kept_groups < c.experts_per_token)
    fail(ErrorKind::invalid_argument, "{}: {} experts in {} groups, of which {} are kept, don't give {} per token", r.where(), c.num_experts, c.groups,
         c.kept_groups, c.experts_per_token);
}

Config config(const ConfigReader& r) {
  Config c{{read_decoder_without_rope(
      r, {.vocab_size = 131072, .intermediate_size = 21504, .num_key_value_heads = 8, .head_dim = 128, .max_position_embeddings = 4096})}};
  c.rms_norm_eps = r.positive("layer_norm_epsilon", 1e-5);
  c.hidden_act = r.text("mlp_hidden_act", "relu2");
  c.mlp_bias = r.boolean("mlp_bias", false);
  c.kinds = kinds_of(r);
  c.num_hidden_layers = static_cast<std::int64_t>(c.kinds.size());
  c.mamba = mixer(r, c);
  read_experts(c, r);
  return c;
}

}  // namespace nemotron_h

// Checkpoints may hold layers that predict the token after the next.
Family family_nemotron_h() {
  return {.types = {"nemotron_h"}, .task = "hybrid-text-generation", .ignorable = {"mtp*"}, .build = causal_lm_of<nemotron_h::NemotronH>(nemotron_h::config)};
}

}  // namespace mobius::models
