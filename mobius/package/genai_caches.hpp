// What ONNX Runtime GenAI carries from one call of a decoder to the next: caches of keys and values, which grow, and states, which
// keep their size.
//
//   part                                  // "decoder" of genai_config.json: {"inputs": {"past_key_names": "past_key_values.%d.key", ...}, ...}
//   carried(part, graph)                  // {{"past_key_names", "past_key_values.1.key", "present.1.key"}, ...}
//   check_caches(part, graph);
//
// The runtime looks for layers by the names of the graph's inputs, so each kind may be in some layers only. It knows three kinds: keys with
// values; a convolution's state with a recurrent one; a convolution's state alone, where "layer_types" says what each layer has.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mobius/base/json.hpp"
#include "mobius/ir/graph.hpp"

namespace mobius::package {

// A name with "%d" for the number of a layer, and a layer's own: ("past_key_values.%d.key", 1) is "past_key_values.1.key".
std::string with_layer(std::string_view name, std::int64_t layer);
// The input or output of this name, or nullptr.
const ir::Value* value_named(const std::vector<ir::Value*>& values, std::string_view name);
// The layers that have a value of such a name, ascending.
std::vector<std::int64_t> layers_of(std::string_view name, const std::vector<ir::Value*>& values);

// One tensor that is carried: the key of "inputs" that names it, and its names in the graph.
struct Carried {
  std::string_view key;
  std::int64_t layer = 0;
  std::string input, output;
};

// All that the runtime carries with this config, kind by kind, as it would find it. Only "inputs" and "outputs" of `part` are read.
// Error unsupported: what the runtime carries only with something else beside it, which the config doesn't name.
std::vector<Carried> carried(const Json& part, const ir::Graph& graph);

// One more than the highest layer that has any of it.
std::int64_t layer_count(const std::vector<Carried>& carried);
// "layer_types": "full_attention" or "conv" for each layer, where there are states of convolutions alone; empty otherwise. Error unsupported: a
// layer that has both or neither.
Json layer_types(const std::vector<Carried>& carried);
// Whether "inputs" name recurrent states. Then the runtime has no beams (it leaves each state in its row, whichever beam goes on there), and no
// shared buffer (the state would be one too: written while others still read it).
bool has_recurrent_states(const Json& inputs);

// Of keys or values; nothing where the graph doesn't tell.
struct CacheShape {
  std::optional<std::int64_t> heads, head_size;
  bool operator==(const CacheShape&) const = default;
};
CacheShape cache_shape(const ir::Value* cache);
CacheShape first_cache_of(const ir::Graph& graph);  // of the first layer that has keys

// Whether each layer's cache goes in and out of one GroupQueryAttention, which can write into the buffer that it reads, and nothing else reads it.
bool can_share_cache_buffer(const ir::Graph& graph);

// Errors unsupported: the runtime has one shape for the keys and values of a layer, and one for all states of a kind; the config is wrong about them.
void check_caches(const Json& part, const ir::Graph& graph);

}  // namespace mobius::package
