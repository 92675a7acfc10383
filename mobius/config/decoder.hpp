// DecoderConfig: what decoder-only language models have in common. A family that has more extends it in its own file.
//
//   DecoderConfig config = read_decoder(reader, {.hidden_size = 4096, .intermediate_size = 14336, .num_key_value_heads = 8});
//
// The fields of DecoderDefaults are the published defaults of the model type: they hold for keys that config.json leaves out.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "mobius/config/rope.hpp"

namespace mobius {

struct DecoderDefaults {
  std::int64_t vocab_size = 32000, hidden_size = 4096;
  std::optional<std::int64_t> intermediate_size = 11008;  // without a value: the family reads it in its own way
  std::int64_t num_hidden_layers = 32, num_attention_heads = 32;
  std::optional<std::int64_t> num_key_value_heads = {};  // absent: as many as query heads
  std::optional<std::int64_t> head_dim = {};             // absent: hidden_size / num_attention_heads
  std::int64_t max_position_embeddings = 2048;
  double rms_norm_eps = 1e-6;
  std::string_view hidden_act = "silu";
  bool tie_word_embeddings = false;
  RopeDefaults rope = {};
  // What the type calls common keys: {{"hidden_size", "n_embd"}, ...}. Its own name comes first, the common one is understood too.
  std::vector<std::pair<std::string_view, std::string_view>> own_names = {};

  // The name under which the config has this key; the type's own when it has none.
  std::string_view key(const ConfigReader& config, std::string_view common) const;
};

struct DecoderConfig {
  std::string model_type;
  ir::DataType dtype = ir::DataType::float32;  // the checkpoint's; the build replaces it by the one it builds in
  std::int64_t vocab_size = 0, hidden_size = 0, intermediate_size = 0, num_hidden_layers = 0;
  std::int64_t num_attention_heads = 0, num_key_value_heads = 0, head_dim = 0, max_position_embeddings = 0;
  double rms_norm_eps = 1e-6;  // ε of the norms, whatever their kind
  std::string hidden_act = "silu";
  bool tie_word_embeddings = false;
  bool qkv_bias = false, o_bias = false, mlp_bias = false;  // filled in by the family: each spells its keys in its own way
  RopeConfig rope;
  std::vector<std::optional<std::int64_t>> sliding_window;  // one per layer: tokens that a query sees, itself included; empty = all layers full

  RopeShape rope_shape() const { return {.head_dim = head_dim, .max_position_embeddings = max_position_embeddings}; }
  std::int64_t q_size() const { return num_attention_heads * head_dim; }
  std::int64_t kv_size() const { return num_key_value_heads * head_dim; }
  std::optional<std::int64_t> window(std::int64_t layer) const {
    return sliding_window.empty() ? std::nullopt : sliding_window[static_cast<std::size_t>(layer)];
  }
};

// For types whose layers differ in their positions, or have none in some.
struct LayeredConfig : DecoderConfig {
  std::vector<std::optional<RopeConfig>> rope_by_layer;
  const std::optional<RopeConfig>& rope_of(std::int64_t layer) const { return rope_by_layer[static_cast<std::size_t>(layer)]; }
};

// Reads and checks the common keys (sizes positive, heads divisible, known activation). Biases and windows stay empty.
DecoderConfig read_decoder(const ConfigReader& config, const DecoderDefaults& defaults);
// The same but for rope, where types read it in their own way.
DecoderConfig read_decoder_without_rope(const ConfigReader& config, const DecoderDefaults& defaults);

// The same window in every layer; absent: none.
void set_window(DecoderConfig& config, std::optional<std::int64_t> window);
// Whether each layer's entry of "layer_types" is "sliding_attention" rather than "full_attention". Without that key: `otherwise`.
// Error invalid_argument for another length than the number of layers, unsupported for another kind of layer.
std::vector<bool> sliding_layers(const DecoderConfig& config, const ConfigReader& reader, const std::vector<bool>& otherwise);
// The usual pattern of kinds: false for every period-th layer, true for those before it.
std::vector<bool> all_but_every(std::int64_t period, std::int64_t layers);
// The window in the sliding layers. Errors as above, and invalid_argument when there is such a layer and no window.
void set_window_by_layer(DecoderConfig& config, const ConfigReader& reader, std::optional<std::int64_t> window, const std::vector<bool>& otherwise);
// All layers turn as `rope` says.
void set_rope(LayeredConfig& config, const RopeConfig& rope);
// Layers where `sliding` is set turn as `in_sliding` says, the others as `in_full`.
void set_rope_by_kind(LayeredConfig& config, const std::vector<bool>& sliding, const RopeConfig& in_full, const RopeConfig& in_sliding);
// Qwen's rule: with "use_sliding_window" the window holds in layers from "max_window_layers" on, unless "layer_types" says otherwise.
void set_window_above(DecoderConfig& config, const ConfigReader& reader);

}  // namespace mobius
