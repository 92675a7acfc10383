// Latent attention: how its matrices are cut, and its keys put together.
#include "mobius/components/latent_attention.hpp"

#include <cmath>

#include "mobius/base/error.hpp"

namespace mobius {
namespace {

constexpr double latent_eps = 1e-6;  // fixed: the norms of latents don't follow the config's ε

// Of a matrix whose rows are heads of `size` rows each: parts of every head, one behind the other, as a matrix of all heads.
Parameter of_each_head(const Parameter& w, std::string name, std::int64_t size, const std::vector<std::pair<std::int64_t, std::int64_t>>& parts) {
  const auto heads = w.dims()[0] / size, in = w.dims()[1];
  const auto by_head = ir::reshape(w.data(), {heads, size, in});
  std::vector<ir::TensorPtr> cut;
  std::int64_t rows = 0;
  for (const auto& [begin, end] : parts) {
    cut.push_back(ir::slice(by_head, 1, begin, end));
    rows += end - begin;
  }
  return {std::move(name), ir::reshape(ir::concat(std::move(cut), 1), {heads * rows, in})};
}

Linear rows_of(const Scope& at, std::string_view name, const Parameter& weight, const std::optional<Parameter>& bias, std::int64_t begin, std::int64_t end) {
  const auto path = at / name;
  return {path, weight.rows((path / "weight").path(), begin, end), bias ? std::optional(bias->rows((path / "bias").path(), begin, end)) : std::nullopt};
}

std::optional<Parameter> bias_of(const Scope& at, std::int64_t size, bool has) { return has ? std::optional(Parameter(at / "bias", {size})) : std::nullopt; }

std::optional<LatentAttention::QueryLatent> query_latent(const Scope& s, const LatentConfig& c) {
  if (!c.q_lora_rank) return std::nullopt;
  return LatentAttention::QueryLatent{Linear(s / "q_a_proj", c.hidden_size, *c.q_lora_rank, c.qkv_bias),
                                      RMSNorm(s / "q_a_layernorm", *c.q_lora_rank, latent_eps)};
}

// The rotated part of each head first.
Linear queries(const Scope& s, const LatentConfig& c) {
  const auto at = s / (c.q_lora_rank ? "q_b_proj" : "q_proj");
  const Parameter w(at / "weight", {c.num_attention_heads * c.qk_head_dim(), c.q_lora_rank.value_or(c.hidden_size)});
  return {at, of_each_head(w, w.name(), c.qk_head_dim(), {{c.qk_nope_head_dim, c.qk_head_dim()}, {0, c.qk_nope_head_dim}})};
}

// The scale is multiplied in before the weight is rounded.
RMSNorm latent_norm(const Scope& at, std::int64_t size, double scale) {
  if (scale == 1) return {at, size, latent_eps};
  const Parameter exact(at.in(ir::DataType::float32) / "weight", {size});
  return {at, Parameter(exact.name(), ir::cast(ir::affine(exact.data(), scale, 0), at.dtype())), latent_eps};
}

}  // namespace

void read_latent_attention(LatentConfig& c, const ConfigReader& r, const LatentDefaults& d) {
  c.q_lora_rank = r.nullable_size("q_lora_rank", d.q_lora_rank);
  c.kv_lora_rank = r.size("kv_lora_rank", d.kv_lora_rank);
  c.qk_nope_head_dim = r.size("qk_nope_head_dim", d.qk_nope_head_dim);
  c.qk_rope_head_dim = r.size("qk_rope_head_dim", d.qk_rope_head_dim);
  c.v_head_dim = r.size("v_head_dim", d.v_head_dim);
  c.qkv_bias = c.o_bias = r.boolean("attention_bias", false);
  if (c.num_key_value_heads != c.num_attention_heads)
    r.unsupported(fmt::format("num_key_value_heads = {} is not supported: latent attention has as many as num_attention_heads = {}", c.num_key_value_heads,
                              c.num_attention_heads));
  c.rope = read_rope(r, {.head_dim = c.qk_rope_head_dim, .max_position_embeddings = c.max_position_embeddings}, d.rope);
  c.score_scale = 1 / std::sqrt(static_cast<double>(c.qk_head_dim()));
  if (c.rope.type == RopeType::standard) return;
  // Scores of a stretched context are sharpened, whatever the kind of rope.
  const ConfigReader rope(rope_parameters(r), r.where() + ": rope_parameters");
  const auto all = rope.number("mscale_all_dim", 0);
  if (all == 0) return;
  const auto factor = rope.positive("factor", c.rope.factor);
  const auto m = factor <= 1 ? 1.0 : 0.1 * all * std::log(factor) + 1.0;
  c.score_scale *= m * m;
}

LatentAttention::LatentAttention(Scope s, const LatentConfig& c, std::int64_t layer_index)
    : Module(s, c),
      layer(layer_index),
      q_latent(query_latent(s, c)),
      q_proj(queries(s, c)),
      kv_down([&] {
        const auto at = s / "kv_a_proj_with_mqa";
        const auto size = c.kv_lora_rank + c.qk_rope_head_dim;
        return rows_of(at, "latent", Parameter(at / "weight", {size, c.hidden_size}), bias_of(at, size, c.qkv_bias), 0, c.kv_lora_rank);
      }()),
      k_rope([&] {
        const auto at = s / "kv_a_proj_with_mqa";
        const auto size = c.kv_lora_rank + c.qk_rope_head_dim;
        return rows_of(at, "rope", Parameter(at / "weight", {size, c.hidden_size}), bias_of(at, size, c.qkv_bias), c.kv_lora_rank, size);
      }()),
      kv_norm(latent_norm(s / "kv_a_layernorm", c.kv_lora_rank, c.kv_latent_scale)),
      k_nope([&] {
        const auto at = s / "kv_b_proj" / "k";
        const auto size = c.qk_nope_head_dim + c.v_head_dim;
        const Parameter w(s / "kv_b_proj" / "weight", {c.num_attention_heads * size, c.kv_lora_rank});
        return Linear(at, of_each_head(w, (at / "weight").path(), size, {{0, c.qk_nope_head_dim}}));
      }()),
      v_proj([&] {
        const auto at = s / "kv_b_proj" / "v";
        const auto size = c.qk_nope_head_dim + c.v_head_dim;
        const Parameter w(s / "kv_b_proj" / "weight", {c.num_attention_heads * size, c.kv_lora_rank});
        return Linear(at, of_each_head(w, (at / "weight").path(), size, {{c.qk_nope_head_dim, size}}));
      }()),
      o_proj(s / "o_proj", c.num_attention_heads * c.v_head_dim, c.hidden_size, c.o_bias) {}

Tensor LatentAttention::forward(Tensor x, Decode& at) const {
  const auto heads = cfg.num_attention_heads;
  const auto q = at.rope(q_proj(q_latent ? q_latent->norm(q_latent->down(x)) : x), heads, cfg.rope);

  const auto latent = kv_norm(kv_down(x));
  const auto rotated = unsqueeze(at.rope(k_rope(x), 1, cfg.rope), {2});  // [B, S, 1, rope]
  const auto plain = reshape(k_nope(latent), {0, 0, heads, cfg.qk_nope_head_dim});
  const auto k = reshape(concat<Tensor>({expand(rotated, {1, 1, heads, 1}), plain}, 3), {0, 0, -1});

  return o_proj(at.attend(q, k, v_proj(latent),
                          {.num_heads = heads,
                           .num_kv_heads = heads,
                           .head_dim = cfg.qk_head_dim(),
                           .value_dim = cfg.v_head_dim,
                           .window = cfg.window(layer),
                           .scale = cfg.score_scale * cfg.q_latent_scale}));
}

}  // namespace mobius
