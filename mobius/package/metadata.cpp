// Metadata keys and what they are derived from.
#include "mobius/package/metadata.hpp"

#include "mobius/package/least_runtime.hpp"
#include "mobius/package/version.hpp"

namespace mobius::package {

std::string_view padding_of(const ir::Graph& graph) {
  for (const ir::Node* node : graph.nodes()) {
    if (node->is("GroupQueryAttention", "com.microsoft") && !node->input(10)) return "right";  // without attention_bias it counts tokens
  }
  return "any";
}

void describe(Component& component, const Description& description) {
  ir::Model& model = component.model;
  model.producer_name = "mobius";
  model.producer_version = version();
  const auto found = model.opset_imports.find("");
  const std::int64_t opset = found == model.opset_imports.end() ? 0 : found->second;
  const auto set = [&](const char* key, std::string_view value) { model.metadata["mobius." + std::string(key)] = value; };
  set("version", version());
  set("source", description.source_name);
  set("source_id", description.source_id);
  set("model_type", description.model_type);
  set("ep", description.ep);
  set("dtype", ir::short_name(description.dtype));
  set("task", description.task);
  set("role", component.role);
  set("padding", padding_of(*model.graph));
  set("opset", std::to_string(opset));
  set("min_onnxruntime", least_onnxruntime(model));
  if (!description.has_weights) set("weights", "none");
}

}  // namespace mobius::package
