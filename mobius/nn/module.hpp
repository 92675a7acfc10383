// Module: a named part of a model. Its scope is the checkpoint's path, and the nodes it emits are named after it.
//
//   struct MLP : Module<MLP, DecoderConfig> {
//     using Module::Module;
//     Linear up_proj{scope / "up_proj", cfg.hidden_size, cfg.intermediate_size};
//     Linear down_proj{scope / "down_proj", cfg.intermediate_size, cfg.hidden_size};
//     Tensor forward(Tensor x) const { return down_proj(relu(up_proj(x))); }
//   };
//   MLP mlp{Scope(DataType::float32) / "mlp", config};
//   Tensor y = mlp(x);
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "mobius/nn/tensor.hpp"

namespace mobius::nn {

// Calls `forward` with the builder's scope set to `path`, so that nodes carry the module's name.
template <class F>
auto scoped(Builder& builder, const std::string& path, F&& forward) {
  struct Restore {
    Builder& builder;
    std::string outer;
    ~Restore() { builder.scope = std::move(outer); }
  } restore{builder, std::exchange(builder.scope, path)};
  return std::forward<F>(forward)();
}

// The config is referred to, not copied: it has to live as long as the module.
template <class Self, class Config>
struct Module {
  Scope scope;
  const Config& cfg;

  Module(Scope s, const Config& c) : scope(std::move(s)), cfg(c) {}

  template <class... Args>
  auto operator()(Tensor x, Args&&... args) const {
    return scoped(x.builder(), scope.path(), [&] { return static_cast<const Self&>(*this).forward(x, std::forward<Args>(args)...); });
  }
};

// n modules under scope/0, scope/1, ...; `args` come after the scope.
template <class M, class... Args>
std::vector<M> repeat(std::int64_t n, const Scope& scope, const Args&... args) {
  std::vector<M> modules;
  modules.reserve(static_cast<std::size_t>(n));
  for (std::int64_t i = 0; i < n; ++i) modules.emplace_back(scope / i, args...);
  return modules;
}

}  // namespace mobius::nn
