// Gated delta networks (arXiv 2412.06464): linear attention whose state forgets by a gate and corrects what it holds for a key.
//
//   S ← e^g·S + k ⊗ β·(v − e^g·Sᵀk);   o = Sᵀq / √key_dim,   g = −exp(A_log)·softplus(a + dt_bias),  β = σ(b),  q and k of unit length
//
//   GatedDeltaNet net{scope, shape};
//   Tensor y = net(qkv, z, b, a, at);                            // what a family projects from its input, in this order
//
// Shapes: qkv [B, S, 2·keys + values], z [B, S, values], b and a [B, S, value_heads]; keys = key_heads·key_dim, values = value_heads·value_dim.
#pragma once
#include <string>

#include "mobius/components/state_space.hpp"
#include "mobius/config/reader.hpp"

namespace mobius {

struct GatedDeltaShape {
  std::int64_t hidden = 0, key_heads = 0, value_heads = 0, key_dim = 0, value_dim = 0, kernel = 4;
  std::string activation = "silu";
  double norm_eps = 1e-6;

  std::int64_t keys() const { return key_heads * key_dim; }
  std::int64_t values() const { return value_heads * value_dim; }
  std::int64_t convolved() const { return 2 * keys() + values(); }
};

// The keys linear_num_key_heads, linear_num_value_heads, linear_key_head_dim, linear_value_head_dim, linear_conv_kernel_dim with Qwen's defaults.
// Error invalid_argument when the value heads are not a multiple of the key heads.
GatedDeltaShape read_gated_delta(const ConfigReader& reader, std::int64_t hidden_size, double norm_eps);

class GatedDeltaNet {
 public:
  GatedDeltaNet(const nn::Scope& scope, const GatedDeltaShape& shape);
  Tensor operator()(Tensor qkv, Tensor z, Tensor b, Tensor a, Decode& at) const;

 private:
  Tensor unit_heads(Tensor x, double length, std::string_view name) const;

  nn::Scope scope_;
  GatedDeltaShape shape_;
  CausalConv conv1d_;
  nn::Parameter A_, dt_bias_;
  nn::RMSNorm norm_;
  nn::Linear out_proj_;
};

}  // namespace mobius
