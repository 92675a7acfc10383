// ERNIE 4.5 (Baidu; transformers modeling_ernie4_5_moe.py) with experts: chosen by softmax and a correction bias, weighted by the softmax alone; and shared
// ones.
//
//   p = softmax(x·Wg);   chosen: the k largest of p + b;   y = Σ pᵢ / max(Σp, ε) · SwiGLUᵢ(x) + SwiGLU(x)
#include "mobius/components/layer_norm_decoder.hpp"
#include "mobius/components/moe_layer.hpp"
#include "mobius/models/family.hpp"

namespace mobius::models {
namespace ernie4_5_moe {

struct Config : MoeConfig {
  double least_sum = 1e-12;
};

struct SparseMLP : Module<SparseMLP, Config> {
  using Module::Module;

  Scope in_float = scope.in(ir::DataType::float32);
  Linear gate{in_float / "gate", cfg.hidden_size, cfg.num_experts};
  Parameter correction{in_float / "moe_statics" / "e_score_correction_bias", {1, cfg.num_experts}};
  GatedExperts experts{scope / "experts", cfg.expert_sizes(), cfg.hidden_act};
  std::optional<SharedExpert> shared_experts =
      cfg.shared_size == 0 ? std::nullopt : std::optional(SharedExpert(scope / "shared_experts", cfg, cfg.shared_size));

  Tensor forward(Tensor x) const {
    const auto routed = over_tokens(x, cfg.hidden_size, [&](Tensor tokens) { return experts(tokens, route(tokens)); });
    return shared_experts ? routed + (*shared_experts)(x) : routed;
  }

  Routing route(Tensor tokens) const {
    const auto scores = softmax(gate(in_float32(tokens)), -1);
    const auto routing = choose_by(scores + correction, scores, cfg.experts_per_token);
    return {routing.weights / maximum(reduce_sum(routing.weights, {-1}), cfg.least_sum), routing.experts};
  }
};

struct Ernie : Module<Ernie, Config> {
  using Module::Module;

  DecoderStack<MoeLayer<SelfAttention, SparseMLP, Config>, Config> model{scope / "model", cfg, scope / "lm_head"};
  Linear lm_head = vocabulary_head(scope / "lm_head", cfg, model.embed_tokens, cfg.mlp_bias);

  Tensor forward(Tensor input_ids, Decode& at) const { return lm_head(model(model.embed_tokens(input_ids), at)); }
};

// Every moe_layer_interval-th layer between the two ends.
std::vector<bool> sparse_layers(const ConfigReader& r, std::int64_t layers) {
  const auto first = r.integer("moe_layer_start_index", 1), last = r.integer("moe_layer_end_index", -1), step = r.size("moe_layer_interval", 1);
  std::vector<bool> out(static_cast<std::size_t>(layers));
  for (std::int64_t i = 0; i < layers; ++i) out[static_cast<std::size_t>(i)] = (i + 1) % step == 0 && i >= first && (last == -1 || i <= last);
  return out;
}

Config config(const ConfigReader& r) {
  Config c{{read_decoder(r, {.vocab_size = 103424,
                             .hidden_size = 2560,
                             .intermediate_size = 12288,
                             .num_hidden_layers = 28,
                             .num_attention_heads = 20,
                             .num_key_value_heads = 4,
                             .max_position_embeddings = 131072,
                             .rms_norm_eps = 1e-5,
                             .tie_word_embeddings = true,
                             .rope = {.theta = 500000, .interleaved = true}})}};
  c.qkv_bias = c.o_bias = c.mlp_bias = r.boolean("use_bias", false);
  c.num_experts = r.size("moe_num_experts", r.size("num_experts", 64));
  c.experts_per_token = r.size("moe_k", r.size("num_experts_per_tok", 6));
  c.expert_size = r.size("moe_intermediate_size", 1536);
  c.shared_size = c.expert_size * r.count("moe_num_shared_experts", 2);
  c.least_sum = r.positive("moe_norm_min", 1e-12);
  c.sparse = sparse_layers(r, c.num_hidden_layers);
  check_experts(c, r);
  return c;
}

}  // namespace ernie4_5_moe

Family family_ernie4_5_moe() { return {.types = {"ernie4_5_moe"}, .ignorable = {"*mtp*"}, .build = causal_lm_of<ernie4_5_moe::Ernie>(ernie4_5_moe::config)}; }

}  // namespace mobius::models
