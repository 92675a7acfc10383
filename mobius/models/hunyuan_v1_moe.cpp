// Hunyuan V1 (Tencent; transformers modeling_hunyuan_v1_moe.py) with experts: query and key heads are RMS-normalised after they are rotated.
//
//   y = Σ softmax(x·Wg)ᵢ/Σ · SwiGLUᵢ(x) + SwiGLU(x)
#include <fmt/format.h>

#include <cmath>
#include <vector>

#include "mobius/components/moe_layer.hpp"
#include "mobius/models/family.hpp"

namespace mobius::models {
namespace hunyuan_v1_moe {

struct Attention : RotatedThenNormedAttention<> {
  Attention(Scope s, const DecoderConfig& c, std::int64_t layer_index)
      : RotatedThenNormedAttention(std::move(s), c, layer_index, {.q_norm = "query_layernorm", .k_norm = "key_layernorm"}) {}
};

struct Config : MoeConfig {
  std::vector<std::int64_t> chosen = {};  // experts per token, by layer
};

struct SparseMLP : Module<SparseMLP, Config> {
  std::int64_t chosen;
  SparseMLP(Scope s, const Config& c, std::int64_t layer) : Module(std::move(s), c), chosen(c.chosen[static_cast<std::size_t>(layer)]) {}

  Linear wg{scope.in(ir::DataType::float32) / "gate" / "wg", cfg.hidden_size, cfg.num_experts};  // the router works in float32
  GatedExperts experts{scope / "experts", cfg.expert_sizes(), cfg.hidden_act};
  SharedExpert shared_mlp{scope / "shared_mlp", cfg, cfg.intermediate_size};

  Tensor forward(Tensor x) const {
    const auto routed =
        over_tokens(x, cfg.hidden_size, [&](Tensor tokens) { return experts(tokens, normalised(choose_by_softmax(wg(in_float32(tokens)), chosen))); });
    return routed + shared_mlp(x);
  }
};

using HunYuanMoe = CausalLM<PreNormLayer<Attention, SparseMLP, Config>, Config>;

// Either a number, or one for each layer; more than there are layers are left aside.
std::vector<std::int64_t> by_layer(const ConfigReader& r, std::string_view key, std::int64_t layers, std::int64_t otherwise) {
  auto each = r.sizes(key, layers, otherwise);
  if (static_cast<std::int64_t>(each.size()) < layers)
    r.refuse(key, fmt::format("a list of {}", each.size()), fmt::format("at least {} entries (num_hidden_layers)", layers));
  each.resize(static_cast<std::size_t>(layers));
  return each;
}

Config config(const ConfigReader& r) {
  Config c{{read_decoder(r, {.vocab_size = 290943, .rms_norm_eps = 1e-5, .rope = {.fixed_alpha = true}})}};
  c.qkv_bias = c.o_bias = r.boolean("attention_bias", false);
  const auto experts = by_layer(r, "num_experts", c.num_hidden_layers, 1);
  c.num_experts = experts.front();
  for (const auto n : experts)
    if (n != c.num_experts) r.unsupported(fmt::format("num_experts = {} is not supported: only one number for all layers", r.find("num_experts")->dump()));
  c.chosen = by_layer(r, "moe_topk", c.num_hidden_layers, 1);
  c.expert_size = c.intermediate_size;
  for (const auto k : c.chosen) {
    c.experts_per_token = k;
    check_experts(c, r);
  }
  return c;
}

}  // namespace hunyuan_v1_moe

Family family_hunyuan_v1_moe() { return {.types = {"hunyuan_v1_moe"}, .build = causal_lm_of<hunyuan_v1_moe::HunYuanMoe>(hunyuan_v1_moe::config)}; }

}  // namespace mobius::models
