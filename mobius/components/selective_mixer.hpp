// Mamba's mixer (arXiv 2312.00752): a gated state space whose step, input and output are made from the token.
//
//   [x, z] = in_proj(u);  x = act(conv(x));  [dt, B, C] = x_proj(x);  out_proj(SSM(x, dt_proj(dt), B, C) · silu(z))
//
//   SelectiveMixer<AsIs> mamba{scope / "mixer", shape};          // dt, B and C as they are
//   SelectiveMixer<nn::RMSNorm> jamba{scope / "mamba", shape};   // each normalised first: dt_layernorm, b_layernorm, c_layernorm
#pragma once
#include <string>

#include "mobius/components/state_space.hpp"
#include "mobius/config/reader.hpp"

namespace mobius {

struct SelectiveShape {
  std::int64_t hidden = 0, inner = 0, state = 0, step_rank = 0, kernel = 4;
  bool conv_bias = true, proj_bias = false;
  std::string activation = "silu";
  double norm_eps = 1e-6;  // of dt, B and C
};

// "auto" (or nothing) is a sixteenth of the hidden size, rounded up.
inline std::int64_t read_step_rank(const ConfigReader& r, std::string_view key, std::int64_t hidden_size) {
  const auto* rank = r.find(key);
  const bool automatic = !rank || (rank->is_string() && rank->as_string() == "auto");
  return automatic ? (hidden_size + 15) / 16 : r.size(key);
}

struct AsIs {
  AsIs(const nn::Scope&, std::int64_t, double) {}
  Tensor operator()(Tensor x) const { return x; }
};

template <class Normed>
struct SelectiveMixer : nn::Module<SelectiveMixer<Normed>, SelectiveShape> {
  using Base = nn::Module<SelectiveMixer, SelectiveShape>;
  using Base::Base, Base::cfg, Base::scope;

  nn::Linear in_proj{scope / "in_proj", cfg.hidden, 2 * cfg.inner, cfg.proj_bias};
  CausalConv conv1d{scope / "conv1d", cfg.inner, cfg.kernel, cfg.conv_bias};
  nn::Linear x_proj{scope / "x_proj", cfg.inner, cfg.step_rank + 2 * cfg.state};
  Normed dt_layernorm{scope / "dt_layernorm", cfg.step_rank, cfg.norm_eps};
  Normed b_layernorm{scope / "b_layernorm", cfg.state, cfg.norm_eps};
  Normed c_layernorm{scope / "c_layernorm", cfg.state, cfg.norm_eps};
  nn::Linear dt_proj{scope / "dt_proj", cfg.step_rank, cfg.inner, true};
  SelectiveScan ssm{scope, cfg.inner, cfg.state};
  nn::Linear out_proj{scope / "out_proj", cfg.inner, cfg.hidden, cfg.proj_bias};

  Tensor forward(Tensor u, Decode& at) const {
    const auto [hidden, gate] = split<2>(in_proj(u), {cfg.inner, cfg.inner}, -1);
    const auto x = conv1d(hidden, at, cfg.activation);
    const auto [dt, B, C] = split<3>(x_proj(x), {cfg.step_rank, cfg.state, cfg.state}, -1);
    const auto step = dt_proj(dt_layernorm(dt));
    const auto in = b_layernorm(B), out = c_layernorm(C);
    const auto y = ssm(x, step, in, out, at);
    return out_proj(y * nn::activation("silu", gate));
  }
};

}  // namespace mobius
