// Rotary position embedding as a config says it, and its frequencies.
//
//   RopeConfig rope = read_rope(reader, {.head_dim = 64, .max_position_embeddings = 4096}, {.theta = 500000});
//   std::vector<float> f = inverse_frequencies(rope);                 // [rotary_dim / 2]
//
// Both spellings are read: `rope_theta` + `rope_scaling` (with `type` or `rope_type`), and `rope_parameters`, flat or one per layer type.
// The kinds and their formulas are those of transformers' modeling_rope_utils: default, linear, dynamic (NTK), yarn (arXiv
// 2309.00071), longrope (arXiv 2402.13753), llama3, proportional (Gemma 4: a part of each head turns, as fast as in a whole one). An unknown kind is refused by
// name.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "mobius/config/reader.hpp"

namespace mobius {

enum class RopeType { standard, linear, dynamic, yarn, longrope, llama3, proportional };

struct RopeConfig {
  RopeType type = RopeType::standard;
  double theta = 10000;
  std::int64_t rotary_dim = 0;               // even; at most the head size
  std::int64_t max_position_embeddings = 0;  // rows of a table
  bool interleaved = false;                  // pairs are (0, 1), (2, 3), ... instead of (0, d/2), (1, d/2 + 1), ...
  bool clockwise = false;                    // pairs turn by the negative of the angle
  double factor = 1;
  double attention_factor = 1;                              // cos and sin are multiplied by it
  std::int64_t original_max_position_embeddings = 0;        // yarn, longrope, llama3
  double beta_fast = 32, beta_slow = 1;                     // yarn
  bool truncate = true;                                     // yarn
  double low_freq_factor = 1, high_freq_factor = 4;         // llama3
  std::vector<double> short_factor = {}, long_factor = {};  // longrope
  std::int64_t turning_pairs = 0;                           // proportional: the first ones of rotary_dim / 2; the others stand still

  bool operator==(const RopeConfig&) const = default;
};

// What a model type says of rope where its config.json is silent, and how it differs from others.
struct RopeDefaults {
  double theta = 10000;
  // Set: the type rotates a part of each head, this much unless its config says otherwise. Unset: whole heads, whatever the config says.
  std::optional<double> partial_rotary_factor = {};
  bool interleaved = false;
  // Set: the type has this key of its own at the top level; it then wins over the one among the rope keys.
  std::optional<std::int64_t> original_max_position_embeddings = {};
  // Set: with a key "alpha", dynamic isn't dynamic: θ' = θ · alpha^(d / (d − 2)), whatever the length.
  bool fixed_alpha = false;
  std::vector<std::pair<std::string, std::string>> type_aliases = {};  // older spelling -> rope type
};

struct RopeShape {
  std::int64_t head_dim = 0;
  std::int64_t max_position_embeddings = 0;
};

// `layer_type`: for configs whose rope_parameters are nested by layer type ("full_attention", ...); ignored for flat ones.
RopeConfig read_rope(const ConfigReader& config, const RopeShape& shape, const RopeDefaults& defaults, std::string_view layer_type = {});

// For types whose kinds of layer turn differently ("full_attention", "sliding_attention"): the parameters are those of `kind` in
// rope_parameters. In older files rope_scaling holds in full attention alone, and `older_theta` names the top-level key with this kind's θ.
RopeConfig read_rope_of_kind(const ConfigReader& config, std::string_view kind, const RopeShape& shape, RopeDefaults defaults,
                             std::string_view older_theta = {});

// The object that holds the rope keys: rope_parameters or rope_scaling; an empty object when neither is there.
Json rope_parameters(const ConfigReader& config);

// In float32 with the operation order of the original, since positions up to 10^5 amplify each rounding. For longrope: with
// `long_range` the long factors. For dynamic: those of a sequence that is not longer than max_position_embeddings.
std::vector<float> inverse_frequencies(const RopeConfig& rope, bool long_range = false);

}  // namespace mobius
