// Doge (arXiv 2412.11834): a decoder whose values say how much attention their token gets (dynamic mask attention), and whose residuals
// have a weight per channel.
//
//   score(s, t) = q_s · k_t / √d + exp(A · softplus(Δ v_t)),   and of the keys that a query sees only the keep_window_size with the largest
//   h = a ⊙ x + Attention(norm(x));   y = b ⊙ h + MLP(norm(h))   second terms remain
#include "mobius/components/decoder.hpp"
#include "mobius/models/family.hpp"

namespace mobius::models {
namespace doge {

struct Config : DecoderConfig {
  std::int64_t keep_window_size = 2048;
};

struct Attention : AttentionProjections<Attention, Config> {
  using AttentionProjections::AttentionProjections;

  Parameter A{scope / "A", {cfg.num_key_value_heads}};
  Linear dt_proj{scope / "dt_proj", cfg.kv_size(), cfg.num_key_value_heads, cfg.qkv_bias};
  RMSNorm q_norm{scope / "q_norm", cfg.head_dim, cfg.rms_norm_eps};
  RMSNorm k_norm{scope / "k_norm", cfg.head_dim, cfg.rms_norm_eps};

  Tensor forward(Tensor x, Decode& at) const {
    const auto q = at.rope(per_head(q_norm, q_proj(x), cfg.num_attention_heads), cfg.num_attention_heads, cfg.rope);
    const auto k = at.rope(per_head(k_norm, k_proj(x), cfg.num_key_value_heads), cfg.num_key_value_heads, cfg.rope);
    const auto spec = attention_spec(cfg, layer);
    const auto mask = [&](Tensor values) {
      auto weight = weight_of(values);
      // When no row can be longer, all keys that a query sees are among the largest.
      if (cfg.keep_window_size < cfg.max_position_embeddings) weight = largest(at.mask(spec.window, weight));
      return at.mask(spec.window, for_queries(weight));
    };
    return o_proj(at.attend_masked(q, k, v_proj(x), spec, mask));
  }

  // [B, kv_heads, T, head_dim] -> [B, kv_heads, 1, T]
  Tensor weight_of(Tensor values) const {
    const auto tokens = reshape(transpose(values, {0, 2, 1, 3}), {0, 0, -1});
    const auto weight = exp(softplus(dt_proj(tokens)) * A);
    return unsqueeze(transpose(weight, {0, 2, 1}), {2});
  }

  // The largest numbers of each row, and the lowest number elsewhere.
  Tensor largest(Tensor mask) const {
    const auto count = minimum(shape(mask, 3, 4), cfg.keep_window_size);
    const auto [numbers, places] = topk(mask, count, -1);
    const auto nothing = expand(mask.with(lowest()), shape(mask));
    return scatter_elements(nothing, places, numbers, -1);
  }

  // [B, kv_heads, ...] -> [B, heads, ...]
  Tensor for_queries(Tensor weight) const {
    std::vector<std::int64_t> key_head_of;
    const auto group = cfg.num_attention_heads / cfg.num_key_value_heads;
    for (std::int64_t i = 0; i < cfg.num_attention_heads; ++i) key_head_of.push_back(i / group);
    return group == 1 ? weight : gather(weight, key_head_of, 1);
  }

  Parameter lowest() const {
    const std::vector<double> number{lowest_score(scope.dtype())};
    return {"doge.unseen", ir::make_tensor_of(scope.dtype(), {1}, number)};
  }
};

struct Layer : Module<Layer, Config> {
  std::int64_t layer;
  Layer(Scope s, const Config& c, std::int64_t layer_index) : Module(std::move(s), c), layer(layer_index) {}

  RMSNorm input_layernorm{scope / "input_layernorm", cfg.hidden_size, cfg.rms_norm_eps};
  Attention self_attn{scope / "self_attn", cfg, layer};
  Parameter input_residual{scope / "input_residual", {cfg.hidden_size}};
  RMSNorm post_attention_layernorm{scope / "post_attention_layernorm", cfg.hidden_size, cfg.rms_norm_eps};
  GatedMLP mlp{scope / "mlp", cfg};
  Parameter post_attention_residual{scope / "post_attention_residual", {cfg.hidden_size}};

  Tensor forward(Tensor x, Decode& at) const {
    const auto h = x * input_residual + self_attn(input_layernorm(x), at);
    return h * post_attention_residual + mlp(post_attention_layernorm(h));
  }
};

using Doge = CausalLM<Layer, Config>;

Config config(const ConfigReader& r) {
  Config c{read_decoder(r, {.vocab_size = 32768, .hidden_size = 1024, .intermediate_size = 2048, .num_attention_heads = 8})};
  c.qkv_bias = c.o_bias = r.boolean("attention_bias", false);
  c.mlp_bias = r.boolean("mlp_bias", false);
  c.keep_window_size = r.size("keep_window_size", 2048);
  set_window(c, r.nullable_size("sliding_window", std::nullopt));
  // The definition's router takes one half of its choices from the batch's first tokens and the other from its last: no token's result
  // would be its own.
  r.only("is_moe", false);
  return c;
}

}  // namespace doge

Family family_doge() { return {.types = {"doge"}, .build = causal_lm_of<doge::Doge>(doge::config)}; }

}  // namespace mobius::models
