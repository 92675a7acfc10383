// The pipeline's config, and its small model.
#include "mobius/package/genai_pipeline.hpp"

#include "mobius/base/error.hpp"
#include "mobius/formats/onnx_writer.hpp"

namespace mobius::package {
namespace {

constexpr const char *states_stage = "states", *decoder_stage = "decoder";
constexpr std::string_view recurrent_names = "past_recurrent_names";

struct StatePorts {
  std::string_view input, output;
};
constexpr StatePorts state_ports[] = {{"past_conv_names", "present_conv_names"}, {recurrent_names, "present_recurrent_names"}};

std::vector<std::int64_t> layers_with(const Json& inputs, std::string_view key, const ir::Graph& graph) {
  const auto* pattern = inputs.find(key);
  return pattern ? layers_of(pattern->as_string(), graph.inputs()) : std::vector<std::int64_t>{};
}

Json names_of(const std::vector<ir::Value*>& values) {
  Json names = Json::Array{};
  for (const auto* value : values) names.push_back(value->name);
  return names;
}

const Json* stage_of(const Json& part, std::string_view name) {
  const auto* pipeline = part.find("pipeline");
  return pipeline ? &pipeline->as_array().front().at(name) : nullptr;
}

// "past_key_values.3.recurrent_state" is of layer 3.
std::int64_t layer_in(const std::string& name) { return std::stoll(name.substr(name.find('.') + 1)); }

// What the decoder gave, or zeros for each row of the batch: a state of one element is broadcast, one of full size stays as it is.
void pass_on(ir::Graph& g, const Carried& state, const ir::Type& type, ir::Value* batch) {
  auto* given = g.add_input(state.output, {});
  g.make_initializer(given, ir::make_filled(type.dtype, ir::Dims(type.shape->size(), 1), 0));
  given->type = {type.dtype, ir::Shape(type.shape->size())};
  std::vector<std::int64_t> sizes;
  for (std::size_t axis = 1; axis < type.shape->size(); ++axis) sizes.push_back((*type.shape)[axis].value());
  auto* of_row = g.add_initializer(g.unique_name("sizes"), ir::make_tensor({static_cast<std::int64_t>(sizes.size())}, std::span<const std::int64_t>(sizes)));
  auto* shape = g.append({"", "Concat"}, {batch, of_row}, {{"axis", std::int64_t{0}}})->output();
  auto* taken = g.append({"", "Expand"}, {given, shape})->output();
  g.rename(taken, state.input);
  taken->type = type;
  g.add_output(taken);
}

}  // namespace

bool needs_pipeline(const Json& part, const ir::Graph& graph) {
  const auto& inputs = part.at("inputs");
  const auto recurrent = layers_with(inputs, recurrent_names, graph);
  const bool on_cpu = part.at("session_options").at("provider_options").as_array().empty();
  return on_cpu && inputs.find("input_ids") && !recurrent.empty() && recurrent != layers_with(inputs, "past_conv_names", graph);
}

void use_pipeline(Json& part, const ir::Graph& graph) {
  Json inputs = part.at("inputs"), outputs = part.at("outputs");
  Json given = Json::Array{inputs.at("input_ids")}, taken = Json::Array{};
  for (const auto& [input, output] : state_ports) {
    const auto *past = inputs.find(input), *present = outputs.find(output);
    if (!past) continue;
    if (!present) fail(ErrorKind::unsupported, "the graph has states {}, but doesn't give them for the next call", past->as_string());
    for (const auto layer : layers_of(past->as_string(), graph.inputs())) {
      taken.push_back(with_layer(past->as_string(), layer));
      given.push_back(with_layer(present->as_string(), layer));
    }
    inputs.erase(input);
    outputs.erase(output);
  }
  inputs.set(recurrent_names, "");  // else the runtime looks for those that it has a name for by itself
  Json stages = Json::Object{
      {states_stage, Json::Object{{"filename", std::string(pipeline_file_name)}, {"inputs", std::move(given)}, {"outputs", std::move(taken)}}},
      {decoder_stage, Json::Object{{"filename", part.at("filename")}, {"inputs", names_of(graph.inputs())}, {"outputs", names_of(graph.outputs())}}}};
  part.set("inputs", std::move(inputs));
  part.set("outputs", std::move(outputs));
  part.set("pipeline", Json::Array{std::move(stages)});
}

std::vector<Carried> piped(const Json& part) {
  std::vector<Carried> all;
  const auto* stage = stage_of(part, states_stage);
  if (!stage) return all;
  const auto &given = stage->at("inputs").as_array(), &taken = stage->at("outputs").as_array();
  for (std::size_t i = 0; i < taken.size(); ++i)
    all.push_back({piped_key, layer_in(taken[i].as_string()), taken[i].as_string(), given.at(i + 1).as_string()});  // after input_ids
  return all;
}

void check_pipeline(const Json& part, const ir::Graph& graph) {
  const auto* stage = stage_of(part, decoder_stage);
  if (stage && (stage->at("inputs") != names_of(graph.inputs()) || stage->at("outputs") != names_of(graph.outputs())))
    fail(ErrorKind::unsupported, "genai_config.json: the pipeline's decoder has other inputs or outputs than the graph");
}

std::optional<PackageFile> pipeline_file(const Json& part, const ir::Model& decoder) {
  if (!part.find("pipeline")) return std::nullopt;
  ir::Model model;
  model.ir_version = decoder.ir_version;
  model.opset_imports[""] = decoder.opset_imports.at("");
  model.graph->name = states_stage;
  auto& g = *model.graph;
  const auto* ids = decoder.graph->find_value(part.at("inputs").at("input_ids").as_string());
  auto* batch = g.append({"", "Shape"}, {g.add_input(ids->name, ids->type)}, {{"start", std::int64_t{0}}, {"end", std::int64_t{1}}})->output();
  for (const auto& state : piped(part)) pass_on(g, state, decoder.graph->find_value(state.input)->type, batch);
  return PackageFile{std::string(pipeline_file_name), formats::serialize_onnx(model)};
}

}  // namespace mobius::package
