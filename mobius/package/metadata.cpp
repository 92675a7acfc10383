// Metadata keys and what they are derived from.
#include "mobius/package/metadata.hpp"

#include <algorithm>
#include <array>

#include "mobius/package/version.hpp"

namespace mobius::package {
namespace {

struct Release {
  std::int64_t opset;  // the newest that it takes
  std::int64_t ir_version;
  std::string_view version;
};

// ONNX Runtime's releases, by its table of compatibility; from opset 23 on by running attention operators of that opset.
constexpr std::array<Release, 8> releases = {
    {{19, 9, "1.16"}, {20, 9, "1.17"}, {21, 10, "1.18"}, {22, 10, "1.21"}, {23, 11, "1.23"}, {24, 12, "1.24"}, {26, 13, "1.30"}, {28, 14, "1.32"}}};

}  // namespace

std::string_view least_onnxruntime(std::int64_t opset, std::int64_t ir_version) {
  for (const auto& release : releases) {
    if (opset <= release.opset && ir_version <= release.ir_version) return release.version;
  }
  return "unknown";
}

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
  set("min_onnxruntime", least_onnxruntime(opset, model.ir_version));
  if (!description.has_weights) set("weights", "none");
}

}  // namespace mobius::package
