// build_from_module: a decoder written in C++ becomes a package for one execution provider.
//
//   ArchitectureConfig config = ...;                       // sizes, rope, dtype
//   auto package = build_from_module(models::CausalLMModel(config), config, {.execution_provider = "cuda", .weights = "folder"});
//   package.save("out");
//
// A module is anything that can be called as module(input_ids, at) and gives logits: a Module composed of this library's parts and of
// one's own (examples/custom_model). Its parameters carry the checkpoint's names.
#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "mobius/components/decoder.hpp"
#include "mobius/models/family.hpp"  // the interface of a causal language model, as families are built
#include "mobius/package/package.hpp"
#include "mobius/passes/pipeline.hpp"

namespace mobius {

using ArchitectureConfig = DecoderConfig;

namespace models {

// A Llama-style decoder of any sizes: what most of the families here are. Refers to its config.
struct CausalLMModel : CausalLM<PreNormLayer<SelfAttention, GatedMLP>> {
  explicit CausalLMModel(const ArchitectureConfig& config) : CausalLM(Scope(config.dtype), config) {}
};

}  // namespace models

struct ModuleOptions {
  std::string execution_provider = "default";
  std::optional<std::filesystem::path> weights = {};  // a folder with safetensors, or such a file; absent: the package has none
  std::vector<std::string> ignore_extra = {};         // globs of tensors there that may stay unused
  std::string task = "text-generation";
  std::optional<std::int64_t> opset = {};
  Padding padding = Padding::right;
  bool trace_optimization = false;
};

// What a runtime wants to know of such a model beside its graph, under Hugging Face's keys.
Json config_json(const ArchitectureConfig& config);

// Errors invalid_argument: the EP is unknown or does not run config.dtype, the task is not text-generation, tensors are missing, unknown or have
// another shape.
ModelPackage build_from_module(const CausalLMForward& module, const ArchitectureConfig& config, const ModuleOptions& options = {});

}  // namespace mobius
