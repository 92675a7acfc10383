// Llama 4, its text decoder (Meta; transformers modeling_llama4.py): most layers attend within chunks and rotate, the others see everything and have no
// positions; those sharpen their scores with the length. Some or all layers have experts: few are chosen, by the sigmoid of their logits, which scales what
// goes in; one is shared.
//
//   y = Σ Eᵢ(σ(lᵢ) · x) + E(x),   l the k largest of x·Wg
//   with positions      q, k ← L2(rope(q)), L2(rope(k))
//   without             q ← q · (1 + a · ln(1 + ⌊(position + 1) / N⌋)),   a = attn_scale, N = floor_scale
#include <fmt/format.h>

#include "mobius/components/moe_layer.hpp"
#include "mobius/models/family.hpp"

namespace mobius::models {
namespace llama4_text {

struct Config : MoeConfig {
  std::int64_t dense_size = 0;  // the width of the MLP in layers without experts
  std::vector<bool> has_positions = {};
  std::vector<std::optional<std::int64_t>> chunk = {};
  bool normalises_heads = true, tunes_temperature = true;
  double attn_scale = 0.1, floor_scale = 8192;
};

struct Attention : AttentionProjections<Attention, Config> {
  using AttentionProjections::AttentionProjections;

  nn::UnweightedRMSNorm qk_norm{scope / "qk_norm", cfg.head_dim, cfg.rms_norm_eps};

  Tensor forward(Tensor x, Decode& at) const {
    const auto i = static_cast<std::size_t>(layer);
    auto q = q_proj(x), k = k_proj(x);
    if (cfg.has_positions[i]) {
      q = turned_and_normalised(at, q, cfg.num_attention_heads);
      k = turned_and_normalised(at, k, cfg.num_key_value_heads);
    } else if (cfg.tunes_temperature) {
      q = q * query_scale(at);
    }
    auto spec = attention_spec(cfg, layer);
    spec.chunk = cfg.chunk[i];
    return o_proj(at.attend(q, k, v_proj(x), spec));
  }

  Tensor turned_and_normalised(Decode& at, Tensor x, std::int64_t heads) const {
    const auto turned = at.rope(x, heads, cfg.rope);
    return cfg.normalises_heads ? per_head(qk_norm, turned, heads) : turned;
  }

  Tensor query_scale(const Decode& at) const {  // [B, S, 1]
    const auto periods = floor((cast(at.position_ids(), ir::DataType::float32) + 1) / cfg.floor_scale);
    const auto scale = log(periods + 1) * cfg.attn_scale + 1;
    return unsqueeze(cfg.dtype == ir::DataType::float32 ? scale : cast(scale, cfg.dtype), {2});
  }
};

struct Experts : Module<Experts, Config> {
  using Module::Module;

  Linear router{scope / "router", cfg.hidden_size, cfg.num_experts};
  // Stored as they are multiplied, gate and up side by side.
  Parameter gate_up{scope / "experts" / "gate_up_proj", {cfg.num_experts, cfg.hidden_size, 2 * cfg.expert_size}};
  Parameter gate = half("gate_proj", 0), up = half("up_proj", cfg.expert_size);
  Parameter down{scope / "experts" / "down_proj", {cfg.num_experts, cfg.expert_size, cfg.hidden_size}};
  SharedExpert shared_expert{scope / "shared_expert", cfg, cfg.expert_size};

  Tensor forward(Tensor x) const {
    const auto routed = over_tokens(x, cfg.hidden_size, [&](Tensor tokens) { return experts(tokens); });
    return routed + shared_expert(x);
  }

  Tensor experts(Tensor tokens) const {
    const auto routing = choose(router(tokens), cfg.experts_per_token);
    const Dispatch to(routing, cfg.num_experts);
    const auto scores = sigmoid(in_float32(routing.weights));
    const auto share = scores.dtype() == tokens.dtype() ? scores : cast(scores, tokens.dtype());
    const auto in = to.group_choices(unsqueeze(tokens, {1}) * unsqueeze(share, {2}));
    const auto opened = nn::activation(cfg.hidden_act, to.linear(in, gate));
    return reduce_sum(to.choices(to.linear(opened * to.linear(in, up), down)), {1}, 0);
  }

  Parameter half(std::string_view name, std::int64_t first) const {
    return {(scope / "experts" / name).path(), ir::slice(gate_up.data(), 2, first, first + cfg.expert_size)};
  }
};

struct DenseMLP : SharedExpert {
  DenseMLP(const Scope& s, const Config& c) : SharedExpert(s, c, c.dense_size) {}
};

struct Layer : Module<Layer, Config> {
  std::int64_t layer;
  Layer(Scope s, const Config& c, std::int64_t layer_index) : Module(std::move(s), c), layer(layer_index) {}

  RMSNorm input_layernorm{scope / "input_layernorm", cfg.hidden_size, cfg.rms_norm_eps};
  Attention self_attn{scope / "self_attn", cfg, layer};
  RMSNorm post_attention_layernorm{scope / "post_attention_layernorm", cfg.hidden_size, cfg.rms_norm_eps};
  DenseOrSparse<Experts, DenseMLP> feed_forward{scope / "feed_forward", cfg, layer};

  Tensor forward(Tensor x, Decode& at) const {
    const auto h = x + self_attn(input_layernorm(x), at);
    return h + feed_forward(post_attention_layernorm(h));
  }
};

using Llama4 = CausalLM<Layer, Config>;

// The list's numbers, one per layer; `otherwise` when there is none. An empty one counts as none.
std::vector<bool> positions_by_layer(const ConfigReader& r, std::int64_t layers) {
  const auto period = r.size("no_rope_layer_interval", 4);
  const auto stated = r.flags("no_rope_layers");  // 1 where there are positions
  if (!stated.empty() && static_cast<std::int64_t>(stated.size()) != layers)
    r.refuse("no_rope_layers", fmt::format("a list of {}", stated.size()), fmt::format("{} entries (num_hidden_layers)", layers));
  std::vector<bool> out(static_cast<std::size_t>(layers));
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = stated.empty() ? (static_cast<std::int64_t>(i) + 1) % period != 0 : stated[i];
  return out;
}

std::vector<bool> expert_layers(const ConfigReader& r, std::int64_t layers) {
  const auto step = r.size("interleave_moe_layer_step", 1);
  if (r.has("moe_layers")) return r.places("moe_layers", layers);
  std::vector<bool> out(static_cast<std::size_t>(layers));
  for (std::int64_t i = step - 1; i < layers; i += step) out[static_cast<std::size_t>(i)] = true;
  return out;
}

// Layers with positions attend within chunks, unless layer_types says otherwise.
void set_chunks(Config& c, const ConfigReader& r) {
  const auto chunk = r.nullable_size("attention_chunk_size", 8192);
  const auto kinds = r.texts("layer_types");
  c.chunk.assign(c.has_positions.size(), std::nullopt);
  if (kinds && kinds->size() != c.chunk.size())
    r.refuse("layer_types", fmt::format("a list of {}", kinds->size()), fmt::format("{} entries (num_hidden_layers)", c.chunk.size()));
  for (std::size_t i = 0; i < c.chunk.size(); ++i) {
    if (kinds && (*kinds)[i] != "chunked_attention" && (*kinds)[i] != "full_attention")
      r.unsupported(fmt::format("layer_types[{}] = '{}' is not supported; known: chunked_attention, full_attention", i, (*kinds)[i]));
    const bool chunked = kinds ? (*kinds)[i] == "chunked_attention" : c.has_positions[i] && chunk;
    if (chunked && !chunk) r.refuse("attention_chunk_size", "missing", "a positive integer, since layer_types has chunked_attention layers");
    if (chunked) c.chunk[i] = chunk;
  }
}

Config config(const ConfigReader& r) {
  Config c{{read_decoder(r, {.vocab_size = 202048,
                             .hidden_size = 5120,
                             .intermediate_size = 8192,
                             .num_hidden_layers = 48,
                             .num_attention_heads = 40,
                             .num_key_value_heads = 8,
                             .head_dim = 128,
                             .max_position_embeddings = 131072,
                             .rms_norm_eps = 1e-5,
                             .rope = {.theta = 500000, .interleaved = true}})}};
  c.qkv_bias = c.o_bias = r.boolean("attention_bias", false);
  c.normalises_heads = r.boolean("use_qk_norm", true);
  // The first files have a number there: 4 for yes.
  const auto* tuning = r.find("attn_temperature_tuning");
  c.tunes_temperature = tuning && tuning->is_int() ? tuning->as_int() != 0 : r.boolean("attn_temperature_tuning", true);
  c.attn_scale = r.number("attn_scale", 0.1);
  c.floor_scale = r.positive("floor_scale", 8192);
  c.has_positions = positions_by_layer(r, c.num_hidden_layers);
  set_chunks(c, r);
  c.num_experts = r.size("num_local_experts", 16);
  c.experts_per_token = r.size("num_experts_per_tok", 1);
  c.expert_size = c.intermediate_size;
  c.dense_size = r.size("intermediate_size_mlp", 16384);
  c.sparse = expert_layers(r, c.num_hidden_layers);
  check_experts(c, r);
  return c;
}

}  // namespace llama4_text

Family family_llama4_text() { return {.types = {"llama4_text"}, .build = causal_lm_of<llama4_text::Llama4>(llama4_text::config)}; }

}  // namespace mobius::models
