// What Gemma 3n and Gemma 4 share: layers that attend to an earlier layer's keys and values, heads whose width goes by the kind of layer,
// and a second embedding that gives every layer an input of its own.
//
//   q = rope(norm(Wq x));   k = rope(norm(Wk x));   v = norm(Wv x)        scores are not scaled; v's norm has no weight
//   e_l = norm(P_l · x₀ / √hidden_size) / √2 + √(width / 2) · E_l[ids]     layer l's own input
//   x + norm(W (act(G x) · e_l))                                           how it goes in
#pragma once
#include "mobius/base/error.hpp"
#include "mobius/components/gemma.hpp"

namespace mobius {

struct Gemma3nConfig : GemmaConfig {
  struct Heads {
    std::int64_t count = 0, kv_count = 0, dim = 0;
    bool values_are_keys = false;                  // v is what k is before its norm
    std::optional<std::size_t> shared_cache = {};  // the earlier layer whose keys and values serve here
  };
  std::vector<Heads> heads = {};                          // one per layer
  std::int64_t per_layer_width = 0, per_layer_vocab = 0;  // of the layers' own inputs; width 0: there are none
};

inline AttentionSpec attention_spec(const Gemma3nConfig& cfg, std::int64_t layer) {
  const auto& h = cfg.heads[static_cast<std::size_t>(layer)];
  return {.num_heads = h.count, .num_kv_heads = h.kv_count, .head_dim = h.dim, .window = cfg.window(layer), .scale = 1.0};
}

// The last `count` layers attend to what the last layer of their kind before them has.
inline void share_caches(Gemma3nConfig& c, const ConfigReader& r, const std::vector<bool>& sliding, std::int64_t count) {
  if (count < 0 || count >= c.num_hidden_layers)
    r.refuse("num_kv_shared_layers", std::to_string(count), fmt::format("0 or more, below num_hidden_layers = {}", c.num_hidden_layers));
  const auto first = static_cast<std::size_t>(c.num_hidden_layers - count);
  for (auto i = first; i < sliding.size(); ++i) {
    auto source = first;
    while (source > 0 && sliding[source - 1] != sliding[i]) --source;
    if (source == 0) r.refuse("num_kv_shared_layers", std::to_string(count), "layers of each kind that are not shared");
    c.heads[i].shared_cache = source - 1;
  }
}

struct Gemma3nAttention : Module<Gemma3nAttention, Gemma3nConfig> {
  struct KeysAndValues {
    Linear k_proj;
    std::optional<Linear> v_proj;
    RMSNorm k_norm;
    nn::UnweightedRMSNorm v_norm;
  };
  std::int64_t layer;
  Gemma3nAttention(Scope s, const Gemma3nConfig& c, std::int64_t layer_index) : Module(std::move(s), c), layer(layer_index) {}

  Gemma3nConfig::Heads heads = cfg.heads[static_cast<std::size_t>(layer)];
  Linear q_proj{scope / "q_proj", cfg.hidden_size, heads.count* heads.dim, cfg.qkv_bias};
  RMSNorm q_norm{scope / "q_norm", heads.dim, cfg.rms_norm_eps};
  std::optional<KeysAndValues> own = heads.shared_cache ? std::nullopt : std::optional(keys_and_values());
  Linear o_proj{scope / "o_proj", heads.count* heads.dim, cfg.hidden_size, cfg.o_bias};

  Tensor forward(Tensor x, Decode& at) const {
    const auto& rope = cfg.rope_of(layer);
    const auto spec = attention_spec(cfg, layer);
    const auto q = at.rope(per_head(q_norm, q_proj(x), heads.count), heads.count, rope);
    if (heads.shared_cache) return o_proj(at.attend_again(q, *heads.shared_cache, spec));
    const auto plain = own->k_proj(x);
    const auto k = at.rope(per_head(own->k_norm, plain, heads.kv_count), heads.kv_count, rope);
    const auto v = per_head(own->v_norm, own->v_proj ? (*own->v_proj)(x) : plain, heads.kv_count);
    return o_proj(at.attend(q, k, v, spec));
  }

  KeysAndValues keys_and_values() const {
    const auto project = [&](std::string_view name) { return Linear(scope / name, cfg.hidden_size, heads.kv_count * heads.dim, cfg.qkv_bias); };
    return {.k_proj = project("k_proj"),
            .v_proj = heads.values_are_keys ? std::nullopt : std::optional(project("v_proj")),
            .k_norm = RMSNorm(scope / "k_norm", heads.dim, cfg.rms_norm_eps),
            .v_norm = nn::UnweightedRMSNorm(scope / "v_norm", heads.dim, cfg.rms_norm_eps)};
  }
};

// All layers' own inputs at once: [B, S, num_hidden_layers, width]. The scope is the decoder stack's.
struct PerLayerInputs : Module<PerLayerInputs, Gemma3nConfig> {
  using Module::Module;

  std::int64_t all = cfg.num_hidden_layers * cfg.per_layer_width;
  Embedding embed_tokens_per_layer{scope / "embed_tokens_per_layer", cfg.per_layer_vocab, all};
  // The constant factors go into the weights when they are loaded.
  Linear per_layer_model_projection = scaled_projection();
  RMSNorm per_layer_projection_norm = scaled_norm();

  Tensor forward(Tensor x, Tensor input_ids) const {
    // Tokens that the second embedding hasn't got have its first row.
    const auto ids = cfg.per_layer_vocab < cfg.vocab_size ? where(less(input_ids, cfg.per_layer_vocab), input_ids, 0) : input_ids;
    const auto by_layer = [&](Tensor t) { return reshape(t, {0, 0, cfg.num_hidden_layers, cfg.per_layer_width}); };
    const auto of_ids = by_layer(embed_tokens_per_layer(ids)) * std::sqrt(static_cast<double>(cfg.per_layer_width) / 2);
    return per_layer_projection_norm(by_layer(per_layer_model_projection(x))) + of_ids;
  }

  Linear scaled_projection() const {
    const auto at = scope / "per_layer_model_projection";
    return {at, Parameter(at / "weight", {all, cfg.hidden_size}).scaled(1 / std::sqrt(static_cast<double>(cfg.hidden_size)))};
  }
  RMSNorm scaled_norm() const {
    const auto at = scope / "per_layer_projection_norm";
    return {at, Parameter(at / "weight", {cfg.per_layer_width}).scaled(1 / std::sqrt(2.0)), cfg.rms_norm_eps};
  }
};

inline Tensor input_of_layer(Tensor inputs, std::int64_t layer) { return squeeze(slice(inputs, {layer}, {layer + 1}, {2}), {2}); }

// norm(W (act(G x) · e)): what a layer's own input e [B, S, width] adds to x [B, S, hidden_size]. The scope is the layer's.
struct PerLayerGate : Module<PerLayerGate, Gemma3nConfig> {
  using Module::Module;

  Linear per_layer_input_gate{scope / "per_layer_input_gate", cfg.hidden_size, cfg.per_layer_width};
  Linear per_layer_projection{scope / "per_layer_projection", cfg.per_layer_width, cfg.hidden_size};
  RMSNorm post_per_layer_input_norm{scope / "post_per_layer_input_norm", cfg.hidden_size, cfg.rms_norm_eps};

  Tensor forward(Tensor x, Tensor own_input) const {
    const auto gate = nn::activation(cfg.hidden_act, per_layer_input_gate(x));
    return post_per_layer_input_norm(per_layer_projection(gate * own_input));
  }
};

}  // namespace mobius
