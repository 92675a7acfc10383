// Mamba-2 (arXiv 2405.21060): one decay per head instead of one per channel and state, which makes the state space linear attention.
//
//   h ← exp(Δ·A)·h + B ⊗ Δ·u;   o = hᵀC + D·u;   y = x + out_proj(RMSNorm(o · silu(z)))

#include "mobius/components/state_space.hpp"
#include "mobius/components/state_space_config.hpp"
#include "mobius/components/state_space_lm.hpp"
#include "mobius/models/family.hpp"

namespace mobius::models {
namespace mamba2 {

struct Config : StateSpaceConfig {
  Mamba2Shape mixer;
};

struct Mixer : Mamba2Mixer {
  Mixer(nn::Scope s, const Config& c) : Mamba2Mixer(std::move(s), c.mixer) {}
};

Config config(const ConfigReader& r) {
  Config c;
  c.vocab_size = r.size("vocab_size", 32768);
  c.hidden_size = r.size("hidden_size", 4096);
  c.num_hidden_layers = r.size("num_hidden_layers", 64);
  if (c.num_hidden_layers > 4096) r.refuse("num_hidden_layers", std::to_string(c.num_hidden_layers), "at most 4096");
  c.layer_norm_epsilon = r.positive("layer_norm_epsilon", 1e-5);
  c.tie_word_embeddings = r.boolean("tie_word_embeddings", false);
  auto& m = c.mixer;
  m.hidden = c.hidden_size;
  m.heads = r.size("num_heads", 128);
  m.head_dim = r.size("head_dim", 64);
  m.groups = r.size("n_groups", 8);
  m.state = r.size("state_size", 128);
  m.kernel = r.size("conv_kernel", 4);
  m.conv_bias = r.boolean("use_conv_bias", true);
  m.proj_bias = r.boolean("use_bias", false);
  m.activation = r.text("hidden_act", "silu");
  m.norm_eps = c.layer_norm_epsilon;
  read_step_limits(m, r, "time_step_limit");
  check_inner_size(m, r, r.size("expand", 2) * c.hidden_size);
  return c;
}

}  // namespace mamba2

Family family_mamba2() {
  return {.types = {"mamba2"}, .task = "ssm2-text-generation", .build = state_space_lm_of<StateSpaceLM<mamba2::Mixer, mamba2::Config>>(mamba2::config)};
}

}  // namespace mobius::models
