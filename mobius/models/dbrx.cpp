// DBRX (Databricks; transformers modeling_dbrx.py): LayerNorm without biases, clipped q, k and v from one matrix, and experts by softmax, their weights
// divided by their p-norm.
//
//   q, k, v = clip(LayerNorm(x)·Wqkv, −c, c);   y = Σ wᵢ/‖w‖ₚ · SwiGLUᵢ(x),   w the k largest of softmax(x·Wg)
#include "mobius/components/layer_norm_decoder.hpp"
#include "mobius/components/moe_layer.hpp"
#include "mobius/models/family.hpp"

namespace mobius::models {
namespace dbrx {

struct Config : MoeConfig {
  std::optional<double> clip_qkv = {}, weight_norm = {};
};

struct Attention : Module<Attention, Config> {
  std::int64_t layer;
  Attention(Scope s, const Config& c, std::int64_t layer_index) : Module(std::move(s), c), layer(layer_index) {}

  QKV qkv = joined_qkv(scope / "Wqkv", cfg);
  Linear out_proj{scope / "out_proj", cfg.q_size(), cfg.hidden_size};

  Tensor forward(Tensor x, Decode& at) const {
    const auto [queries, keys, values] = qkv(x);
    const auto q = at.rope(clipped(queries), cfg.num_attention_heads, cfg.rope);
    const auto k = at.rope(clipped(keys), cfg.num_key_value_heads, cfg.rope);
    return out_proj(at.attend(q, k, clipped(values), attention_spec(cfg, layer)));
  }

  Tensor clipped(Tensor x) const { return cfg.clip_qkv ? clip(x, -*cfg.clip_qkv, *cfg.clip_qkv) : x; }
};

struct Experts : Module<Experts, Config> {
  using Module::Module;

  Linear router{scope / "router" / "layer", cfg.hidden_size, cfg.num_experts};
  // Each matrix is stored with the experts' rows, one expert behind the other: [experts · width, hidden], the down projection turned.
  Scope weights = scope / "experts" / "mlp";
  GatedExperts experts{weights,          cfg.num_experts, cfg.hidden_act, {turned(by_expert("w1"), name("w1"))}, {turned(by_expert("v1"), name("v1"))},
                       {by_expert("w2")}};

  Tensor forward(Tensor x) const {
    return over_tokens(x, cfg.hidden_size, [&](Tensor tokens) {
      const auto routing = choose_by_softmax(router(tokens), cfg.experts_per_token);
      return experts(tokens, cfg.weight_norm ? divided(routing) : routing);
    });
  }

  Routing divided(const Routing& r) const {
    const auto p = *cfg.weight_norm;
    if (p == 1) return normalised(r);
    return {r.weights / pow(reduce_sum(pow(r.weights, p), {-1}), 1 / p), r.experts};
  }

  std::string name(std::string_view w) const { return (weights / w).path(); }
  Parameter by_expert(std::string_view w) const {
    const Parameter all(weights / w, {cfg.num_experts * cfg.expert_size, cfg.hidden_size});
    return {name(w), ir::reshape(all.data(), {cfg.num_experts, cfg.expert_size, cfg.hidden_size})};
  }
};

constexpr double eps = 1e-5;  // the type has no key for it

struct Layer : Module<Layer, Config> {
  std::int64_t layer;
  Layer(Scope s, const Config& c, std::int64_t layer_index) : Module(std::move(s), c), layer(layer_index) {}

  Scope upper = scope / "norm_attn_norm";
  LayerNorm norm_1{upper / "norm_1", cfg.hidden_size, eps, LayerNorm::Affine::weight_only};
  Attention attn{upper / "attn", cfg, layer};
  LayerNorm norm_2{upper / "norm_2", cfg.hidden_size, eps, LayerNorm::Affine::weight_only};
  Experts ffn{scope / "ffn", cfg};

  Tensor forward(Tensor x, Decode& at) const {
    const auto h = x + attn(norm_1(x), at);
    return h + ffn(norm_2(h));
  }
};

struct Dbrx : Module<Dbrx, Config> {
  using Module::Module;

  Scope transformer = scope / "transformer";
  Embedding wte{transformer / "wte", cfg.vocab_size, cfg.hidden_size};
  std::vector<Layer> blocks = layers_of<Layer>(transformer / "blocks", cfg);
  LayerNorm norm_f{transformer / "norm_f", cfg.hidden_size, eps, LayerNorm::Affine::weight_only};
  Linear lm_head{scope / "lm_head", cfg.hidden_size, cfg.vocab_size};

  Tensor forward(Tensor input_ids, Decode& at) const {
    auto x = wte(input_ids);
    for (const auto& block : blocks) x = block(x, at);
    return lm_head(norm_f(x));
  }
};

ConfigReader part(const ConfigReader& r, std::string_view key) { return r.has(key) ? r.nested(key) : ConfigReader(Json(Json::Object{}), r.where()); }

// The keys of both parts, and rope's theta, which older configs have among attention's.
ConfigReader with_common_keys(const ConfigReader& r, const ConfigReader& attention) {
  auto json = r.json();
  json.set("num_key_value_heads", Json(attention.size("kv_n_heads", 1)));
  if (!r.has("rope_theta") && rope_parameters(r).as_object().empty()) json.set("rope_theta", Json(attention.positive("rope_theta", 10000)));
  return r.with(std::move(json));
}

std::string activation_of(const ConfigReader& ffn) {
  if (!ffn.has("ffn_act_fn")) return "silu";
  return ffn.nested("ffn_act_fn").text("name", "silu");
}

Config config(const ConfigReader& given) {
  const auto attention = part(given, "attn_config"), ffn = part(given, "ffn_config");
  const auto r = with_common_keys(given, attention);
  r.only("tie_word_embeddings", false);
  Config c{{read_decoder(
      r,
      {.hidden_size = 2048,
       .intermediate_size = 3584,
       .num_hidden_layers = 24,
       .num_attention_heads = 16,
       .own_names = {
           {"hidden_size", "d_model"}, {"num_attention_heads", "n_heads"}, {"num_hidden_layers", "n_layers"}, {"max_position_embeddings", "max_seq_len"}}})}};
  c.clip_qkv = attention.nullable_positive("clip_qkv", std::nullopt);
  c.hidden_act = activation_of(ffn);
  c.expert_size = ffn.size("ffn_hidden_size", 3584);
  c.num_experts = ffn.size("moe_num_experts", 4);
  c.experts_per_token = ffn.size("moe_top_k", 1);
  c.weight_norm = ffn.nullable_positive("moe_normalize_expert_weights", 1);
  check_experts(c, r);
  return c;
}

}  // namespace dbrx

Family family_dbrx() { return {.types = {"dbrx"}, .build = causal_lm_of<dbrx::Dbrx>(dbrx::config)}; }

}  // namespace mobius::models
