// State-space layers: a short causal convolution and a recurrence whose decay and step depend on the token.
//
//   CausalConv conv1d{scope / "conv1d", 128, 4, true};
//   SelectiveScan ssm{scope, 128, 16};
//   Tensor y = ssm(conv1d(x, at, "silu"), dt, B, C, at);        // all [B, S, ...]
//
// Shapes: x is [B, S, inner]. Padding takes no step: it has neither decay nor update.
#pragma once
#include <limits>
#include <optional>
#include <string>

#include "mobius/components/decode.hpp"
#include "mobius/nn/layers.hpp"

namespace mobius {

// A = −exp(A_log) as every recurrence here stores it, computed in double when it is loaded.
nn::Parameter negative_rate(const nn::Scope& scope, ir::Dims dims);

// nn.Conv1d with one filter per channel, over its own past: weight [channels, 1, kernel], bias [channels].
class CausalConv {
 public:
  CausalConv(const nn::Scope& scope, std::int64_t channels, std::int64_t kernel, bool bias);
  Tensor operator()(Tensor x, Decode& at, std::string_view activation = {}) const;

 private:
  nn::Scope scope_;
  nn::Parameter weight_;
  std::optional<nn::Parameter> bias_;
};

// Mamba's recurrence (arXiv 2312.00752): with step Δ = softplus(dt), for each channel c and state n
//   h[c, n] ← exp(Δ[c]·A[c, n])·h[c, n] + Δ[c]·B[n]·x[c];   y[c] = Σ_n C[n]·h[c, n] + D[c]·x[c],   A = −exp(A_log)
class SelectiveScan {
 public:
  SelectiveScan(const nn::Scope& scope, std::int64_t inner, std::int64_t state);
  // x, dt [B, S, inner], dt with its bias; in, out [B, S, state] are the paper's B and C.
  Tensor operator()(Tensor x, Tensor dt, Tensor in, Tensor out, Decode& at) const;

 private:
  std::int64_t inner_, state_;
  nn::Parameter A_, D_;
};

// The sizes of a Mamba-2 mixer.
struct Mamba2Shape {
  std::int64_t hidden = 0, heads = 0, head_dim = 0, groups = 1, state = 0, kernel = 4;
  bool conv_bias = true, proj_bias = false;
  std::string activation = "silu";
  double norm_eps = 1e-5;
  double min_step = 0, max_step = std::numeric_limits<double>::infinity();  // Δ is clipped to them

  std::int64_t inner() const { return heads * head_dim; }
  std::int64_t in_out() const { return groups * state; }             // of B, and of C
  std::int64_t convolved() const { return inner() + 2 * in_out(); }  // channels of x, B and C together
  std::int64_t projected() const { return inner() + convolved() + heads; }
};

// Mamba-2's recurrence (arXiv 2405.21060): one decay per head, and heads in groups that share B and C. With Δ = clip(softplus(dt + dt_bias)) and state h
// [state, head_dim]
//   h ← exp(Δ·A)·h + B ⊗ Δ·x;   y = hᵀC + D·x,   A = −exp(A_log)
class StateSpaceDual {
 public:
  StateSpaceDual(const nn::Scope& scope, const Mamba2Shape& shape);
  // x [B, S, inner], dt [B, S, heads], in and out [B, S, groups·state].
  Tensor operator()(Tensor x, Tensor dt, Tensor in, Tensor out, Decode& at) const;

 private:
  Mamba2Shape shape_;
  nn::Parameter dt_bias_, A_, D_;
};

// x / √(mean(x²) + ε) · weight, the mean taken over each of `groups` equal parts of the last axis.
class GroupedRMSNorm {
 public:
  GroupedRMSNorm(const nn::Scope& scope, std::int64_t dim, std::int64_t groups, double eps);
  Tensor operator()(Tensor x) const;

 private:
  nn::Scope scope_;
  std::int64_t dim_, groups_;
  nn::Parameter weight_;
  double eps_;
};

// [z, x, B, C, dt] = in_proj(u);  y = SSM(conv(x, B, C), dt);  out_proj(norm(y · silu(z)))
struct Mamba2Mixer : nn::Module<Mamba2Mixer, Mamba2Shape> {
  using Module::Module;

  nn::Linear in_proj{scope / "in_proj", cfg.hidden, cfg.projected(), cfg.proj_bias};
  CausalConv conv1d{scope / "conv1d", cfg.convolved(), cfg.kernel, cfg.conv_bias};
  StateSpaceDual ssm{scope, cfg};
  GroupedRMSNorm norm{scope / "norm", cfg.inner(), cfg.groups, cfg.norm_eps};
  nn::Linear out_proj{scope / "out_proj", cfg.inner(), cfg.hidden, cfg.proj_bias};

  Tensor forward(Tensor u, Decode& at) const {
    const auto [gate, xBC, dt] = split<3>(in_proj(u), {cfg.inner(), cfg.convolved(), cfg.heads}, -1);
    const auto [x, B, C] = split<3>(conv1d(xBC, at, cfg.activation), {cfg.inner(), cfg.in_out(), cfg.in_out()}, -1);
    const auto y = ssm(x, dt, B, C, at);
    return out_proj(norm(y * nn::activation("silu", gate)));
  }
};

}  // namespace mobius
