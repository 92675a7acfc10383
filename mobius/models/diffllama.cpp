// Differential Transformer (arXiv 2410.05258) on Llama: the heads' first half attends, the second half's attention is taken off, λ times.
//
//   y = (1 − λ₀) · RMSNorm(A₁ · [v₁ v₂] − λ · A₂ · [v₁ v₂]),   λ = exp(λ_q1 · λ_k1) − exp(λ_q2 · λ_k2) + λ₀,   λ₀ = 0.8 − 0.6 · exp(−0.3 · layer)
//
// v₁ and v₂ are the value heads' two halves. Every head attends twice, once to each: queries and keys are used twice over.
#include <cmath>

#include "mobius/components/decoder.hpp"
#include "mobius/models/family.hpp"

namespace mobius::models {
namespace diffllama {

struct Attention : AttentionProjections<Attention> {
  using AttentionProjections::AttentionProjections;

  double lambda_init = 0.8 - 0.6 * std::exp(-0.3 * static_cast<double>(layer));
  Parameter lambda{(scope / "lambda").path(), difference()};
  // Without a weight of its own; the factor 1 − λ₀ takes its place.
  RMSNorm groupnorm{scope / "groupnorm", all((scope / "groupnorm" / "weight").path(), 1 - lambda_init), cfg.rms_norm_eps};

  Tensor forward(Tensor x, Decode& at) const {
    const auto q = at.rope(q_proj(x), cfg.num_attention_heads, cfg.rope);
    const auto k = at.rope(k_proj(x), cfg.num_key_value_heads, cfg.rope);
    const auto v = v_proj(x);
    constexpr auto end = std::numeric_limits<std::int64_t>::max();
    const auto half = cfg.kv_size() / 2;
    const auto v1 = slice(v, {0}, {half}, {2}), v2 = slice(v, {half}, {end}, {2});

    auto spec = attention_spec(cfg, layer);
    spec.num_heads *= 2;
    spec.num_kv_heads *= 2;
    const auto y = at.attend(concat<Tensor>({q, q}, 2), concat<Tensor>({k, k}, 2), concat<Tensor>({v1, v1, v2, v2}, 2), spec);

    const auto heads = cfg.num_attention_heads / 2;
    const auto parts = reshape(y, {0, 0, 2, 2, heads * cfg.head_dim});  // [B, S, v₁ or v₂, half of the heads, ...]
    const auto kept = slice(parts, {0}, {1}, {3}) - slice(parts, {1}, {2}, {3}) * lambda;
    const auto by_head = transpose(reshape(kept, {0, 0, 2, heads, cfg.head_dim}), {0, 1, 3, 2, 4});
    return o_proj(reshape(groupnorm(reshape(by_head, {0, 0, heads, 2 * cfg.head_dim})), {0, 0, -1}));
  }

  Parameter all(std::string name, double value) const {
    const std::vector<double> values(static_cast<std::size_t>(2 * cfg.head_dim), value);
    return {std::move(name), ir::make_tensor_of(scope.dtype(), {2 * cfg.head_dim}, values)};
  }

  // λ, of four vectors: element by element, since a recipe has no sums.
  ir::TensorPtr difference() const {
    std::vector<ir::TensorPtr> elements;
    for (const auto* name : {"lambda_q1", "lambda_k1", "lambda_q2", "lambda_k2"}) {
      const Parameter stored((scope / name).in(ir::DataType::float32), {cfg.head_dim});
      for (std::int64_t i = 0; i < cfg.head_dim; ++i) elements.push_back(ir::slice(stored.data(), 0, i, i + 1));
    }
    const auto lambda_of = [n = static_cast<std::size_t>(cfg.head_dim), start = lambda_init](std::span<const double> e) {
      double first = 0, second = 0;
      for (std::size_t i = 0; i < n; ++i) first += e[i] * e[n + i], second += e[2 * n + i] * e[3 * n + i];
      return std::exp(first) - std::exp(second) + start;
    };
    return ir::elementwise(std::move(elements), scope.dtype(), "diffllama lambda of layer " + std::to_string(layer), lambda_of);
  }
};

using DiffLlama = CausalLM<PreNormLayer<Attention, GatedMLP>>;

DecoderConfig config(const ConfigReader& r) {
  auto c = read_decoder(r, {.hidden_size = 2048, .intermediate_size = 8192, .num_hidden_layers = 16, .rms_norm_eps = 1e-5});
  c.qkv_bias = c.o_bias = r.boolean("attention_bias", false);
  if (c.num_key_value_heads % 2 != 0) r.refuse("num_key_value_heads", std::to_string(c.num_key_value_heads), "an even number");
  return c;
}

}  // namespace diffllama

Family family_diffllama() { return {.types = {"diffllama"}, .build = causal_lm_of<diffllama::DiffLlama>(diffllama::config)}; }

}  // namespace mobius::models
