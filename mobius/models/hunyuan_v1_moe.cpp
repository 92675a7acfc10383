// Hunyuan V1 (Tencent; transformers modeling_hunyuan_v1_moe.py) with experts: query and key heads are RMS-normalised after they are rotated.
//
//   y = Σ softmax(x·Wg)ᵢ/Σ · SwiGLUᵢ(x) + SwiGLU(x)
#include <fmt/format.h>

#include <cmath>

#include "mobius/components/moe_layer.hpp"
#include "mobius/models/family.hpp"

namespace mobius::models {
namespace hunyuan_v1_moe {

struct Attention : RotatedThenNormedAttention<> {
  Attention(Scope s, const DecoderConfig& c, std::int64_t layer_index)
      : RotatedThenNormedAttention(std::move(s), c, layer_index, {.q_norm = "query_layernorm", .k_norm = "key_layernorm"}) {}
};

struct SparseMLP : Module<SparseMLP, MoeConfig> {
  using Module::Module;

  Linear wg{scope.in(ir::DataType::float32) / "gate" / "wg", cfg.hidden_size, cfg.num_experts};  // the router works in float32
  GatedExperts experts{scope / "experts", cfg.expert_sizes(), cfg.hidden_act};
  SharedExpert shared_mlp{scope / "shared_mlp", cfg, cfg.intermediate_size};

  Tensor forward(Tensor x) const {
    const auto routed = over_tokens(
        x, cfg.hidden_size, [&](Tensor tokens) { return experts(tokens, normalised(choose_by_softmax(wg(in_float32(tokens)), cfg.experts_per_token))); });
    return routed + shared_mlp(x);
  }
};

using HunYuanMoe = CausalLM<PreNormLayer<Attention, SparseMLP, MoeConfig>, MoeConfig>;

// Either a number, or one for each layer; those have to be equal.
std::int64_t same_in_all_layers(const ConfigReader& r, std::string_view key, std::int64_t otherwise) {
  const auto* v = r.find(key);
  if (!v || !v->is_array()) return r.size(key, otherwise);
  const auto each = r.numbers(key);
  for (const double n : each)
    if (n != each.front() || n != std::floor(n) || n < 1)
      r.unsupported(fmt::format("{} = {} is not supported: only one number for all layers", key, v->dump()));
  return each.empty() ? otherwise : static_cast<std::int64_t>(each.front());
}

MoeConfig config(const ConfigReader& r) {
  MoeConfig c{read_decoder(r, {.vocab_size = 290943, .rms_norm_eps = 1e-5, .rope = {.fixed_alpha = true}})};
  c.qkv_bias = c.o_bias = r.boolean("attention_bias", false);
  c.num_experts = same_in_all_layers(r, "num_experts", 1);
  c.experts_per_token = same_in_all_layers(r, "moe_topk", 1);
  c.expert_size = c.intermediate_size;
  check_experts(c, r);
  return c;
}

}  // namespace hunyuan_v1_moe

Family family_hunyuan_v1_moe() { return {.types = {"hunyuan_v1_moe"}, .build = causal_lm_of<hunyuan_v1_moe::HunYuanMoe>(hunyuan_v1_moe::config)}; }

}  // namespace mobius::models
