// Gemma 4 (Google; transformers modeling_gemma4.py), its language model: Gemma 3 with unscaled scores and normalised values, wider heads in the layers that
// see everything, rope that turns a quarter of each head there, a learned scale per layer; optionally shared caches, inputs of the layers' own, and experts
// beside the MLP.
//
//   h = x + norm(Attention(norm(x)));   y = s · (h + norm(MLP(norm(h))))
//   with experts: norm(MLP(norm(h))) + norm(Σ wᵢ · Eᵢ(norm(h))) inside the last norm,   w = c ⊙ the k best of softmax(W · norm(h)), summing to 1
#include "mobius/components/experts.hpp"
#include "mobius/components/gemma3n.hpp"
#include "mobius/models/family.hpp"

namespace mobius::models {
namespace gemma4_text {

struct Config : Gemma3nConfig {
  bool double_wide = false;                                              // MLPs of layers that share a cache have twice the width
  std::int64_t num_experts = 0, experts_per_token = 0, expert_size = 0;  // 0: there are none
};

struct MLP : Module<MLP, Config> {
  std::size_t layer;
  MLP(Scope s, const Config& c, std::int64_t layer_index) : Module(std::move(s), c), layer(static_cast<std::size_t>(layer_index)) {}

  std::int64_t width = cfg.double_wide && cfg.heads[layer].shared_cache ? 2 * cfg.intermediate_size : cfg.intermediate_size;
  Linear gate_proj{scope / "gate_proj", cfg.hidden_size, width};
  Linear up_proj{scope / "up_proj", cfg.hidden_size, width};
  Linear down_proj{scope / "down_proj", width, cfg.hidden_size};

  Tensor forward(Tensor x) const {
    const auto gate = nn::activation(cfg.hidden_act, gate_proj(x));
    return down_proj(gate * up_proj(x));
  }
};

struct Router : Module<Router, Config> {
  using Module::Module;

  RMSNorm norm{scope / "norm", Parameter(scope / "scale", {cfg.hidden_size}).scaled(1 / std::sqrt(static_cast<double>(cfg.hidden_size))), cfg.rms_norm_eps};
  Linear proj{scope / "proj", cfg.hidden_size, cfg.num_experts};
  Parameter per_expert_scale{(scope / "per_expert_scale").in(ir::DataType::float32), {cfg.num_experts}};

  Tensor forward(Tensor tokens) const { return softmax(in_float32(proj(norm(tokens))), -1); }

  Routing choices(Tensor tokens) const {
    const auto best = normalised(choose((*this)(tokens), cfg.experts_per_token));
    return {best.weights * gather(tokens.with(per_expert_scale), best.experts), best.experts};
  }
};

// What stands beside the MLP. The scope is the layer's.
struct Sparse : Module<Sparse, Config> {
  using Module::Module;

  Router router{scope / "router", cfg};
  RMSNorm pre_feedforward_layernorm_2{scope / "pre_feedforward_layernorm_2", cfg.hidden_size, cfg.rms_norm_eps};
  GatedExperts experts = stored_experts();
  RMSNorm post_feedforward_layernorm_1{scope / "post_feedforward_layernorm_1", cfg.hidden_size, cfg.rms_norm_eps};
  RMSNorm post_feedforward_layernorm_2{scope / "post_feedforward_layernorm_2", cfg.hidden_size, cfg.rms_norm_eps};

  Tensor forward(Tensor h, Tensor dense) const {
    const auto tokens = reshape(h, {-1, cfg.hidden_size});
    const auto chosen = experts(pre_feedforward_layernorm_2(tokens), router.choices(tokens));
    return post_feedforward_layernorm_1(dense) + reshape(post_feedforward_layernorm_2(chosen), shape(h));
  }

  GatedExperts stored_experts() const {
    const auto at = scope / "experts";
    const auto n = cfg.expert_size;
    const Parameter gate_up(at / "gate_up_proj", {cfg.num_experts, 2 * n, cfg.hidden_size});
    const Parameter down(at / "down_proj", {cfg.num_experts, cfg.hidden_size, n});
    const auto name = [&](std::string_view part) { return (at / part / "weight").path(); };
    return {at,
            cfg.num_experts,
            cfg.hidden_act,
            {turned_rows(gate_up, name("gate_proj"), 0, n)},
            {turned_rows(gate_up, name("up_proj"), n, 2 * n)},
            {turned(down, name("down_proj"))}};
  }
};

struct Layer : Module<Layer, Config> {
  std::int64_t layer;
  Layer(Scope s, const Config& c, std::int64_t layer_index) : Module(std::move(s), c), layer(layer_index) {}

  RMSNorm input_layernorm = norm("input_layernorm");
  Gemma3nAttention self_attn{scope / "self_attn", cfg, layer};
  RMSNorm post_attention_layernorm = norm("post_attention_layernorm");
  RMSNorm pre_feedforward_layernorm = norm("pre_feedforward_layernorm");
  MLP mlp{scope / "mlp", cfg, layer};
  std::optional<Sparse> sparse = cfg.num_experts > 0 ? std::optional(Sparse(scope, cfg)) : std::nullopt;
  RMSNorm post_feedforward_layernorm = norm("post_feedforward_layernorm");
  std::optional<PerLayerGate> per_layer = cfg.per_layer_width > 0 ? std::optional(PerLayerGate(scope, cfg)) : std::nullopt;
  Parameter layer_scalar{scope / "layer_scalar", {1}};

  Tensor forward(Tensor x, const std::optional<Tensor>& own_input, Decode& at) const {
    const auto h = x + post_attention_layernorm(self_attn(input_layernorm(x), at));
    const auto dense = mlp(pre_feedforward_layernorm(h));
    const auto y = h + post_feedforward_layernorm(sparse ? (*sparse)(h, dense) : dense);
    return (own_input ? y + (*per_layer)(y, *own_input) : y) * layer_scalar;
  }

  RMSNorm norm(std::string_view name) const { return {scope / name, cfg.hidden_size, cfg.rms_norm_eps}; }
};

struct Gemma4 : Module<Gemma4, Config> {
  using Module::Module;

  Scope inner = (scope / "model").or_left_out();
  DecoderStack<Layer, Config> model{inner, cfg, scope / "lm_head"};
  std::optional<PerLayerInputs> inputs = cfg.per_layer_width > 0 ? std::optional(PerLayerInputs(inner, cfg)) : std::nullopt;
  Linear lm_head = model.make_head();

  Tensor forward(Tensor input_ids, Decode& at) const {
    auto x = model.embed_tokens(input_ids) * std::sqrt(static_cast<double>(cfg.hidden_size));
    const auto own_inputs = inputs ? std::optional((*inputs)(x, input_ids)) : std::nullopt;
    for (const auto& layer : model.layers) x = layer(x, own_inputs ? std::optional(input_of_layer(*own_inputs, layer.layer)) : std::nullopt, at);
    return nn::softcap(lm_head(model.norm(x)), cfg.logits_softcap);
  }
};

// Heads that differ from the common ones: per_layer_config has an object for each layer that differs. Older files, and those that say
// nothing, have one head size, and with shared keys and values one number of key heads, for all layers with full attention.
void read_heads(Config& c, const ConfigReader& r, const std::vector<bool>& sliding) {
  const bool values_are_keys = r.boolean("attention_k_eq_v", false);
  const auto global_dim = r.size("global_head_dim", 512);
  const auto global_kv = values_are_keys ? r.nullable_size("num_global_key_value_heads", std::nullopt) : std::nullopt;
  const bool listed = r.json().find("per_layer_config") != nullptr;
  for (const bool slides : sliding) {
    Gemma3nConfig::Heads heads{.count = c.num_attention_heads, .kv_count = c.num_key_value_heads, .dim = c.head_dim};
    if (!slides) heads.values_are_keys = values_are_keys;
    if (!slides && !listed) heads.dim = global_dim, heads.kv_count = global_kv.value_or(heads.kv_count);
    c.heads.push_back(heads);
  }
  if (!r.has("per_layer_config")) return;
  const auto layers = r.nested("per_layer_config");
  for (const auto& [key, value] : layers.json().as_object()) {
    const bool number = !key.empty() && key.size() < 6 && key.find_first_not_of("0123456789") == std::string::npos;
    const auto i = number ? std::stoul(key) : sliding.size();
    if (i >= sliding.size()) r.refuse("per_layer_config", "'" + key + "'", fmt::format("layers 0 ... {}", sliding.size() - 1));
    const auto own = layers.nested(key);
    c.heads[i].dim = own.size("head_dim", c.heads[i].dim);
    c.heads[i].kv_count = own.size("num_key_value_heads", c.heads[i].kv_count);
    for (const auto& other : own.unread_keys()) own.unsupported(fmt::format("'{}' differs by layer, which is not supported", other));
  }
}

// The head size of the layers of one kind, which have to agree; without such layers: any.
std::int64_t head_dim_of(const Config& c, const ConfigReader& r, const std::vector<bool>& sliding, bool slides) {
  const Gemma3nConfig::Heads* first = nullptr;
  for (std::size_t i = 0; i < sliding.size(); ++i) {
    if (sliding[i] != slides) continue;
    if (!first) first = &c.heads[i];
    const bool same = first->dim == c.heads[i].dim && first->kv_count == c.heads[i].kv_count;
    if (!same) r.unsupported(fmt::format("layer {} has other heads than the layers of its kind before it", i));
    if (c.heads[i].count % c.heads[i].kv_count != 0)
      r.refuse("num_key_value_heads", std::to_string(c.heads[i].kv_count), fmt::format("a divisor of num_attention_heads = {}", c.heads[i].count));
  }
  return first ? first->dim : c.head_dim;
}

void read_ropes(Config& c, const ConfigReader& r, const std::vector<bool>& sliding) {
  auto json = r.json();
  if (!r.has("rope_parameters"))
    json.set("rope_parameters", Json(Json::Object{{"full_attention", Json(Json::Object{{"rope_type", "proportional"}, {"partial_rotary_factor", 0.25}})}}));
  json.erase("rope_scaling");  // the definition doesn't look at it
  const auto with_defaults = r.with(std::move(json));
  const auto rope = [&](std::string_view kind, double theta, bool slides) {
    return read_rope_of_kind(with_defaults, kind, {.head_dim = head_dim_of(c, r, sliding, slides), .max_position_embeddings = c.max_position_embeddings},
                             {.theta = theta});
  };
  set_rope_by_kind(c, sliding, rope("full_attention", 1000000, false), rope("sliding_attention", 10000, true));
}

void read_experts(Config& c, const ConfigReader& r) {
  if (!r.boolean("enable_moe_block", false)) return;
  c.num_experts = r.size("num_experts");
  c.experts_per_token = r.size("top_k_experts");
  c.expert_size = r.size("moe_intermediate_size");
  if (c.experts_per_token > c.num_experts)
    r.refuse("top_k_experts", std::to_string(c.experts_per_token), fmt::format("at most num_experts = {}", c.num_experts));
}

void read_own_inputs(Config& c, const ConfigReader& r) {
  c.per_layer_width = r.count("hidden_size_per_layer_input", 256);
  c.per_layer_vocab = r.size("vocab_size_per_layer_input", 262144);
}

Config config(const ConfigReader& r) {
  if (r.has("use_bidirectional_attention") && r.text("use_bidirectional_attention", "") != "vision")
    r.unsupported("use_bidirectional_attention = 'all' is not supported");
  auto common = r.json();
  common.erase("use_bidirectional_attention");  // "vision" is about images alone
  const bool unified = r.model_type() == "gemma4_unified_text";
  Config c{{read_gemma(r.with(std::move(common)), {.vocab_size = 262144,
                                                   .hidden_size = 2304,
                                                   .intermediate_size = 9216,
                                                   .num_hidden_layers = 30,
                                                   .num_attention_heads = 8,
                                                   .num_key_value_heads = 4,
                                                   .head_dim = 256,
                                                   .max_position_embeddings = unified ? 262144 : 131072,
                                                   .tie_word_embeddings = true})}};
  c.logits_softcap = r.nullable_positive("final_logit_softcapping", std::nullopt);
  c.double_wide = r.boolean("use_double_wide_mlp", false);
  if (!unified) {  // which has neither
    read_experts(c, r);
    read_own_inputs(c, r);
  }

  auto sliding = sliding_layers(c, r, all_but_every(6, c.num_hidden_layers));
  sliding.back() = false;  // whatever the file says
  const auto window = r.size("sliding_window", unified ? 1024 : 512);
  for (const bool slides : sliding) c.sliding_window.push_back(slides ? std::optional(window) : std::nullopt);
  read_heads(c, r, sliding);
  read_ropes(c, r, sliding);
  share_caches(c, r, sliding, r.count("num_kv_shared_layers", 0));
  return c;
}

}  // namespace gemma4_text

Family family_gemma4_text() {
  return {.types = {"gemma4_text", "gemma4_unified_text"},
          .ignorable = {"*.self_attn.k_proj.*", "*.self_attn.v_proj.*", "*.self_attn.k_norm.*", "*.self_attn.v_norm.*"},  // of layers that share
          .build = causal_lm_of<gemma4_text::Gemma4>(gemma4_text::config)};
}

}  // namespace mobius::models
