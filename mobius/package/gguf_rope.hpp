// Rope scaling of a GGUF model as Hugging Face's rope_scaling.
#pragma once
#include <optional>
#include <vector>

#include "mobius/base/json.hpp"
#include "mobius/formats/gguf.hpp"

namespace mobius::package {

// rope_scaling of the whole model; null when there is none. From rope.scaling.* keys (linear, yarn), from the factors tensor
// rope_freqs.weight (llama3: its parameters are recovered and must reproduce the factors), from rope_factors_{long,short}.weight
// (longrope). Error unsupported for any other scaling.
Json rope_scaling_from_gguf(const formats::GgufFile& gguf, std::int64_t rotary_dim, double rope_theta);

// The factors by which llama3 scaling divides the inverse frequencies: 1 for short wavelengths, `factor` for long ones, smooth between.
std::vector<double> llama3_rope_factors(std::int64_t rotary_dim, double rope_theta, double factor, double low_freq_factor, double high_freq_factor,
                                        double original_max_position_embeddings);

}  // namespace mobius::package
