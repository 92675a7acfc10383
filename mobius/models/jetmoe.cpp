// JetMoe (arXiv 2404.07413): experts in place of the MLP, and in attention too: each token's queries are made by k experts, which share the keys and values,
// and whose results go through their own output matrices.
//
//   qⱼ = x·Wq[eⱼ];   oⱼ = Attention(qⱼ, x·Wk, x·Wv);   y = Σ softmax(top-k(x·Wg))ⱼ · oⱼ·Wo[eⱼ] + b
#include "mobius/components/granite.hpp"
#include "mobius/models/family.hpp"

namespace mobius::models {
namespace jetmoe {

struct Attention : Module<Attention, MoeConfig> {
  std::int64_t layer;
  Attention(Scope s, const MoeConfig& c, std::int64_t layer_index) : Module(std::move(s), c), layer(layer_index) {}

  Parameter kv_proj{scope / "kv_proj" / "weight", {2 * cfg.kv_size(), cfg.hidden_size}};
  Linear k_proj = part("k_proj", 0), v_proj = part("v_proj", cfg.kv_size());
  Scope at_experts = scope / "experts";
  Linear router{at_experts / "router" / "layer", cfg.hidden_size, cfg.num_experts};
  Parameter input = stack("input_linear", cfg.kv_size(), cfg.hidden_size), output = stack("output_linear", cfg.hidden_size, cfg.kv_size());
  Parameter bias{at_experts / "bias", {cfg.hidden_size}};

  Tensor forward(Tensor x, Decode& at) const {
    const auto tokens = reshape(x, {-1, cfg.hidden_size});
    const Dispatch to(choose_then_soften(router(tokens), cfg.experts_per_token), cfg.num_experts);
    const auto queries = by_key_head(to.choices(to.linear(to.group(tokens), input)), x);

    const auto q = at.rope(queries, cfg.num_attention_heads, cfg.rope);
    const auto k = at.rope(k_proj(x), cfg.num_key_value_heads, cfg.rope);
    const auto attended = by_choice(at.attend(q, k, v_proj(x), attention_spec(cfg, layer)));
    const auto y = to.combine(to.choices(to.linear(to.group_choices(attended), output)));
    return reshape(y, shape(x)) + bias;
  }

  // Each choice has one query head for each key head. Attention wants those of a key head side by side: [tokens, k, heads·dim] -> [B, S, heads·k·dim], and
  // back.
  Tensor by_key_head(Tensor choices, Tensor x) const {
    const auto heads = transpose(reshape(choices, {0, cfg.experts_per_token, cfg.num_key_value_heads, cfg.head_dim}), {0, 2, 1, 3});
    return reshape(heads, concat<Tensor>({shape(x, 0, 2), std::vector<std::int64_t>{cfg.q_size()}}, 0));
  }
  Tensor by_choice(Tensor y) const {
    const auto heads = transpose(reshape(y, {-1, cfg.num_key_value_heads, cfg.experts_per_token, cfg.head_dim}), {0, 2, 1, 3});
    return reshape(heads, {0, cfg.experts_per_token, cfg.kv_size()});
  }

  Linear part(std::string_view name, std::int64_t first) const {
    return {scope / name, kv_proj.rows((scope / name / "weight").path(), first, first + cfg.kv_size())};
  }
  Parameter stack(std::string_view name, std::int64_t out, std::int64_t in) const {
    const auto path = at_experts / name / "weight";
    return turned(Parameter(path, {cfg.num_experts, out, in}), path.path());
  }
};

struct SparseMLP : Module<SparseMLP, MoeConfig> {
  using Module::Module;

  Linear router{scope / "router" / "layer", cfg.hidden_size, cfg.num_experts};
  GatedExperts experts = stacked_experts(scope, cfg);
  Parameter bias{scope / "bias", {cfg.hidden_size}};

  Tensor forward(Tensor x) const {
    const auto routed =
        over_tokens(x, cfg.hidden_size, [&](Tensor tokens) { return experts(tokens, choose_then_soften(router(tokens), cfg.experts_per_token)); });
    return routed + bias;
  }
};

constexpr double layer_eps = 1e-6;  // the layers' norms don't follow the config's ε; the last one does

struct Layer : Module<Layer, MoeConfig> {
  std::int64_t layer;
  Layer(Scope s, const MoeConfig& c, std::int64_t layer_index) : Module(std::move(s), c), layer(layer_index) {}

  RMSNorm input_layernorm{scope / "input_layernorm", cfg.hidden_size, layer_eps};
  Attention self_attention{scope / "self_attention", cfg, layer};
  RMSNorm post_attention_layernorm{scope / "post_attention_layernorm", cfg.hidden_size, layer_eps};
  SparseMLP mlp{scope / "mlp", cfg};

  Tensor forward(Tensor x, Decode& at) const {
    const auto h = x + self_attention(input_layernorm(x), at);
    return h + mlp(post_attention_layernorm(h));
  }
};

using JetMoe = CausalLM<Layer, MoeConfig>;

// Query heads are not the config's to say: each chosen expert has as many as there are key heads. Their size has a name of its own.
ConfigReader with_query_heads(const ConfigReader& r) {
  auto json = r.json();
  json.set("head_dim", Json(r.size("kv_channels", r.size("head_dim", 128))));
  json.set("num_attention_heads", Json(r.size("num_key_value_heads", 16) * r.size("num_experts_per_tok", 2)));
  return r.with(std::move(json));
}

MoeConfig config(const ConfigReader& given) {
  const auto r = with_query_heads(given);
  MoeConfig c{read_decoder(r, {.hidden_size = 2048,
                               .intermediate_size = 5632,
                               .num_hidden_layers = 12,
                               .num_key_value_heads = 16,
                               .max_position_embeddings = 4096,
                               .tie_word_embeddings = true,
                               .own_names = {{"hidden_act", "activation_function"}}})};
  c.num_experts = r.size("num_local_experts", 8);
  c.experts_per_token = r.size("num_experts_per_tok", 2);
  c.expert_size = c.intermediate_size;
  check_experts(c, r);
  return c;
}

}  // namespace jetmoe

Family family_jetmoe() { return {.types = {"jetmoe"}, .build = causal_lm_of<jetmoe::JetMoe>(jetmoe::config)}; }

}  // namespace mobius::models
