// The order of a build: source, refusals by name, family, dtype, graphs, weights, optimisation, provenance.
#include "mobius/package/build.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "mobius/base/error.hpp"
#include "mobius/base/log.hpp"
#include "mobius/ep/context.hpp"
#include "mobius/ep/registry.hpp"
#include "mobius/models/family.hpp"
#include "mobius/package/build_source.hpp"
#include "mobius/package/metadata.hpp"
#include "mobius/passes/pipeline.hpp"
#include "mobius/weights/bind.hpp"

namespace mobius {
namespace {

using package::Source;

// "gptq with 4 bits", as far as a quantization_config tells.
std::string quantisation_name(const Json& config) {
  const auto* method = config.find("quant_method");
  const auto* in_4_bits = config.find("load_in_4bit");
  const auto* in_8_bits = config.find("load_in_8bit");
  std::string name = method && method->is_string() ? method->as_string() : in_4_bits || in_8_bits ? "bitsandbytes" : "an unnamed method";
  if (const auto* bits = config.find("bits"); bits && bits->is_int()) name += fmt::format(" with {} bits", bits->as_int());
  return name;
}

void refuse_quantised(const Json& config, const std::string& place) {
  for (const char* key : {"quantization_config", "compression_config"}) {
    const auto* quantisation = config.find(key);
    if (!quantisation || quantisation->is_null()) continue;
    if (!quantisation->is_object()) fail(ErrorKind::invalid_argument, "{}: {} is {}, expected an object", place, key, quantisation->kind());
    fail(ErrorKind::unsupported, "{}: the weights are quantised by {} ({}), which is not supported; use a checkpoint in f32, f16 or bf16", place,
         quantisation_name(*quantisation), key);
  }
}

const Family& family_of(const ConfigReader& reader) {
  const std::string type = reader.model_type();
  const auto* custom = reader.json().find("auto_map");
  if (custom && custom->is_object() && !find_family(type)) {
    std::string code = "code";
    for (const auto& [name, target] : custom->as_object()) {
      if (target.is_string()) code = target.as_string();
    }
    fail(ErrorKind::unsupported, "{}: model_type '{}' is defined by code in the checkpoint ({}), which is never run here, and is no known model type",
         reader.where(), type, code);
  }
  try {
    return require_family(type);
  } catch (const Error& e) {
    throw e.within(reader.where());
  }
}

// What the definition has as a list of names; what they are is not asked: the model type says what is built.
void check_architectures(const ConfigReader& reader) { static_cast<void>(reader.texts("architectures")); }

void check_task(const Family& family, const std::string& task, const std::string& type) {
  if (task.empty() || task == family.task) return;
  fail(ErrorKind::invalid_argument, "task '{}' can't be built from model type '{}', which is for '{}'", task, type, family.task);
}

void load_weights(ModelPackage& package, const Source& source, const Family& family, const ConfigReader& reader, const BuildOptions& options) {
  std::vector<ir::Model*> models;
  for (auto& component : package.components()) models.push_back(&component.model);
  const auto checkpoint = weights::Checkpoint::open(source.weights);
  weights::BindOptions binding{.ignorable = family.ignorable, .ignore_extra = options.ignore_extra};
  if (family.otherwise) binding.otherwise = [&](const ir::Placeholder& wanted) { return family.otherwise(reader, wanted); };
  const auto report = weights::bind_weights(models, checkpoint, binding);
  if (family.check) family.check(reader, [&](std::string_view name) { return checkpoint.find(name); });
  if (!report.ignored.empty()) logging::info("{} tensors of the checkpoint are not needed: {}", report.ignored.size(), fmt::join(report.ignored, ", "));
}

// What the definition checks in every model type: a kind for each layer. Types that don't read these keys have one kind of attention, in
// which a window of some layers would be lost.
void check_unread_kinds(const ConfigReader& reader) {
  const auto unread = reader.unread_keys();
  for (const std::string key : {"layer_types", "mlp_layer_types"}) {
    const auto kinds = std::ranges::find(unread, key) == unread.end() ? std::nullopt : reader.texts(key);
    if (!kinds) continue;
    const auto layers = static_cast<std::int64_t>(kinds->size());
    const auto expected = reader.optional_size("num_hidden_layers").value_or(layers);
    if (layers != expected) reader.refuse(key, fmt::format("a list of {}", layers), fmt::format("{} entries (num_hidden_layers)", expected));
    for (const auto& kind : *kinds)
      if (kind == "sliding_attention" || kind == "chunked_attention")
        reader.unsupported(fmt::format("{} has '{}', which model type '{}' is not known to have", key, kind, reader.model_type()));
  }
}

// What is wrong while graphs are made comes from the config, wherever it was found.
std::vector<Component> components_of(const Family& family, const ConfigReader& reader, ir::DataType dtype) try {
  auto components = family.build(reader, dtype);
  check_unread_kinds(reader);
  return components;
} catch (const Error& e) {
  if (std::string_view(e.what()).starts_with(reader.where())) throw;
  throw e.within(reader.where());
}

}  // namespace

ModelPackage build(const std::string& model, const BuildOptions& options) {
  get_ep(options.execution_provider);  // what is wrong with the call, before what is wrong with the model
  return package::build_source(package::read_source(model, options.revision), options);
}

ModelPackage package::build_source(Source source, const BuildOptions& options) {
  const EpCapabilities ep = get_ep(options.execution_provider);
  refuse_quantised(source.config, source.config_place);

  Json config = source.config;
  if (!options.as_type.empty()) config.set("model_type", options.as_type);
  const ConfigReader reader(std::move(config), source.config_place);
  const Family& family = family_of(reader);
  check_architectures(reader);
  check_task(family, options.task, reader.model_type());
  // Quantised GGUF weights have no dtype to keep.
  const auto dtype = choose_dtype(ep, options.dtype, source.is_gguf ? ir::DataType::float32 : reader.dtype());

  ModelPackage package;
  package.has_weights = options.load_weights;
  {
    const BuildContext context(ep, dtype);
    package.components() = components_of(family, reader, dtype);
    if (options.load_weights) load_weights(package, source, family, reader, options);
    for (auto& component : package.components()) {
      const auto report = optimize_model(component.model, {.ep = ep.name,
                                                           .dtype = dtype,
                                                           .model_role = component.role,
                                                           .padding = options.padding,
                                                           .opset = options.opset,
                                                           .trace = options.trace_optimization});
      if (options.on_report) options.on_report(component, report);
    }
  }
  const package::Description description = {.source_name = source.name,
                                            .source_id = source.identity(),
                                            .model_type = reader.model_type(),
                                            .ep = ep.name,
                                            .dtype = dtype,
                                            .task = std::string(family.task),
                                            .has_weights = options.load_weights};
  for (auto& component : package.components()) package::describe(component, description);
  package.config = std::move(source.config);
  package.files() = std::move(source.files);
  package.sources = std::move(source.originals);
  return package;
}

}  // namespace mobius
