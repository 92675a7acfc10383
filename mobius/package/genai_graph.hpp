// What genai_config.json has to say about a graph, taken from the graph itself; and whether a config is right about it.
//
//   config.set("inputs", ports_json(ports, graph.inputs()));   // {"input_ids": "input_ids", "past_key_names": "past_key_values.%d.key", ...}
//   check_decoder(config, graph);
//
// The runtime finds out late or never that its config is wrong (an input that the graph lacks, a wrong number of heads), so
// everything is compared here, when the config is written.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "mobius/base/json.hpp"
#include "mobius/ir/graph.hpp"

namespace mobius::package {

// A key of "inputs" or "outputs", and the value of the graph that it stands for. "%d" in a name is the number of a layer.
struct GenaiPort {
  std::string_view key, name;
};

// Key to name, of those that the graph has.
Json ports_json(std::span<const GenaiPort> ports, const std::vector<ir::Value*>& values);

std::optional<std::int64_t> vocab_size_of(const ir::Graph& graph);       // the width of logits
std::optional<std::int64_t> attention_heads_of(const ir::Graph& graph);  // query heads of the first attention that tells them
std::optional<std::int64_t> embedding_width_of(const ir::Graph& graph);  // of what input_ids are looked up in

// `config` is a whole genai_config.json. Errors unsupported: the runtime can't run this graph, or the config is wrong about it.
void check_decoder(const Json& config, const ir::Graph& graph);

}  // namespace mobius::package
