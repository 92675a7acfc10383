// Provenance: what a model file says about where it comes from and what it needs, in metadata_props.
//
//   describe(component.model, {.source_name = "Qwen/Qwen2.5-0.5B", ..., .ep = "cuda"});
//   model.metadata.at("mobius.ep");                      // "cuda"
//
// Keys: mobius.version, .source, .source_id, .ep, .dtype, .task, .role, .model_type, .padding, .opset, .min_onnxruntime, and
// .weights = "none" when there are none. No dates and no paths: building twice gives equal bytes.
#pragma once
#include <string>
#include <string_view>

#include "mobius/tasks/component.hpp"

namespace mobius::package {

struct Description {
  std::string source_name;  // a model id, or the name of a folder or file
  std::string source_id;    // a commit, or a hash
  std::string model_type;
  std::string ep;
  ir::DataType dtype = ir::DataType::float32;
  std::string task;
  bool has_weights = true;
};

void describe(Component& component, const Description& description);

// How batches may be padded. "any"; "right" where GroupQueryAttention counts valid tokens from the start of each row.
std::string_view padding_of(const ir::Graph& graph);

}  // namespace mobius::package
