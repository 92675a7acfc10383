// Cutting fused projections, heads that are tied, slopes.
#include "mobius/components/layer_norm_decoder.hpp"

#include <fmt/format.h>

#include <cmath>
#include <optional>

namespace mobius {
namespace {

// A matrix [out, hidden] with its bias, where there is one.
struct Fused {
  Scope at;
  Parameter weight;
  std::optional<Parameter> bias;

  Fused(const Scope& scope, const DecoderConfig& cfg)
      : at(scope),
        weight(scope / "weight", {cfg.q_size() + 2 * cfg.kv_size(), cfg.hidden_size}),
        bias(cfg.qkv_bias ? std::optional(Parameter(scope / "bias", {cfg.q_size() + 2 * cfg.kv_size()})) : std::nullopt) {}

  Linear blocks(std::string_view name, std::int64_t size, const std::vector<std::int64_t>& order) const {
    const auto own = at / name;
    const auto cut = [&](const Parameter& p, std::string_view part) { return p.blocks((own / part).path(), size, order); };
    return {own, cut(weight, "weight"), bias ? std::optional(cut(*bias, "bias")) : std::nullopt};
  }
  Linear rows(std::string_view name, std::int64_t begin, std::int64_t size) const {
    const auto own = at / name;
    const auto cut = [&](const Parameter& p, std::string_view part) { return p.rows((own / part).path(), begin, begin + size); };
    return {own, cut(weight, "weight"), bias ? std::optional(cut(*bias, "bias")) : std::nullopt};
  }
};

}  // namespace

QKV separate_qkv(const Scope& at, const DecoderConfig& cfg) {
  return {{at / "q_proj", cfg.hidden_size, cfg.q_size(), cfg.qkv_bias},
          {at / "k_proj", cfg.hidden_size, cfg.kv_size(), cfg.qkv_bias},
          {at / "v_proj", cfg.hidden_size, cfg.kv_size(), cfg.qkv_bias}};
}

QKV fused_qkv(const Scope& at, const DecoderConfig& cfg) {
  const Fused all(at, cfg);
  const auto queries = cfg.num_attention_heads / cfg.num_key_value_heads;  // of each group
  std::vector<std::int64_t> q, k, v;
  for (std::int64_t group = 0; group < cfg.num_key_value_heads; ++group) {
    const auto first = group * (queries + 2);
    for (std::int64_t i = 0; i < queries; ++i) q.push_back(first + i);
    k.push_back(first + queries);
    v.push_back(first + queries + 1);
  }
  return {all.blocks("q", cfg.head_dim, q), all.blocks("k", cfg.head_dim, k), all.blocks("v", cfg.head_dim, v)};
}

QKV joined_qkv(const Scope& at, const DecoderConfig& cfg) {
  const Fused all(at, cfg);
  return {all.rows("q", 0, cfg.q_size()), all.rows("k", cfg.q_size(), cfg.kv_size()), all.rows("v", cfg.q_size() + cfg.kv_size(), cfg.kv_size())};
}

Projections<Conv1D> joined_conv1d(const Scope& at, const DecoderConfig& cfg) {
  const auto keys = cfg.q_size() + cfg.kv_size(), all = keys + cfg.kv_size();
  const Conv1D joined(at, cfg.hidden_size, all);
  return {joined.part("q", 0, cfg.q_size()), joined.part("k", cfg.q_size(), keys), joined.part("v", keys, all)};
}

Tensor HeadLayerNormAttention::forward(Tensor x, Decode& at) const {
  auto [q, k, v] = qkv(x);
  if (cfg.qk_layernorm) {
    q = per_head(q_layernorm, q, cfg.num_attention_heads);
    k = per_head(k_layernorm, k, cfg.num_key_value_heads);
  }
  q = at.rope(q, cfg.num_attention_heads, cfg.rope);
  k = at.rope(k, cfg.num_key_value_heads, cfg.rope);
  return dense(at.attend(q, k, v, attention_spec(cfg, layer)));
}

Tensor normalise_heads(Tensor x, const Parameter& weight, double eps) {
  const auto heads = weight.dims().at(0), dim = weight.dims().at(1);
  const auto normal = nn::UnweightedLayerNorm(Scope(weight.dtype(), weight.name()), dim, eps)(reshape(x, {0, 0, heads, dim}));
  return reshape(normal * weight, {0, 0, heads * dim});
}

Tensor learned_positions(const Embedding& table, const Decode& at, std::int64_t offset) {
  return table(offset == 0 ? at.position_ids() : at.position_ids() + offset);
}

Parameter sinusoids(const Scope& name, std::int64_t rows, std::vector<float> frequencies, std::optional<std::int64_t> zero_row) {
  const auto columns = 2 * static_cast<std::int64_t>(frequencies.size());
  auto identity = fmt::format("sinusoids {} {} {}", rows, zero_row.value_or(-1), fmt::join(frequencies, " "));
  // In float32 as the originals compute it.
  const auto fill = [f = std::move(frequencies), zero_row](std::int64_t first, std::int64_t count, float* out) {
    for (std::int64_t p = first; p < first + count; ++p) {
      const float scale = zero_row == p ? 0.0f : 1.0f, position = static_cast<float>(p);
      for (const float x : f) *out++ = scale * static_cast<float>(std::sin(static_cast<double>(position * x)));
      for (const float x : f) *out++ = scale * static_cast<float>(std::cos(static_cast<double>(position * x)));
    }
  };
  return {name.path(), ir::computed(name.dtype(), {rows, columns}, std::move(identity), fill)};
}

std::vector<double> alibi_slopes(std::int64_t heads) {
  std::int64_t power = 1;
  while (2 * power <= heads) power *= 2;
  std::vector<double> slopes;
  for (std::int64_t i = 1; i <= power; ++i) slopes.push_back(std::exp2(-8.0 * static_cast<double>(i) / static_cast<double>(power)));
  for (std::int64_t i = 1; static_cast<std::int64_t>(slopes.size()) < heads; i += 2)
    slopes.push_back(std::exp2(-4.0 * static_cast<double>(i) / static_cast<double>(power)));
  return slopes;
}

// Distances are counted in whole numbers before they become floats: so they are exact where they matter, near the query.
Tensor alibi(Decode& at, const std::vector<double>& slopes) {
  const auto key = at.key_ordinals();
  auto& b = key.builder();
  return nn::scoped(b, "alibi", [&] {
    const auto distance = cast(key - at.query_ordinals(), b.dtype());
    return distance * Parameter("alibi.slopes", ir::make_tensor_of(b.dtype(), {1, static_cast<std::int64_t>(slopes.size()), 1, 1}, slopes));
  });
}

}  // namespace mobius
