// The C++ of README.md and docs/, in one program, so that it compiles and runs. tests/test_docs.py looks each block of a page up in here,
// word by word, and runs the program in a folder with small checkpoints.
//
//   documentation            # in a folder with models/SmolLM2-135M and model.onnx; $HF_HUB_CACHE has the models
#include <fmt/format.h>

#include <cstdio>
#include <thread>

#include "mobius/base/error.hpp"
#include "mobius/base/log.hpp"
#include "mobius/ep/context.hpp"
#include "mobius/ep/registry.hpp"
#include "mobius/formats/onnx_reader.hpp"
#include "mobius/formats/onnx_writer.hpp"
#include "mobius/package/build.hpp"
#include "mobius/package/build_from_module.hpp"
#include "mobius/package/optimize_file.hpp"

using namespace mobius;

namespace {

void readme() {
  auto package = mobius::build("Qwen/Qwen2.5-0.5B", {.execution_provider = "cuda", .dtype = mobius::ir::DataType::float16});
  package.save("out");
}

void quick_start() {
  auto package = mobius::build("HuggingFaceTB/SmolLM2-135M", {.execution_provider = "cpu"});
  package.save("out");
}

// ── docs/ep_aware_building.md: the counterparts of the specification's blocks ──

void building() {
  auto portable = mobius::build("Qwen/Qwen2.5-7B");
  auto package = mobius::build("Qwen/Qwen2.5-7B", {.execution_provider = "cuda", .trace_optimization = true});
}

void asking_the_registry() {
  const mobius::EpCapabilities& cuda = mobius::get_ep("cuda");
  const bool fused = cuda.gqa_dtypes.contains(mobius::ir::DataType::float16);
  const auto* absent = mobius::ep_registry().get("rocm");  // nullptr; get_ep("rocm") throws
  expect(fused && !absent, "the registry is as documented");
}

void registering() {
  mobius::register_ep({.name = "my-ep", .gqa_dtypes = {mobius::ir::DataType::float16}});
  auto mine = mobius::build("Qwen/Qwen2.5-7B", {.execution_provider = "my-ep", .dtype = mobius::ir::DataType::float16});
}

void tracing() {
  mobius::logging::set_sink([](mobius::logging::Level, std::string_view line) { fmt::print(stderr, "{}\n", line); });
  auto graph = mobius::build("meta-llama/Llama-3.2-3B",
                             {.execution_provider = "cuda", .dtype = mobius::ir::DataType::float16, .load_weights = false, .trace_optimization = true});
}

Tensor tanh_gelu(Tensor x) {
  const auto& capabilities = mobius::ep_capabilities();
  if (capabilities.supports_fast_gelu && capabilities.gelu_dtypes.contains(mobius::get_build_dtype())) return ms::fast_gelu(x, {});
  return gelu_tanh(x);
}

struct AsksForTheProvider {
  models::CausalLMModel inner;
  Tensor operator()(Tensor input_ids, Decode& at) const { return tanh_gelu(inner(input_ids, at)); }
};

void contexts(const ArchitectureConfig& config) {
  const AsksForTheProvider model{models::CausalLMModel(config)};
  {
    const auto context = mobius::build_context(mobius::ep_registry().require("cuda"), mobius::ir::DataType::float16);
    auto component = mobius::causal_lm(mobius::get_build_dtype(), [&](Tensor input_ids, mobius::Decode& at) { return model(input_ids, at); });
  }
  std::thread thread([here = mobius::BuildContext::snapshot()] {
    const auto resumed = mobius::BuildContext::resume(here);  // a thread or coroutine that goes on with the context of another
  });
  thread.join();
}

// ── docs/adding_an_ep.md, docs/genai.md, docs/optimizing_models.md, docs/models_and_packages.md ──

void an_ep_of_ones_own() {
  mobius::register_ep({.name = "my-npu",
                       .dtypes = {mobius::ir::DataType::float16},
                       .fallback_dtype = mobius::ir::DataType::float16,
                       .gqa_dtypes = {mobius::ir::DataType::float16},
                       .supports_fused_rope = false});
  auto package = mobius::build("models/SmolLM2-135M", {.execution_provider = "my-npu"});
}

void generating() {
  auto package = mobius::build("Qwen/Qwen2.5-0.5B-Instruct", {.execution_provider = "cpu"});
  package.save("out", {.runtime = "ort-genai", .context_length = 4096});
}

void optimising() {
  auto model = mobius::formats::read_onnx("model.onnx");
  const auto report = mobius::optimize_model(model, {.ep = "cpu"});
  mobius::formats::write_onnx(model, ".", "model_cpu.onnx", {});
}

void optimising_files() {
  mobius::optimize_file("model.onnx", "model_cuda.onnx", {.optimize = {.ep = "cuda", .dtype = mobius::ir::DataType::float32}});  // weights are streamed
}

void looking_into_packages() {
  auto package = mobius::build("HuggingFaceTB/SmolLM2-135M", {.execution_provider = "cpu"});
  for (const auto& component : package.components()) fmt::print("{}: {} nodes\n", component.name, component.model.graph->node_count());
  for (const auto& file : package.plan()) fmt::print("{} {}\n", file.name, file.size);
  package.save("out", {.external_data = "safetensors", .max_shard_size = 5'000'000'000});
}

// ── docs/custom_modules.md ──

struct ReluSquaredMLP : Module<ReluSquaredMLP, ArchitectureConfig> {
  using Module::Module;

  Linear up_proj{scope / "up_proj", cfg.hidden_size, cfg.intermediate_size};
  Linear down_proj{scope / "down_proj", cfg.intermediate_size, cfg.hidden_size};

  Tensor forward(Tensor x) const {
    const auto y = relu(up_proj(x));
    return down_proj(y * y);
  }
};

using Decoder = CausalLM<PreNormLayer<SelfAttention, ReluSquaredMLP>>;

void building_from_modules() {
  auto config = mobius::read_decoder(mobius::ConfigReader(mobius::Json::parse(mobius::read_text_file("models/SmolLM2-135M/config.json"))), {});
  auto package = mobius::build_from_module(Decoder(mobius::Scope(config.dtype), config), config,
                                           {.execution_provider = "cpu", .weights = "models/SmolLM2-135M", .ignore_extra = {"*.gate_proj.weight"}});
  package.save("out");

  auto plain = mobius::build_from_module(mobius::models::CausalLMModel(config), config, {.execution_provider = "cuda", .trace_optimization = true});
  contexts(config);
}

}  // namespace

int main() try {
  for (const auto run : {readme, quick_start, building, asking_the_registry, registering, an_ep_of_ones_own, generating, optimising, optimising_files,
                         looking_into_packages, building_from_modules, tracing})
    run();
  return 0;
} catch (const Error& e) {
  fmt::print(stderr, "documentation: {}\n", e.what());
  return 1;
}
