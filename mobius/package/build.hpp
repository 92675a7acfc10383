// build: a Hugging Face model becomes a package for one execution provider.
//
//   ModelPackage package = build("HuggingFaceTB/SmolLM2-135M", {.execution_provider = "cuda", .dtype = DataType::float16});
//   package.save("out");
//
// The model is a folder in the Hugging Face layout, a .gguf file, or a model id that is in the local Hugging Face cache. Graphs are
// complete before a weight is read; weights are streamed when the package is saved.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "mobius/ir/data_type.hpp"
#include "mobius/package/package.hpp"
#include "mobius/passes/pipeline.hpp"

namespace mobius {

struct BuildOptions {
  std::string execution_provider = "default";
  std::optional<ir::DataType> dtype = {};  // absent: the checkpoint's, if the EP runs it
  std::string task = {};                   // empty: the model type's own
  bool load_weights = true;                // false: the package has no weights (external entries with offsets only)
  bool trace_optimization = false;
  std::optional<std::int64_t> opset = {};                                       // of the graphs, 21 or more; absent: the EP's highest, at most 24
  Padding padding = Padding::right;                                             // which batches decoders take
  std::string as_type = {};                                                     // build as this model_type, whatever config.json says
  std::vector<std::string> ignore_extra = {};                                   // globs of checkpoint tensors that may stay unused
  std::string revision = {};                                                    // of a model id: a branch, a tag or a commit
  std::function<void(const Component&, const OptimizeReport&)> on_report = {};  // what the optimisation did, component by component
};

// Everything that can be wrong with the model is found here, before anything is written. Errors: not_found (no such model, no
// config.json, no weights, a shard is missing), unsupported (by name: a model type, a quantisation, a rope type, ...; an adapter;
// only pickle files; code of its own), corrupt_file, invalid_argument (an option's value; a tensor is missing, unknown or has
// another shape).
ModelPackage build(const std::string& model, const BuildOptions& options = {});

}  // namespace mobius
