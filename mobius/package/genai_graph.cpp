// Reading a decoder's graph, and comparing a config with it.
#include "mobius/package/genai_graph.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string>

#include "mobius/base/error.hpp"
#include "mobius/package/genai_caches.hpp"
#include "mobius/package/genai_pipeline.hpp"

namespace mobius::package {
namespace {

using ir::Value;

// Operators that are attention, and the attribute with the number of query heads.
struct AttentionOp {
  ir::OpName op;
  std::string_view heads;
};
constexpr AttentionOp attention_ops[] = {{{"", "Attention"}, "q_num_heads"},
                                         {{"com.microsoft", "GroupQueryAttention"}, "num_heads"},
                                         {{"com.microsoft", "MultiHeadAttention"}, "num_heads"},
                                         {{"com.microsoft", "Attention"}, "num_heads"}};

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

bool is_per_layer(const std::string& name) { return name.find("%d") != std::string::npos; }

// Each name that a config lists, with its layers written out.
std::set<std::string> listed(const Json& ports, const std::vector<Carried>& carried, std::string Carried::*name_in_layer) {
  std::set<std::string> names;
  for (const auto& [key, name] : ports.as_object())
    if (!name.as_string().empty() && !is_per_layer(name.as_string())) names.insert(name.as_string());
  for (const auto& one : carried) names.insert(one.*name_in_layer);
  return names;
}

void check_ports(const Json& part, const ir::Graph& graph) {
  const auto all = carried(part, graph);
  const auto inputs = listed(part.at("inputs"), all, &Carried::input);
  for (const auto& name : inputs) {
    if (!value_named(graph.inputs(), name)) fail(ErrorKind::unsupported, "genai_config.json lists the input '{}', which the graph doesn't have", name);
  }
  for (const auto* input : graph.inputs()) {
    if (!inputs.contains(input->name)) fail(ErrorKind::unsupported, "ONNX Runtime GenAI has nothing to feed the graph's input '{}' with", input->name);
  }
  for (const auto& name : listed(part.at("outputs"), all, &Carried::output)) {
    if (!value_named(graph.outputs(), name)) fail(ErrorKind::unsupported, "genai_config.json lists the output '{}', which the graph doesn't have", name);
  }
}

void check_heads(const Json& part, const ir::Graph& graph) {
  const auto* stated = part.find("num_attention_heads");
  if (!stated) return;
  const auto expected = stated->as_int();
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

void check_search(const Json& search, const Json& part, const ir::Graph& graph) {
  if (search.at("past_present_share_buffer").as_bool() && !can_share_cache_buffer(graph))
    fail(ErrorKind::unsupported, "genai_config.json: past_present_share_buffer needs GroupQueryAttention in each layer");
  if (!has_recurrent_states(part.at("inputs"))) return;
  if (search.at("past_present_share_buffer").as_bool())
    fail(ErrorKind::unsupported, "genai_config.json: past_present_share_buffer would write recurrent states while they are read");
  if (search.at("num_beams").as_int() > 1)
    fail(ErrorKind::unsupported, "genai_config.json: num_beams is {}, but ONNX Runtime GenAI has no beams with recurrent states",
         search.at("num_beams").as_int());
}

}  // namespace

Json ports_json(std::span<const GenaiPort> ports, const std::vector<Value*>& values) {
  Json json = Json::Object{};
  for (const auto& [key, name] : ports) {
    if (value_named(values, name) || !layers_of(name, values).empty()) json.set(key, name);
  }
  return json;
}

std::optional<std::int64_t> vocab_size_of(const ir::Graph& graph) { return static_dim(value_named(graph.outputs(), "logits"), 2); }

std::optional<std::int64_t> attention_heads_of(const ir::Graph& graph) {
  for (const auto* node : graph.nodes()) {
    if (const auto heads = heads_of(*node)) return heads;
  }
  return std::nullopt;
}

std::optional<std::int64_t> embedding_width_of(const ir::Graph& graph) {
  if (const auto* embedded = value_named(graph.inputs(), "inputs_embeds")) return static_dim(embedded, 2);
  const auto* ids = value_named(graph.inputs(), "input_ids");
  for (const auto& use : ids ? ids->uses() : std::vector<ir::Use>{}) {
    if (use.node && use.node->is("Gather") && use.index == 1) return static_dim(use.node->input(0), 1);
  }
  return std::nullopt;
}

void check_decoder(const Json& config, const ir::Graph& graph) {
  const auto& model = config.at("model");
  const auto& part = model.at("decoder");
  check_ports(part, graph);
  check_caches(part, graph);
  check_pipeline(part, graph);
  check_heads(part, graph);
  const auto vocab_size = vocab_size_of(graph);
  if (vocab_size && *vocab_size != model.at("vocab_size").as_int())
    fail(ErrorKind::unsupported, "genai_config.json: vocab_size is {}, but logits have {}", model.at("vocab_size").as_int(), *vocab_size);
  check_tokens(model, model.at("vocab_size").as_int());
  check_search(config.at("search"), part, graph);
}

}  // namespace mobius::package
