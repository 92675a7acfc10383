// What the configs of models with state-space layers have in common, however they spell it.
//
//   Mamba2Shape mixer = ...;
//   read_step_limits(mixer, reader, "time_step_limit");          // [low, high]; absent or null: no limits
//   check_inner_size(mixer, reader, expand * hidden_size);
#pragma once
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "mobius/components/state_space.hpp"
#include "mobius/config/reader.hpp"

namespace mobius {

// Error invalid_argument when the key is not a pair of numbers, low ≤ high.
void read_step_limits(Mamba2Shape& mixer, const ConfigReader& reader, std::string_view key);

// Error invalid_argument when heads · head_dim is not `inner`, or the groups don't divide the heads.
void check_inner_size(const Mamba2Shape& mixer, const ConfigReader& reader, std::int64_t inner);

// The mixer of a hybrid model, whose keys are mamba_n_heads, mamba_d_head ("auto": inner / heads), mamba_n_groups, mamba_d_state, mamba_d_conv,
// mamba_conv_bias, mamba_proj_bias and time_step_limit, with `inner` channels.
Mamba2Shape read_hybrid_mixer(const ConfigReader& reader, std::int64_t hidden_size, std::int64_t inner, double norm_eps);

// The kinds of a model's layers, as its config lists them under `key`; "mamba" and "attention", older names, are linear_attention and full_attention. Absent:
// `otherwise`. Error invalid_argument for another length than `otherwise` has, unsupported for a kind that is not `known`.
std::vector<std::string> read_layer_kinds(const ConfigReader& reader, std::string_view key, std::initializer_list<std::string_view> known,
                                          std::vector<std::string> otherwise);

}  // namespace mobius
