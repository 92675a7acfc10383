// One of several parts: in a Bamba layer Mamba-2 or attention, each under its own name.
//
//   using Mixer = OneOf<Mamba2Mixer, SelfAttention>;
//   Mixer mixer = attends ? Mixer(SelfAttention(scope / "self_attn", cfg, layer)) : Mixer(Mamba2Mixer(scope / "mamba", cfg.mamba));
//   ...
//   const auto h = x + mixer(input_layernorm(x), at);
#pragma once
#include <utility>
#include <variant>

#include "mobius/nn/tensor.hpp"

namespace mobius {

template <class... Parts>
struct OneOf {
  std::variant<Parts...> part;

  template <class Part>
  explicit OneOf(Part given) : part(std::move(given)) {}

  // All parts take the same operands.
  template <class... Operands>
  nn::Tensor operator()(nn::Tensor x, Operands&&... operands) const {
    return std::visit([&](const auto& p) { return p(x, operands...); }, part);
  }
};

}  // namespace mobius
