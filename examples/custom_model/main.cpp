// A decoder with an attention of its own, built for three execution providers.
//
//   custom_model CHECKPOINT OUT            # CHECKPOINT: a Llama's folder; writes OUT/default, OUT/cpu, OUT/onnx-standard
//
// The attention: queries and keys are scaled to unit length before they meet, so that a score is a cosine, and a fixed temperature
// sharpens it (arXiv 2010.04245 without its learned scale). Nothing here speaks of execution providers: cpu gets GroupQueryAttention with
// rope inside, as a Llama would; onnx-standard gets standard operators alone.
#include <fmt/core.h>

#include "mobius/base/error.hpp"
#include "mobius/base/file.hpp"
#include "mobius/package/build_from_module.hpp"

using namespace mobius;

struct CosineAttention : Module<CosineAttention, ArchitectureConfig> {
  std::int64_t layer;
  CosineAttention(Scope s, const ArchitectureConfig& c, std::int64_t index) : Module(std::move(s), c), layer(index) {}

  // Members carry the checkpoint's names: model.layers.0.self_attn.q_proj.weight, ...
  Linear q_proj{scope / "q_proj", cfg.hidden_size, cfg.q_size()};
  Linear k_proj{scope / "k_proj", cfg.hidden_size, cfg.kv_size()};
  Linear v_proj{scope / "v_proj", cfg.hidden_size, cfg.kv_size()};
  Linear o_proj{scope / "o_proj", cfg.q_size(), cfg.hidden_size};

  Tensor forward(Tensor x, Decode& at) const {  // [B, S, hidden] -> [B, S, hidden]
    const auto q = at.rope(unit_heads(q_proj(x), cfg.num_attention_heads), cfg.num_attention_heads, cfg.rope);
    const auto k = at.rope(unit_heads(k_proj(x), cfg.num_key_value_heads), cfg.num_key_value_heads, cfg.rope);
    auto spec = attention_spec(cfg, layer);
    spec.scale = 10.0;  // the temperature
    return o_proj(at.attend(q, k, v_proj(x), spec));
  }

 private:
  // x / |x| for every head
  Tensor unit_heads(Tensor x, std::int64_t heads) const {
    const auto y = reshape(x, {0, 0, heads, -1});
    return reshape(y / sqrt(reduce_sum(y * y, {-1}) + 1e-6), {0, 0, -1});
  }
};

using Decoder = CausalLM<PreNormLayer<CosineAttention, GatedMLP>>;

int main(int argc, char** argv) try {
  if (argc != 3) return fmt::print(stderr, "usage: custom_model CHECKPOINT OUT\n"), 2;
  const fs::path checkpoint = argv[1], out = argv[2];
  auto config = read_decoder(ConfigReader(Json::parse(read_text_file(checkpoint / "config.json"))), {});
  config.dtype = ir::DataType::float32;
  for (const auto* ep : {"default", "cpu", "onnx-standard"}) {
    auto package = build_from_module(Decoder(nn::Scope(config.dtype), config), config, {.execution_provider = ep, .weights = checkpoint});
    package.save(out / ep, {.force = true});
    fmt::print("{}: {} nodes\n", ep, package.components().front().model.graph->node_count());
  }
  return 0;
} catch (const Error& e) {
  fmt::print(stderr, "custom_model: {}\n", e.what());
  return 1;
}
