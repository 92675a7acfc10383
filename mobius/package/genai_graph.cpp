// Reading a decoder's graph, and comparing a config with it.
#include "mobius/package/genai_graph.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string>

#include "mobius/base/error.hpp"

namespace mobius::package {
namespace {

using ir::Value;

constexpr std::string_view key_input = "past_key_values.{}.key", value_input = "past_key_values.{}.value";

// Operators that are attention, and the attribute with the number of query heads.
struct AttentionOp {
  ir::OpName op;
  std::string_view heads;
};
constexpr AttentionOp attention_ops[] = {{{"", "Attention"}, "q_num_heads"},
                                         {{"com.microsoft", "GroupQueryAttention"}, "num_heads"},
                                         {{"com.microsoft", "MultiHeadAttention"}, "num_heads"},
                                         {{"com.microsoft", "Attention"}, "num_heads"}};

std::string with_layer(std::string_view name, std::int64_t layer) {
  std::string text(name);
  if (const auto at = text.find("%d"); at != text.npos) text.replace(at, 2, std::to_string(layer));
  return text;
}

const Value* find(const std::vector<Value*>& values, std::string_view name) {
  const auto it = std::ranges::find(values, name, &Value::name);
  return it == values.end() ? nullptr : *it;
}

std::optional<std::int64_t> static_dim(const Value* value, std::size_t axis) {
  if (!value || !value->shape() || axis >= value->shape()->size()) return std::nullopt;
  return (*value->shape())[axis].as_static();
}

std::optional<std::int64_t> heads_of(const ir::Node& node) {
  const auto row = std::ranges::find(attention_ops, node.op, &AttentionOp::op);
  if (row == std::end(attention_ops)) return std::nullopt;
  if (const auto heads = node.int_attribute(row->heads, 0); heads > 0) return heads;
  return node.input(0) && node.input(0)->rank() == 4 ? static_dim(node.input(0), 1) : std::nullopt;
}

// Each name that a config lists, with its layers written out.
std::set<std::string> listed(const Json& ports, std::int64_t layers) {
  std::set<std::string> names;
  for (const auto& [key, name] : ports.as_object()) {
    const bool per_layer = name.as_string().find("%d") != std::string::npos;
    for (std::int64_t i = 0; i < (per_layer ? layers : 1); ++i) names.insert(with_layer(name.as_string(), i));
  }
  return names;
}

void check_ports(const Json& part, const ir::Graph& graph) {
  const auto layers = part.at("num_hidden_layers").as_int();
  const auto inputs = listed(part.at("inputs"), layers);
  for (const auto& name : inputs) {
    if (!find(graph.inputs(), name)) fail(ErrorKind::unsupported, "genai_config.json lists the input '{}', which the graph doesn't have", name);
  }
  for (const auto* input : graph.inputs()) {
    if (!inputs.contains(input->name)) fail(ErrorKind::unsupported, "ONNX Runtime GenAI has nothing to feed the graph's input '{}' with", input->name);
  }
  for (const auto& name : listed(part.at("outputs"), layers)) {
    if (!find(graph.outputs(), name)) fail(ErrorKind::unsupported, "genai_config.json lists the output '{}', which the graph doesn't have", name);
  }
}

void check_cache(const Json& part, const ir::Graph& graph) {
  const auto heads = part.at("num_key_value_heads").as_int(), size = part.at("head_size").as_int();
  for (const char* key : {"past_key_names", "past_value_names"}) {
    for (std::int64_t i = 0; i < part.at("num_hidden_layers").as_int(); ++i) {
      const auto* cache = find(graph.inputs(), with_layer(part.at("inputs").at(key).as_string(), i));
      if (static_dim(cache, 1) == heads && static_dim(cache, 3) == size) continue;
      fail(ErrorKind::unsupported, "{} is {}, expected {} heads of {}: ONNX Runtime GenAI has one shape for the keys and values of all layers", cache->name,
           cache->shape() ? ir::to_string(*cache->shape()) : "of unknown shape", heads, size);
    }
  }
}

void check_heads(const Json& part, const ir::Graph& graph) {
  const auto expected = part.at("num_attention_heads").as_int();
  for (const auto* node : graph.nodes()) {
    if (const auto heads = heads_of(*node); heads && *heads != expected)
      fail(ErrorKind::unsupported, "{} '{}' has {} heads, genai_config.json says {}", node->op.type, node->name, *heads, expected);
  }
}

void check_tokens(const Json& model, std::int64_t vocab_size) {
  const auto check = [&](std::string_view key, const Json& id) {
    if (!id.is_int() || id.as_int() < 0 || id.as_int() >= vocab_size)
      fail(ErrorKind::unsupported, "genai_config.json: {} is {}, expected a token of the {} that logits have", key, id.dump(), vocab_size);
  };
  check("pad_token_id", model.at("pad_token_id"));
  if (const auto* bos = model.find("bos_token_id")) check("bos_token_id", *bos);
  const auto& eos = model.at("eos_token_id");
  if (!eos.is_array()) return check("eos_token_id", eos);
  if (eos.as_array().empty()) check("eos_token_id", Json());
  for (const auto& id : eos.as_array()) check("eos_token_id", id);
}

}  // namespace

Json ports_json(std::span<const GenaiPort> ports, const std::vector<Value*>& values) {
  Json json = Json::Object{};
  for (const auto& [key, name] : ports) {
    if (find(values, with_layer(name, 0))) json.set(key, name);
  }
  return json;
}

GenaiCache cache_of(const ir::Graph& graph) {
  GenaiCache cache;
  const auto* first = find(graph.inputs(), fmt::format(key_input, 0));
  cache.heads = static_dim(first, 1).value_or(0);
  cache.head_size = static_dim(first, 3).value_or(0);
  while (find(graph.inputs(), fmt::format(key_input, cache.layers))) ++cache.layers;
  return cache;
}

std::optional<std::int64_t> vocab_size_of(const ir::Graph& graph) { return static_dim(find(graph.outputs(), "logits"), 2); }

std::optional<std::int64_t> attention_heads_of(const ir::Graph& graph) {
  for (const auto* node : graph.nodes()) {
    if (const auto heads = heads_of(*node)) return heads;
  }
  return std::nullopt;
}

std::optional<std::int64_t> embedding_width_of(const ir::Graph& graph) {
  if (const auto* embedded = find(graph.inputs(), "inputs_embeds")) return static_dim(embedded, 2);
  const auto* ids = find(graph.inputs(), "input_ids");
  for (const auto& use : ids ? ids->uses() : std::vector<ir::Use>{}) {
    if (use.node && use.node->is("Gather") && use.index == 1) return static_dim(use.node->input(0), 1);
  }
  return std::nullopt;
}

bool can_share_cache_buffer(const ir::Graph& graph) {
  constexpr std::size_t past_key = 3, past_value = 4, present_key = 1, present_value = 2;  // inputs and outputs of the operator
  const auto layers = cache_of(graph).layers;
  for (std::int64_t i = 0; i < layers; ++i) {
    const auto* key = find(graph.outputs(), fmt::format("present.{}.key", i));
    const auto* node = key ? key->producer() : nullptr;
    if (!node || !node->is("GroupQueryAttention", "com.microsoft")) return false;
    if (node->output(present_key) != key || node->output(present_value) != find(graph.outputs(), fmt::format("present.{}.value", i))) return false;
    if (node->input(past_key) != find(graph.inputs(), fmt::format(key_input, i))) return false;
    if (node->input(past_value) != find(graph.inputs(), fmt::format(value_input, i))) return false;
    // Others would see a buffer of the longest length, not a cache of the tokens so far.
    for (const auto in : {past_key, past_value})
      if (node->input(in)->uses().size() != 1) return false;
    for (const auto out : {present_key, present_value})
      if (!node->output(out)->uses().empty()) return false;
  }
  return layers > 0;
}

void check_decoder(const Json& config, const ir::Graph& graph) {
  const auto& model = config.at("model");
  const auto& part = model.at("decoder");
  check_ports(part, graph);
  check_cache(part, graph);
  check_heads(part, graph);
  const auto vocab_size = vocab_size_of(graph);
  if (vocab_size && *vocab_size != model.at("vocab_size").as_int())
    fail(ErrorKind::unsupported, "genai_config.json: vocab_size is {}, but logits have {}", model.at("vocab_size").as_int(), *vocab_size);
  check_tokens(model, model.at("vocab_size").as_int());
  if (config.at("search").at("past_present_share_buffer").as_bool() && !can_share_cache_buffer(graph))
    fail(ErrorKind::unsupported, "genai_config.json: past_present_share_buffer needs GroupQueryAttention in each layer");
}

}  // namespace mobius::package
