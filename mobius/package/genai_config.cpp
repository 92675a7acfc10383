// genai_config.json, part by part. A new kind of graph is a row of `sections`, a new model type one of `types`.
#include "mobius/package/genai_config.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "mobius/base/error.hpp"
#include "mobius/base/log.hpp"
#include "mobius/base/option_name.hpp"
#include "mobius/ep/registry.hpp"
#include "mobius/package/genai_caches.hpp"
#include "mobius/package/genai_graph.hpp"
#include "mobius/package/genai_pipeline.hpp"
#include "mobius/package/genai_search.hpp"
#include "mobius/package/genai_tokens.hpp"

namespace mobius::package {
namespace {

constexpr std::int64_t capped_length = 4096;  // of an EP that asks for a cap: the buffer for the cache is allocated at once

// ── model types ──

// The runtime's names for our types, where it has one for graphs like ours. "gpt2" is another graph interface there.
struct TypeName {
  std::string_view ours, runtimes;
};
constexpr TypeName types[] = {
    {"code_llama", "llama"},
    {"ernie4_5", "ernie4_5"},
    {"gemma", "gemma"},
    {"gemma2", "gemma2"},
    {"gemma3_text", "gemma3_text"},
    {"gpt_oss", "gptoss"},
    {"granite", "granite"},
    {"llama", "llama"},
    {"mistral", "mistral"},
    {"hunyuan_v1_dense", "hunyuandensev1"},
    {"olmo", "olmo"},
    {"phi", "phi"},
    {"phi3", "phi3"},
    {"phimoe", "phimoe"},
    {"nemotron", "nemotron"},
    {"qwen2", "qwen2"},
    {"qwen3", "qwen3"},
    {"smollm3", "smollm3"},
    {"lfm2", "lfm2"},
    {"granitemoehybrid", "granitemoehybrid"},
    {"qwen3_5_text", "qwen3_5_text"},
    {"qwen3_5_moe_text", "qwen3_5_moe_text"},
};

std::string_view runtime_type(std::string_view model_type) {
  const auto it = std::ranges::find(types, model_type, &TypeName::ours);
  return it == std::end(types) ? "decoder" : it->runtimes;
}

// ── the model's config.json ──

// A number that model types spell differently: the first key that the config has, itself or in its language model's part.
std::optional<std::int64_t> number_in(const Json& config, std::initializer_list<std::string_view> keys) {
  const auto* text = config.find("text_config");
  for (const auto key : keys) {
    for (const Json* part : {&config, text}) {
      const auto* value = part ? part->find(key) : nullptr;
      if (value && value->is_int() && value->as_int() > 0) return value->as_int();
    }
  }
  return std::nullopt;
}

std::int64_t known(std::optional<std::int64_t> number, std::string_view what) {
  if (!number) fail(ErrorKind::not_found, "ONNX Runtime GenAI needs {}, which neither config.json nor the graph tells", what);
  return *number;
}

std::int64_t context_length_of(const Json& config, std::int64_t asked) {
  const auto longest = number_in(config, {"max_position_embeddings", "n_positions", "max_seq_len", "seq_length", "max_sequence_length", "n_ctx"});
  if (asked < 0) fail(ErrorKind::invalid_argument, "context_length is {}, expected a number of tokens", asked);
  if (asked == 0 && !longest) {
    fail(ErrorKind::not_found, "config.json doesn't say how many positions the model has (max_position_embeddings); give the context length ({})",
         option_name("context_length"));
  }
  if (longest && asked > *longest) fail(ErrorKind::invalid_argument, "context_length is {}, but the model has {} positions (config.json)", asked, *longest);
  return asked > 0 ? asked : *longest;
}

// ── the execution provider ──

// What the graphs' metadata say; "" when they don't.
std::string fact(const Component& component, std::string_view key) {
  const auto it = component.model.metadata.find("mobius." + std::string(key));
  return it == component.model.metadata.end() ? "" : it->second;
}

// The runtime refuses to capture a graph whose cache moves, and a provider to capture one that reads sizes on the host: they are
// rewritten for that where padding is on the right.
bool can_capture(const EpCapabilities& ep, bool shares_buffer, const std::string& padding) {
  return ep.enable_graph_capture && shares_buffer && (!ep.requires_graph_capture_rewrite || padding == "right");
}

Json session_options(const EpCapabilities& ep, bool captures) {
  Json providers = Json::Array{};
  if (const std::string name = ep.genai_provider.value_or(ep.name); !name.empty()) {
    Json options = Json::Object{};
    for (const auto& [key, value] : ep.provider_options) options.set(key, value);
    if (!ep.graph_capture_option.empty()) options.set(ep.graph_capture_option, captures ? "1" : "0");
    providers.push_back(Json::Object{{name, std::move(options)}});
  }
  return Json::Object{{"log_id", "onnxruntime-genai"}, {"provider_options", std::move(providers)}};
}

// ── the graphs ──

struct Section {
  std::string_view key;                        // within "model"
  std::array<std::string_view, 2> components;  // the names that its graph may have in a package
  std::span<const GenaiPort> inputs, outputs;
  void (*add_numbers)(Json& part, const ir::Graph& graph, const Json& config);
  void (*check)(const Json& genai_config, const ir::Graph& graph);
};

// What the recurrence is called depends on the model; the runtime has one name for all.
constexpr GenaiPort decoder_inputs[] = {{"input_ids", "input_ids"},
                                        {"inputs_embeds", "inputs_embeds"},
                                        {"attention_mask", "attention_mask"},
                                        {"position_ids", "position_ids"},
                                        {"past_key_names", "past_key_values.%d.key"},
                                        {"past_value_names", "past_key_values.%d.value"},
                                        {"past_conv_names", "past_key_values.%d.conv_state"},
                                        {"past_conv_names", "past_states.%d.conv_state"},
                                        {"past_recurrent_names", "past_key_values.%d.recurrent_state"},
                                        {"past_recurrent_names", "past_key_values.%d.ssm_state"},
                                        {"past_recurrent_names", "past_states.%d.ssm_state"}};
constexpr GenaiPort decoder_outputs[] = {{"logits", "logits"},
                                         {"present_key_names", "present.%d.key"},
                                         {"present_value_names", "present.%d.value"},
                                         {"present_conv_names", "present.%d.conv_state"},
                                         {"present_recurrent_names", "present.%d.recurrent_state"},
                                         {"present_recurrent_names", "present.%d.ssm_state"}};

// The runtime looks at the graph for layers that differ from the first.
void add_attention_numbers(Json& part, const ir::Graph& graph, const Json& config) {
  const auto cache = first_cache_of(graph);
  auto heads = attention_heads_of(graph);
  if (!heads) heads = number_in(config, {"num_attention_heads", "n_head", "n_heads", "attention_heads"});
  part.set("head_size", known(cache.head_size, "head_size"));
  part.set("num_attention_heads", known(heads, "num_attention_heads"));
  part.set("num_key_value_heads", known(cache.heads, "num_key_value_heads"));
}

void add_decoder_numbers(Json& part, const ir::Graph& graph, const Json& config) {
  if (needs_pipeline(part, graph)) use_pipeline(part, graph);
  const auto all = carried(part, graph);
  if (all.empty()) fail(ErrorKind::unsupported, "ONNX Runtime GenAI runs decoders that carry keys and values or states; this graph carries nothing");
  auto hidden = number_in(config, {"hidden_size", "n_embd", "d_model", "n_embed"});
  if (!hidden) hidden = embedding_width_of(graph);
  part.set("hidden_size", known(hidden, "hidden_size"));
  part.set("num_hidden_layers", layer_count(all));
  if (part.at("inputs").find("past_key_names")) add_attention_numbers(part, graph, config);
  if (Json of_layers = layer_types(all); !of_layers.as_array().empty()) part.set("layer_types", std::move(of_layers));
}

constexpr Section sections[] = {{"decoder", {"decoder", "model"}, decoder_inputs, decoder_outputs, add_decoder_numbers, check_decoder}};

const Section& section_of(const Component& component) {
  const auto describes = [&](const Section& section) { return std::ranges::find(section.components, component.name) != section.components.end(); };
  const auto it = std::ranges::find_if(sections, describes);
  if (it == std::end(sections)) fail(ErrorKind::unsupported, "component '{}' can't be described to ONNX Runtime GenAI yet", component.name);
  return *it;
}

const Component& decoder_of(const ModelPackage& package) {
  for (const auto& component : package.components()) {
    if (section_of(component).key == "decoder") return component;
  }
  fail(ErrorKind::unsupported, "ONNX Runtime GenAI needs a decoder; the package has no component 'decoder' or 'model'");
}

Json section_json(const Section& section, const ModelPackage& package, const Component& component, const Json& session) {
  const auto& graph = *component.model.graph;
  Json part = Json::Object{{"session_options", session},
                           {"filename", package.model_file_of(component)},
                           {"inputs", ports_json(section.inputs, graph.inputs())},
                           {"outputs", ports_json(section.outputs, graph.outputs())}};
  section.add_numbers(part, graph, package.config);
  return part;
}

Json eos_json(const std::vector<std::int64_t>& ids) { return ids.size() == 1 ? Json(ids.front()) : Json(Json::Array(ids.begin(), ids.end())); }

// A buffer is as long as the longest text, for each row of a batch.
void tell_cache_size(const Json& part, const ir::Graph& graph, std::int64_t max_length) {
  double values = 0;
  for (const auto& one : carried(part, graph)) {
    const auto [heads, head_size] = cache_shape(graph.find_value(one.input));
    if (one.key == "past_key_names" || one.key == "past_value_names") values += static_cast<double>(max_length * heads.value_or(0) * head_size.value_or(0));
  }
  const double gigabytes = values * static_cast<double>(ir::bit_width(graph.inputs().back()->dtype())) / 8e9;
  if (gigabytes >= 1) {
    logging::info("ONNX Runtime GenAI will allocate {:.1f} GB of cache for each row, for max_length {}; a smaller {} saves memory", gigabytes, max_length,
                  option_name("context_length"));
  }
}

void tell_row_lengths(const Json& inputs) {
  if (inputs.find("attention_mask")) return;
  logging::warning("the model takes no attention_mask, so it doesn't see the padding of ONNX Runtime GenAI: rows of a batch have to be equally long");
}

}  // namespace

Json genai_config(const ModelPackage& package, const Companions& files, const GenaiOptions& options) {
  const Component& decoder = decoder_of(package);
  const auto& graph = *decoder.model.graph;
  const std::string ep_name = fact(decoder, "ep"), padding = fact(decoder, "padding");
  if (ep_name.empty()) fail(ErrorKind::invalid_argument, "the package doesn't say which execution provider it was built for (mobius.ep)");
  if (padding == "left") fail(ErrorKind::unsupported, "ONNX Runtime GenAI pads batches on the right; the package was built for padding on the left");
  const EpCapabilities& ep = get_ep(ep_name);
  const bool recurrent = has_recurrent_states(ports_json(decoder_inputs, graph.inputs()));
  const bool shares_buffer = ep.supports_past_present_share_buffer && can_share_cache_buffer(graph) && !recurrent;

  auto vocab_size = vocab_size_of(graph);
  if (!vocab_size) vocab_size = number_in(package.config, {"vocab_size"});
  const auto context_length = context_length_of(package.config, options.context_length);
  const auto max_length = shares_buffer && ep.cap_kv_buffer_max_length ? std::min(context_length, capped_length) : context_length;
  const auto ids = token_ids(files, known(vocab_size, "vocab_size"));

  Json model = Json::Object{{"type", runtime_type(fact(decoder, "model_type"))}, {"vocab_size", *vocab_size}, {"context_length", context_length}};
  const Json session = session_options(ep, can_capture(ep, shares_buffer, padding));
  for (const auto& component : package.components()) {
    const auto& section = section_of(component);
    model.set(section.key, section_json(section, package, component, session));
  }
  if (model.at("decoder").find("pipeline")) model.set("type", "decoder-pipeline");
  if (ids.bos) model.set("bos_token_id", *ids.bos);
  model.set("eos_token_id", eos_json(ids.eos));
  model.set("pad_token_id", ids.pad);

  Json search = search_defaults(files.json("generation_config.json"), *vocab_size, !recurrent);
  search.set("max_length", max_length);
  search.set("past_present_share_buffer", shares_buffer);
  Json config = Json::Object{{"model", std::move(model)}, {"search", std::move(search)}};
  for (const auto& component : package.components()) section_of(component).check(config, *component.model.graph);
  tell_row_lengths(config.at("model").at("decoder").at("inputs"));
  if (shares_buffer) tell_cache_size(config.at("model").at("decoder"), graph, max_length);
  return config;
}

}  // namespace mobius::package
