// Mamba (arXiv 2312.00752): layers of a selective state space alone.
//
//   y = x + Mixer(RMSNorm(x));   h ← exp(Δ·A)·h + Δ·B·u,   o = C·h + D·u   inside, with Δ, B and C made from the token
#include "mobius/components/selective_mixer.hpp"
#include "mobius/components/state_space_lm.hpp"
#include "mobius/models/family.hpp"

namespace mobius::models {
namespace mamba {

struct Mixer : SelectiveMixer<AsIs> {
  Mixer(nn::Scope s, const SelectiveConfig& c) : SelectiveMixer(std::move(s), c.mixer) {}
};

}  // namespace mamba

Family family_mamba() {
  return {.types = {"mamba"}, .task = "ssm-text-generation", .build = state_space_lm_of<StateSpaceLM<mamba::Mixer, SelectiveConfig>>(read_selective)};
}

}  // namespace mobius::models
