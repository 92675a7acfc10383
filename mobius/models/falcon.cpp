// Falcon (arXiv 2311.16867): query heads that share one key and value head, or one for each of several groups; rotary positions, or ALiBi;
// attention and MLP side by side, behind one LayerNorm or two of their own.
//
//   7B            y = x + Attention(LN(x)) + MLP(LN(x))
//   40B, 180B     y = x + Attention(LN₁(x)) + MLP(LN₂(x))
//   RW            h = x + Attention(LN₁(x));   y = h + MLP(LN₂(h));   score = (q · k − 2 · slope · distance) / √d
//
// The 2 is that of transformers' eager attention (modeling_falcon.py): the model puts slope · position / √d into the mask, and FalconAttention adds
// it to the scores itself before it adds that mask. With attn_implementation "sdpa", which it takes where none is asked for, the mask alone is
// added: 1 in place of 2. The reference outputs of the case falcon_alibi are met with 2. Slopes and their products with positions are bfloat16 in
// both.
#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "mobius/base/numeric.hpp"
#include "mobius/components/layer_norm_decoder.hpp"
#include "mobius/models/family.hpp"

namespace mobius::models {
namespace falcon {

enum class Branches { one_after_the_other, side_by_side, side_by_side_with_two_norms };

struct Config : DecoderConfig {
  Branches branches = Branches::side_by_side;
  bool alibi = false;
};

struct Attention : Module<Attention, Config> {
  std::int64_t layer;
  Attention(Scope s, const Config& c, std::int64_t layer_index) : Module(std::move(s), c), layer(layer_index) {}

  QKV query_key_value = fused_qkv(scope / "query_key_value", cfg);
  Linear dense{scope / "dense", cfg.q_size(), cfg.hidden_size, cfg.o_bias};

  Tensor forward(Tensor x, Decode& at, std::optional<Tensor> distances) const {
    auto spec = attention_spec(cfg, layer);
    spec.bias = distances;
    auto [q, k, v] = query_key_value(x);
    if (!cfg.alibi) {
      q = at.rope(q, cfg.num_attention_heads, cfg.rope);
      k = at.rope(k, cfg.num_key_value_heads, cfg.rope);
    }
    return dense(at.attend(q, k, v, spec));
  }
};

struct Layer : Module<Layer, Config> {
  std::int64_t index;
  Layer(Scope s, const Config& c, std::int64_t i) : Module(std::move(s), c), index(i) {}

  LayerNorm first{scope / (cfg.branches == Branches::side_by_side_with_two_norms ? "ln_attn" : "input_layernorm"), cfg.hidden_size, cfg.rms_norm_eps};
  LayerNorm second{scope / (cfg.branches == Branches::side_by_side_with_two_norms ? "ln_mlp" : "post_attention_layernorm"), cfg.hidden_size, cfg.rms_norm_eps};
  Attention self_attention{scope / "self_attention", cfg, index};
  FeedForward mlp{scope / "mlp", {"dense_h_to_4h", "dense_4h_to_h"}, cfg};

  Tensor forward(Tensor x, Decode& at, std::optional<Tensor> distances) const {
    const auto n = first(x);
    const auto h = x + self_attention(n, at, distances);
    switch (cfg.branches) {
      case Branches::side_by_side: return h + mlp(n);
      case Branches::side_by_side_with_two_norms: return h + mlp(second(x));
      case Branches::one_after_the_other: break;
    }
    return h + mlp(second(h));
  }
};

double rounded(double x) { return bfloat16_to_float(float_to_bfloat16(static_cast<float>(x))); }

// What a key at each position adds to the scores of each head, [positions, heads]. Slopes, positions and their products are rounded to bfloat16,
// as in training.
//
// Twice, as in eager attention: see above.
ir::TensorPtr alibi_table(const Config& cfg) {
  const auto slopes = alibi_slopes(cfg.num_attention_heads);
  const auto scale = 2 / std::sqrt(static_cast<double>(cfg.head_dim));
  const ir::RowFunction fill = [slopes, scale](std::int64_t first, std::int64_t rows, float* out) {
    for (auto p = first; p < first + rows; ++p)
      for (const double slope : slopes) *out++ = static_cast<float>(scale * rounded(rounded(slope) * rounded(static_cast<double>(p))));
  };
  const auto heads = cfg.num_attention_heads;
  return ir::computed(ir::DataType::float32, {cfg.max_position_embeddings, heads}, fmt::format("Falcon's ALiBi of {} heads, {}", heads, scale), fill);
}

// The key's number less the query's, which softmax does not see: so numbers are small where they matter. [B, heads, S, P + S]
Tensor distances_of(Decode& at, const Config& cfg) {
  const auto key = at.key_ordinals(), query = at.query_ordinals();
  auto& b = key.builder();
  return nn::scoped(b, "alibi", [&] {
    const auto table = key.with(Parameter("alibi.table", alibi_table(cfg)));
    const auto token = where(less(key, std::numeric_limits<std::int32_t>::max()), key, 1);  // padding takes any row
    const auto of_key = transpose(gather(table, squeeze(token, {1}) - 1), {0, 3, 1, 2});    // [B, 1, T, heads] -> [B, heads, 1, T]
    const auto of_query = transpose(gather(table, squeeze(query, {1}) - 1), {0, 3, 1, 2});  // [B, S, 1, heads] -> [B, heads, S, 1]
    return cast(of_key - of_query, b.dtype());
  });
}

struct Falcon : Module<Falcon, Config> {
  using Module::Module;
  Scope transformer = (scope / "transformer").or_left_out();
  Scope head = scope / "lm_head";

  Embedding word_embeddings = token_embedding(transformer / "word_embeddings", cfg, head);
  std::vector<Layer> h = layers_of<Layer>(transformer / "h", cfg);
  LayerNorm ln_f{transformer / "ln_f", cfg.hidden_size, cfg.rms_norm_eps};
  Linear lm_head = vocabulary_head(head, cfg, word_embeddings);

  Tensor forward(Tensor input_ids, Decode& at) const {
    std::optional<Tensor> distances;
    if (cfg.alibi) distances = distances_of(at, cfg);
    auto x = word_embeddings(input_ids);
    for (const auto& layer : h) x = layer(x, at, distances);
    return lm_head(ln_f(x));
  }
};

Branches branches(const ConfigReader& r, bool new_architecture) {
  const bool parallel = r.boolean("parallel_attn", true);
  const auto norms = r.optional_size("num_ln_in_parallel_attn").value_or(new_architecture ? 2 : 1);
  if (!new_architecture && !parallel) return Branches::one_after_the_other;
  if (!parallel) r.unsupported("new_decoder_architecture without parallel_attn is not supported");
  if (new_architecture && norms == 2) return Branches::side_by_side_with_two_norms;
  if (norms != 1) r.unsupported(fmt::format("num_ln_in_parallel_attn = {} is not supported with new_decoder_architecture = {}", norms, new_architecture));
  return Branches::side_by_side;
}

Config config(const ConfigReader& r) {
  const DecoderDefaults defaults{
      .vocab_size = 65024,
      .hidden_size = 4544,
      .num_attention_heads = 71,
      .rms_norm_eps = 1e-5,
      .hidden_act = "gelu",
      .tie_word_embeddings = true,
      .own_names = {{"hidden_size", "n_embed"}, {"num_key_value_heads", "num_kv_heads"}, {"rms_norm_eps", "layer_norm_epsilon"}, {"hidden_act", "activation"}}};
  const bool alibi = r.boolean("alibi", false);
  Config c{alibi ? read_decoder_without_rope(r, defaults) : read_decoder(r, defaults)};
  c.alibi = alibi;
  // Groups are those of the newer architecture; before it there is one key head or as many as queries.
  const bool new_architecture = r.boolean("new_decoder_architecture", false);
  if (!new_architecture) c.num_key_value_heads = r.boolean("multi_query", true) ? 1 : c.num_attention_heads;
  c.intermediate_size = r.optional_size("ffn_hidden_size").value_or(4 * c.hidden_size);
  c.qkv_bias = c.o_bias = c.mlp_bias = r.boolean("bias", false);
  c.branches = branches(r, new_architecture);
  return c;
}

}  // namespace falcon

Family family_falcon() { return {.types = {"falcon"}, .ignorable = {"*.rotary_emb.inv_freq"}, .build = causal_lm_of<falcon::Falcon>(falcon::config)}; }

}  // namespace mobius::models
