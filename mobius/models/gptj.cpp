// GPT-J (Wang and Komatsuzaki 2021): rotary positions on the first elements of each head, in neighbouring pairs; one LayerNorm for attention
// and MLP, which stand side by side. CodeGen (arXiv 2203.13474) stores the projections as one matrix.
//
//   y = x + Attention(LN(x)) + MLP(LN(x))
#include <fmt/format.h>

#include "mobius/components/layer_norm_decoder.hpp"
#include "mobius/models/family.hpp"

namespace mobius::models {
namespace gptj {

// CodeGen's matrix was trained on four devices: it has four parts, each with its queries, values and keys, in this order.
QKV codegen_qkv(const Scope& at, const DecoderConfig& cfg) {
  const Parameter all(at / "weight", {3 * cfg.hidden_size, cfg.hidden_size});
  const auto third = [&](std::string_view name, std::int64_t first) {
    return Linear(at / name, all.blocks((at / name / "weight").path(), cfg.hidden_size / 4, {first, first + 3, first + 6, first + 9}));
  };
  return {third("q", 0), third("k", 2), third("v", 1)};
}

struct Attention : Module<Attention, DecoderConfig> {
  std::int64_t layer;
  Attention(Scope s, const DecoderConfig& c, std::int64_t layer_index) : Module(std::move(s), c), layer(layer_index) {}

  QKV qkv = cfg.model_type == "codegen" ? codegen_qkv(scope / "qkv_proj", cfg) : separate_qkv(scope, cfg);
  Linear out_proj{scope / "out_proj", cfg.q_size(), cfg.hidden_size};

  Tensor forward(Tensor x, Decode& at) const {
    auto [q, k, v] = qkv(x);
    q = at.rope(q, cfg.num_attention_heads, cfg.rope);
    k = at.rope(k, cfg.num_key_value_heads, cfg.rope);
    return out_proj(at.attend(q, k, v, attention_spec(cfg, layer)));
  }
};

struct MLP : FeedForward {
  MLP(const Scope& at, const DecoderConfig& cfg) : FeedForward(at, {"fc_in", "fc_out"}, cfg) {}
};

using Layer = ParallelLayer<Attention, MLP, DecoderConfig, LayerNorm, GptLayerNames>;

struct GPTJ : Module<GPTJ, DecoderConfig> {
  using Module::Module;
  Scope transformer = (scope / "transformer").or_left_out();
  Scope head = scope / "lm_head";

  Embedding wte = token_embedding(transformer / "wte", cfg, head);
  std::vector<Layer> h = layers_of<Layer>(transformer / "h", cfg);
  LayerNorm ln_f{transformer / "ln_f", cfg.hidden_size, cfg.rms_norm_eps};
  Linear lm_head = vocabulary_head(head, cfg, wte, true);

  Tensor forward(Tensor input_ids, Decode& at) const {
    auto x = wte(input_ids);
    for (const auto& layer : h) x = layer(x, at);
    return lm_head(ln_f(x));
  }
};

DecoderConfig config(const ConfigReader& r) {
  auto c = read_decoder_without_rope(r, {.vocab_size = 50400,
                                         .hidden_size = 4096,
                                         .num_hidden_layers = 28,
                                         .num_attention_heads = 16,
                                         .max_position_embeddings = 2048,
                                         .rms_norm_eps = 1e-5,
                                         .hidden_act = "gelu_new",
                                         .own_names = gpt_names});
  c.intermediate_size = r.optional_size("n_inner").value_or(4 * c.hidden_size);
  c.mlp_bias = true;
  const auto turned = r.size("rotary_dim", 64);
  if (turned % 2 != 0 || turned > c.head_dim) r.refuse("rotary_dim", std::to_string(turned), fmt::format("an even number of at most {}", c.head_dim));
  c.rope = {.rotary_dim = turned, .max_position_embeddings = c.max_position_embeddings, .interleaved = true};
  if (c.model_type == "codegen" && c.hidden_size % 4 != 0) r.refuse("n_embd", std::to_string(c.hidden_size), "a multiple of 4");
  return c;
}

}  // namespace gptj

Family family_gptj() {
  return {
      .types = {"gptj", "codegen"}, .ignorable = {"*.attn.bias", "*.attn.masked_bias", "*.attn.causal_mask"}, .build = causal_lm_of<gptj::GPTJ>(gptj::config)};
}

}  // namespace mobius::models
