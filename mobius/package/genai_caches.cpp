// The kinds as the runtime finds them, and what it takes for granted of each.
#include "mobius/package/genai_caches.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <set>

#include "mobius/base/error.hpp"
#include "mobius/package/genai_pipeline.hpp"

namespace mobius::package {
namespace {

using ir::Value;

constexpr std::string_view key_input = "past_key_values.%d.key", value_input = "past_key_values.%d.value";

// ── the kinds ──

struct Ports {
  std::string_view input, output;  // keys of "inputs" and "outputs"
};

struct Kind {
  std::string_view found_by;  // the input whose name tells which layers have it
  std::array<Ports, 2> ports;
};

// Of several that list the same input the first one takes it.
constexpr Kind kinds[] = {{"past_key_names", {{{"past_key_names", "present_key_names"}, {"past_value_names", "present_value_names"}}}},
                          {"past_recurrent_names", {{{"past_conv_names", "present_conv_names"}, {"past_recurrent_names", "present_recurrent_names"}}}},
                          {"past_conv_names", {{{"past_conv_names", "present_conv_names"}}}}};

// States are allocated by the shape of the first layer's: as many axes as this, none of them free but the batch. One axis more would be
// a window of states.
struct StateAxes {
  std::string_view key;
  std::size_t least, most;
  std::string_view words;
};
constexpr StateAxes state_axes[] = {{"past_conv_names", 3, 3, "3"}, {"past_recurrent_names", 2, 4, "2 to 4"}, {piped_key, 2, 8, "2 to 8"}};

std::string shape_of(const Value& value) { return value.shape() ? ir::to_string(*value.shape()) : "of unknown shape"; }

std::string name_in(const Json& ports, std::string_view key, const std::string& beside) {
  if (const auto* name = ports.find(key)) return name->as_string();
  const bool may_be_piped = key == "past_conv_names" && ports.find("input_ids");  // needs_pipeline has said no: this is another provider than the CPU's
  fail(ErrorKind::unsupported, "ONNX Runtime GenAI carries {} only with {} beside it, and the graph has nothing of the kind{}", beside, key,
       may_be_piped ? "; built for the execution provider cpu, a pipeline carries it" : "");
}

// ── what is taken for granted ──

// The runtime takes the shape of a layer's keys for its values too. Other layers may have another one, but not beside convolutions.
void check_cache(const Json& part, const ir::Graph& graph, const Carried& one, std::int64_t first_layer) {
  const auto* cache = value_named(graph.inputs(), one.input);
  auto expected = cache_shape(value_named(graph.inputs(), with_layer(key_input, one.layer)));
  if (one.layer == first_layer || part.find("layer_types")) expected = {part.at("num_key_value_heads").as_int(), part.at("head_size").as_int()};
  if (const auto found = cache_shape(cache); found.heads && found.head_size && found == expected) return;
  fail(ErrorKind::unsupported, "{} is {}, expected {} heads of {}: ONNX Runtime GenAI has one shape for the keys and values of a layer", cache->name,
       shape_of(*cache), expected.heads.value_or(0), expected.head_size.value_or(0));
}

void check_state(const StateAxes& axes, const Value& state, const Value& first) {
  const auto shape = state.shape();
  const auto is_free = [](const auto& size) { return !size.as_static(); };
  if (!shape || shape->size() < axes.least || shape->size() > axes.most || std::any_of(shape->begin() + 1, shape->end(), is_free))
    fail(ErrorKind::unsupported, "{} is {}: ONNX Runtime GenAI carries a state of this kind only with {} axes, of fixed sizes but for the batch", state.name,
         shape_of(state), axes.words);
  if (axes.key == piped_key) return;  // each has a shape of its own
  if (!std::equal(shape->begin() + 1, shape->end(), first.shape()->begin() + 1, first.shape()->end()) || state.dtype() != first.dtype())
    fail(ErrorKind::unsupported, "{} is {}, {} is {}: ONNX Runtime GenAI has one type and shape for the states of all layers", state.name,
         ir::to_string(state.type), first.name, ir::to_string(first.type));
}

void check_shapes(const Json& part, const ir::Graph& graph, const std::vector<Carried>& all) {
  std::map<std::string_view, const Value*> first;  // of each kind of state
  for (const auto& one : all) {
    const auto* value = value_named(graph.inputs(), one.input);
    if (!value) continue;  // check_decoder compares the names
    const auto axes = std::ranges::find(state_axes, one.key, &StateAxes::key);
    if (axes == std::end(state_axes)) check_cache(part, graph, one, layers_of(key_input, graph.inputs()).front());
    else check_state(*axes, *value, *first.emplace(one.key, value).first->second);
  }
}

}  // namespace

std::string with_layer(std::string_view name, std::int64_t layer) {
  std::string text(name);
  if (const auto at = text.find("%d"); at != text.npos) text.replace(at, 2, std::to_string(layer));
  return text;
}

const Value* value_named(const std::vector<Value*>& values, std::string_view name) {
  const auto it = std::ranges::find(values, name, &Value::name);
  return it == values.end() ? nullptr : *it;
}

std::vector<std::int64_t> layers_of(std::string_view name, const std::vector<Value*>& values) {
  const auto at = name.find("%d");
  if (at == name.npos) return {};
  const auto head = name.substr(0, at), tail = name.substr(at + 2);
  std::set<std::int64_t> layers;
  for (const auto* value : values) {
    std::string_view text = value->name;
    if (!text.starts_with(head) || !text.ends_with(tail) || text.size() <= head.size() + tail.size()) continue;
    text = text.substr(head.size(), text.size() - head.size() - tail.size());
    std::int64_t layer = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), layer);
    if (error == std::errc() && end == text.data() + text.size()) layers.insert(layer);
  }
  return {layers.begin(), layers.end()};
}

std::vector<Carried> carried(const Json& part, const ir::Graph& graph) {
  const auto &inputs = part.at("inputs"), &outputs = part.at("outputs");
  std::vector<Carried> all;
  std::set<std::string_view> taken;
  for (const auto& kind : kinds) {
    const auto* pattern = inputs.find(kind.found_by);
    if (!pattern || taken.contains(kind.found_by)) continue;
    for (const auto layer : layers_of(pattern->as_string(), graph.inputs())) {
      const auto found = with_layer(pattern->as_string(), layer);
      for (const auto& [input, output] : kind.ports) {
        if (input.empty()) continue;
        all.push_back({input, layer, with_layer(name_in(inputs, input, found), layer), with_layer(name_in(outputs, output, found), layer)});
        taken.insert(input);
      }
    }
  }
  for (auto& one : piped(part)) all.push_back(std::move(one));
  return all;
}

std::int64_t layer_count(const std::vector<Carried>& carried) {
  const auto last = std::ranges::max_element(carried, {}, &Carried::layer);
  return last == carried.end() ? 0 : last->layer + 1;
}

Json layer_types(const std::vector<Carried>& carried) {
  std::set<std::int64_t> attention, convolution;
  for (const auto& one : carried) {
    if (one.key == "past_recurrent_names" || one.key == piped_key) return Json::Array{};
    (one.key == "past_conv_names" ? convolution : attention).insert(one.layer);
  }
  Json types = Json::Array{};
  if (convolution.empty()) return types;
  for (std::int64_t layer = 0; layer < layer_count(carried); ++layer) {
    if (attention.contains(layer) == convolution.contains(layer))
      fail(ErrorKind::unsupported, "layer {} has {} keys with values and a convolution's state: ONNX Runtime GenAI carries one of them in each layer", layer,
           attention.contains(layer) ? "both" : "neither of");
    types.push_back(attention.contains(layer) ? "full_attention" : "conv");
  }
  return types;
}

bool has_recurrent_states(const Json& inputs) { return inputs.find("past_recurrent_names") != nullptr; }

CacheShape cache_shape(const Value* cache) {
  if (!cache || !cache->shape() || cache->rank() != 4) return {};
  return {(*cache->shape())[1].as_static(), (*cache->shape())[3].as_static()};
}

CacheShape first_cache_of(const ir::Graph& graph) {
  const auto layers = layers_of(key_input, graph.inputs());
  return layers.empty() ? CacheShape{} : cache_shape(value_named(graph.inputs(), with_layer(key_input, layers.front())));
}

bool can_share_cache_buffer(const ir::Graph& graph) {
  constexpr std::size_t past_key = 3, past_value = 4, present_key = 1, present_value = 2;  // inputs and outputs of the operator
  const auto layers = layers_of(key_input, graph.inputs());
  for (const auto i : layers) {
    const auto* key = value_named(graph.outputs(), with_layer("present.%d.key", i));
    const auto* node = key ? key->producer() : nullptr;
    if (!node || !node->is("GroupQueryAttention", "com.microsoft")) return false;
    if (node->output(present_key) != key || node->output(present_value) != value_named(graph.outputs(), with_layer("present.%d.value", i))) return false;
    if (node->input(past_key) != value_named(graph.inputs(), with_layer(key_input, i))) return false;
    if (node->input(past_value) != value_named(graph.inputs(), with_layer(value_input, i))) return false;
    // Others would see a buffer of the longest length, not a cache of the tokens so far.
    for (const auto in : {past_key, past_value})
      if (node->input(in)->uses().size() != 1) return false;
    for (const auto out : {present_key, present_value})
      if (!node->output(out)->uses().empty()) return false;
  }
  return !layers.empty();
}

void check_caches(const Json& part, const ir::Graph& graph) {
  const auto all = carried(part, graph);
  if (const auto layers = part.at("num_hidden_layers").as_int(); layers != layer_count(all))
    fail(ErrorKind::unsupported, "genai_config.json: num_hidden_layers is {}, but the graph's caches are of {} layers", layers, layer_count(all));
  check_shapes(part, graph, all);
  const auto* stated = part.find("layer_types");
  if (const Json types = layer_types(all); (stated ? *stated : Json(Json::Array{})) != types)
    fail(ErrorKind::unsupported, "genai_config.json: layer_types is {}, but the graph's caches are {}", stated ? stated->dump() : "absent", types.dump());
}

}  // namespace mobius::package
