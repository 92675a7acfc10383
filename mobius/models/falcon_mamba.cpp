// Falcon-Mamba (arXiv 2410.05355): Mamba whose step, input and output are RMS-normalised, without weights, before the recurrence.
//
//   [dt, B, C] = x_proj(x);   Δ = softplus(dt_proj(n(dt)));   y = SSM(x, Δ, n(B), n(C)),   n(v) = v / √(mean(v²) + ε)
#include "mobius/components/selective_mixer.hpp"
#include "mobius/components/state_space_lm.hpp"
#include "mobius/models/family.hpp"

namespace mobius::models {
namespace falcon_mamba {

struct Mixer : SelectiveMixer<nn::UnweightedRMSNorm> {
  Mixer(nn::Scope s, const SelectiveConfig& c) : SelectiveMixer(std::move(s), c.mixer) {}
};

SelectiveConfig config(const ConfigReader& r) {
  auto c = read_selective(r);
  c.mixer.norm_eps = r.positive("mixer_rms_eps", 1e-6);
  return c;
}

}  // namespace falcon_mamba

Family family_falcon_mamba() {
  return {.types = {"falcon_mamba"},
          .task = "ssm-text-generation",
          .build = state_space_lm_of<StateSpaceLM<falcon_mamba::Mixer, SelectiveConfig>>(falcon_mamba::config)};
}

}  // namespace mobius::models
