// The steps of a build whose graph comes from the caller's module.
#include "mobius/package/build_from_module.hpp"

#include "mobius/base/error.hpp"
#include "mobius/ep/context.hpp"
#include "mobius/ep/registry.hpp"
#include "mobius/package/metadata.hpp"
#include "mobius/weights/bind.hpp"

namespace mobius {

Json config_json(const ArchitectureConfig& c) {
  return Json::Object{{"model_type", c.model_type.empty() ? "custom" : c.model_type},
                      {"vocab_size", c.vocab_size},
                      {"hidden_size", c.hidden_size},
                      {"intermediate_size", c.intermediate_size},
                      {"num_hidden_layers", c.num_hidden_layers},
                      {"num_attention_heads", c.num_attention_heads},
                      {"num_key_value_heads", c.num_key_value_heads},
                      {"head_dim", c.head_dim},
                      {"max_position_embeddings", c.max_position_embeddings}};
}

ModelPackage build_from_module(const CausalLMForward& module, const ArchitectureConfig& config, const ModuleOptions& options) {
  const EpCapabilities ep = get_ep(options.execution_provider);
  if (options.task != "text-generation") fail(ErrorKind::invalid_argument, "task '{}' can't be built from a module; known: text-generation", options.task);
  const auto dtype = choose_dtype(ep, config.dtype, config.dtype);

  ModelPackage package;
  package.has_weights = options.weights.has_value();
  package.config = config_json(config);
  const BuildContext context(ep, dtype);
  auto& component = package.components().emplace_back(causal_lm(dtype, module));
  if (options.weights) {
    weights::bind_weights({&component.model}, weights::Checkpoint::open(*options.weights), {.ignore_extra = options.ignore_extra});
    package.sources = {*options.weights};
  }
  optimize_model(
      component.model,
      {.ep = ep.name, .dtype = dtype, .model_role = component.role, .padding = options.padding, .opset = options.opset, .trace = options.trace_optimization});
  const auto source = options.weights ? options.weights->filename().string() : std::string("a module");
  package::describe(component, {.source_name = source,
                                .source_id = "module",
                                .model_type = package.config.at("model_type").as_string(),
                                .ep = ep.name,
                                .dtype = dtype,
                                .task = options.task,
                                .has_weights = package.has_weights});
  return package;
}

}  // namespace mobius
