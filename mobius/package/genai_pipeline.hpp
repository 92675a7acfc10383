// States that ONNX Runtime GenAI has no kind for: its pipeline carries them, one small model and the decoder.
//
//   if (needs_pipeline(part, graph)) use_pipeline(part, graph);     // part: "decoder" of genai_config.json
//   const auto file = pipeline_file(part, decoder);                  // {"model_states.onnx", its bytes}
//
// A pipeline hands the outputs of one model to inputs of the same name of another, and keeps them until the next call. So the small model,
// which runs first, takes the states that the decoder gave in the call before, and gives them on under the names that the decoder takes. In
// the first call there are none: then it gives zeros, the default of its inputs.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "mobius/package/genai_caches.hpp"
#include "mobius/package/package.hpp"

namespace mobius::package {

// Whether recurrent states and those of convolutions are in different layers, where the runtime wants both in one, and a pipeline can do it: its states
// are on the CPU.
bool needs_pipeline(const Json& part, const ir::Graph& graph);

// Makes "inputs" and "outputs" say nothing of states, and "pipeline" all of them.
void use_pipeline(Json& part, const ir::Graph& graph);

// What the pipeline of `part` carries, under this key; none where there is no pipeline.
constexpr std::string_view piped_key = "pipeline";
std::vector<Carried> piped(const Json& part);

// Error unsupported: the pipeline's decoder isn't this graph.
void check_pipeline(const Json& part, const ir::Graph& graph);

// The small model, if there is a pipeline.
constexpr std::string_view pipeline_file_name = "model_states.onnx";
std::optional<PackageFile> pipeline_file(const Json& part, const ir::Model& decoder);

}  // namespace mobius::package
