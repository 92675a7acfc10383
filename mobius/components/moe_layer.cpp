// Which layers have experts.
#include "mobius/components/moe_layer.hpp"

#include "mobius/base/error.hpp"

namespace mobius {

void check_experts(const MoeConfig& c, const ConfigReader& r) {
  constexpr std::int64_t most = 65536;  // far above any published model: each has weights of its own name
  if (c.num_experts > most) fail(ErrorKind::invalid_argument, "{}: there are {} experts, expected at most {}", r.where(), c.num_experts, most);
  if (c.experts_per_token > c.num_experts)
    fail(ErrorKind::invalid_argument, "{}: {} experts per token, but there are {}", r.where(), c.experts_per_token, c.num_experts);
}

std::vector<bool> sparse_from(std::int64_t first, std::int64_t layers) {
  std::vector<bool> out(static_cast<std::size_t>(layers));
  for (std::int64_t i = 0; i < layers; ++i) out[static_cast<std::size_t>(i)] = i >= first;
  return out;
}

std::vector<bool> sparse_by_step(const ConfigReader& r, std::int64_t layers) {
  const auto step = r.size("decoder_sparse_step", 1);
  auto out = r.places("mlp_only_layers", layers);
  for (std::int64_t i = 0; i < layers; ++i) out[static_cast<std::size_t>(i)] = (i + 1) % step == 0 && !out[static_cast<std::size_t>(i)];
  return out;
}

}  // namespace mobius
