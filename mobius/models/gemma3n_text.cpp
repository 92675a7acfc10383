// Gemma 3n (Google), its language model: a stream of N states (AltUp, arXiv 2301.13310), of which each layer predicts all, computes one and
// corrects all; a low-rank residual beside attention (LAuReL, arXiv 2411.07501); sparse activations in the first layers.
//
//   P = C(x_a) X + X;   y = layer(P_a);   X' = P + (y − P_a) · (c(y) + 1)ᵀ;   X'_1.. += own input of the layer
//
// X is [B, S, N, hidden_size] here, and its coefficients come from the state they are for, by a small router.
#include "mobius/components/gemma3n.hpp"
#include "mobius/models/family.hpp"

namespace mobius::models {
namespace gemma3n_text {

struct Config : Gemma3nConfig {
  std::int64_t states = 4, active = 0, laurel_rank = 64;
  bool scale_active = true;
  std::vector<std::int64_t> intermediate_sizes = {};
  std::vector<double> sparsity = {};  // the part of each layer's activations that is cut off
};

// The x with Φ(x) = p.
double normal_quantile(double p) {
  double low = -40, high = 40;
  for (int i = 0; i < 200; ++i) {
    const double middle = (low + high) / 2;
    (std::erfc(-middle / std::sqrt(2.0)) / 2 < p ? low : high) = middle;
  }
  return low;
}

struct MLP : Module<MLP, Config> {
  std::size_t layer;
  MLP(Scope s, const Config& c, std::int64_t layer_index) : Module(std::move(s), c), layer(static_cast<std::size_t>(layer_index)) {}

  std::int64_t width = cfg.intermediate_sizes[layer];
  Linear gate_proj{scope / "gate_proj", cfg.hidden_size, width};
  Linear up_proj{scope / "up_proj", cfg.hidden_size, width};
  Linear down_proj{scope / "down_proj", width, cfg.hidden_size};

  Tensor forward(Tensor x) const {
    const auto gate = nn::activation(cfg.hidden_act, largest(gate_proj(x)));
    return down_proj(gate * up_proj(x));
  }

  // What of x exceeds the quantile of a normal distribution with x's mean and deviation.
  Tensor largest(Tensor x) const {
    if (cfg.sparsity[layer] <= 0) return x;
    const auto centred = x - reduce_mean(x, {-1});
    const auto deviation = sqrt(reduce_mean(centred * centred, {-1}));
    return relu(centred - deviation * normal_quantile(cfg.sparsity[layer]));
  }
};

// x + norm(R L x)
struct Laurel : Module<Laurel, Config> {
  using Module::Module;

  Linear linear_left{scope / "linear_left", cfg.hidden_size, cfg.laurel_rank};
  Linear linear_right{scope / "linear_right", cfg.laurel_rank, cfg.hidden_size};
  RMSNorm post_laurel_norm{scope / "post_laurel_norm", cfg.hidden_size, cfg.rms_norm_eps};

  Tensor forward(Tensor x) const { return x + post_laurel_norm(linear_right(linear_left(x))); }
};

Tensor state(Tensor states, std::int64_t i) { return squeeze(slice(states, {i}, {i + 1}, {2}), {2}); }

struct AltUp : Module<AltUp, Config> {
  using Module::Module;

  Linear prediction_coefs{scope / "prediction_coefs", cfg.states, cfg.states* cfg.states};
  Linear correction_coefs{scope / "correction_coefs", cfg.states, cfg.states};
  Linear modality_router{scope / "modality_router", cfg.hidden_size, cfg.states};
  RMSNorm router_norm = scaled_norm();
  Parameter correct_output_scale{scope / "correct_output_scale", {cfg.hidden_size}};

  Tensor predict(Tensor states) const {
    const auto coefficients = reshape(prediction_coefs(modalities(state(states, cfg.active))), {0, 0, cfg.states, cfg.states});
    return matmul(coefficients, states) + states;
  }
  Tensor correct(Tensor predictions, Tensor computed) const {
    const auto innovation = computed - state(predictions, cfg.active);
    const auto coefficients = correction_coefs(modalities(computed)) + 1;
    return unsqueeze(innovation, {2}) * unsqueeze(coefficients, {3}) + predictions;
  }
  Tensor modalities(Tensor x) const { return tanh(modality_router(router_norm(x))); }

  RMSNorm scaled_norm() const {  // its output is divided by hidden_size
    const auto at = scope / "router_norm";
    return {at, Parameter(at / "weight", {cfg.hidden_size}).scaled(1 / static_cast<double>(cfg.hidden_size)), cfg.rms_norm_eps};
  }
};

struct Layer : Module<Layer, Config> {
  std::int64_t layer;
  Layer(Scope s, const Config& c, std::int64_t layer_index) : Module(std::move(s), c), layer(layer_index) {}

  AltUp altup{scope / "altup", cfg};
  Laurel laurel{scope / "laurel", cfg};
  RMSNorm input_layernorm = norm("input_layernorm");
  Gemma3nAttention self_attn{scope / "self_attn", cfg, layer};
  RMSNorm post_attention_layernorm = norm("post_attention_layernorm");
  RMSNorm pre_feedforward_layernorm = norm("pre_feedforward_layernorm");
  MLP mlp{scope / "mlp", cfg, layer};
  RMSNorm post_feedforward_layernorm = norm("post_feedforward_layernorm");
  PerLayerGate per_layer{scope, cfg};
  Parameter all_but_first{"altup.all_but_first", columns_but_first()};

  // states [B, S, N, hidden_size] -> the same
  Tensor forward(Tensor states, Tensor own_input, Decode& at) const {
    const auto predictions = altup.predict(states);
    const auto x = state(predictions, cfg.active);
    const auto normed = input_layernorm(x);
    const auto beside = laurel(normed);
    const auto attended = x + post_attention_layernorm(self_attn(normed, at));
    const auto h = (attended + beside) * (1 / std::sqrt(2.0));
    const auto y = h + post_feedforward_layernorm(mlp(pre_feedforward_layernorm(h)));

    const auto corrected = altup.correct(predictions, y);
    const auto active = state(corrected, cfg.active);
    const auto added = per_layer(cfg.scale_active ? active * altup.correct_output_scale : active, own_input);
    return corrected + unsqueeze(added, {2}) * all_but_first;
  }

  RMSNorm norm(std::string_view name) const { return {scope / name, cfg.hidden_size, cfg.rms_norm_eps}; }
  ir::TensorPtr columns_but_first() const {
    std::vector<double> column(static_cast<std::size_t>(cfg.states), 1.0);
    column[0] = 0;
    return ir::make_tensor_of(scope.dtype(), {cfg.states, 1}, column);
  }
};

struct Gemma3n : Module<Gemma3n, Config> {
  using Module::Module;

  Scope inner = (scope / "model").or_left_out();
  DecoderStack<Layer, Config> model{inner, cfg, scope / "lm_head"};
  PerLayerInputs inputs{inner, cfg};
  std::vector<Linear> altup_projections = projections("altup_projections");
  std::vector<Linear> altup_unembed_projections = projections("altup_unembed_projections");
  Linear lm_head = model.make_head();

  Tensor forward(Tensor input_ids, Decode& at) const {
    const auto x = model.embed_tokens(input_ids) * std::sqrt(static_cast<double>(cfg.hidden_size));
    const auto own_inputs = inputs(x, input_ids);
    auto states = spread(x);
    for (const auto& layer : model.layers) states = layer(states, input_of_layer(own_inputs, layer.layer), at);
    return nn::softcap(lm_head(model.norm(gather_up(states))), cfg.logits_softcap);
  }

  // N states from one: projections of it, with its magnitude.
  Tensor spread(Tensor x) const {
    std::vector<Tensor::Arg> states{unsqueeze(x, {2})};
    for (const auto& project : altup_projections) states.emplace_back(unsqueeze(with_magnitude_of(x, project(x)), {2}));
    return concat<Tensor>(std::move(states), 2);
  }
  // One from N: their mean, projected back, with the first one's magnitude.
  Tensor gather_up(Tensor states) const {
    const auto first = state(states, 0);
    auto sum = first;
    for (std::size_t i = 0; i < altup_unembed_projections.size(); ++i)
      sum = sum + with_magnitude_of(first, altup_unembed_projections[i](state(states, static_cast<std::int64_t>(i) + 1)));
    return sum / static_cast<double>(cfg.states);
  }
  static Tensor with_magnitude_of(Tensor x, Tensor y) {
    const auto wanted = sqrt(reduce_mean(x * x, {-1}));
    return y * wanted / sqrt(maximum(reduce_mean(y * y, {-1}), 1e-5));
  }

  std::vector<Linear> projections(std::string_view name) const {
    std::vector<Linear> out;
    for (std::int64_t i = 0; i + 1 < cfg.states; ++i) out.emplace_back(inner / name / i, cfg.hidden_size, cfg.hidden_size);
    return out;
  }
};

// One size for all layers, or a list with one per layer.
std::vector<std::int64_t> intermediate_sizes(const ConfigReader& r, std::int64_t layers) {
  auto out = r.sizes("intermediate_size", layers, 16384);
  if (static_cast<std::int64_t>(out.size()) != layers)
    r.refuse("intermediate_size", fmt::format("a list of {}", out.size()), fmt::format("one number, or {} of them", layers));
  return out;
}

std::vector<double> sparsity(const ConfigReader& r, std::int64_t layers) {
  std::vector<double> out(static_cast<std::size_t>(layers), 0.0);
  if (!r.has("activation_sparsity_pattern")) {
    if (layers > 10) std::fill_n(out.begin(), 10, 0.95);
    return out;
  }
  out = r.numbers("activation_sparsity_pattern");
  if (out.size() != static_cast<std::size_t>(layers))
    r.refuse("activation_sparsity_pattern", fmt::format("a list of {}", out.size()), fmt::format("one number per layer ({})", layers));
  for (const double part : out)
    if (part >= 1) r.refuse("activation_sparsity_pattern", fmt::format("{}", part), "numbers below 1");
  return out;
}

Config config(const ConfigReader& r) {
  auto common = r.json();
  common.erase("intermediate_size");  // of every layer; read below
  Config c{{read_gemma(r.with(std::move(common)), {.vocab_size = 262400,
                                                   .hidden_size = 2048,
                                                   .num_hidden_layers = 35,
                                                   .num_attention_heads = 8,
                                                   .num_key_value_heads = 2,
                                                   .head_dim = 256,
                                                   .max_position_embeddings = 32768,
                                                   .tie_word_embeddings = true})}};
  const auto layers = c.num_hidden_layers;
  c.logits_softcap = r.nullable_positive("final_logit_softcapping", 30);
  c.intermediate_sizes = intermediate_sizes(r, layers);
  c.sparsity = sparsity(r, layers);
  c.states = r.size("altup_num_inputs", 4);
  c.active = r.count("altup_active_idx", 0);
  if (c.active >= c.states) r.refuse("altup_active_idx", std::to_string(c.active), fmt::format("0 ... {}", c.states - 1));
  c.scale_active = r.boolean("altup_correct_scale", true);
  c.laurel_rank = r.size("laurel_rank", 64);
  c.per_layer_width = r.size("hidden_size_per_layer_input", 256);
  c.per_layer_vocab = r.size("vocab_size_per_layer_input", 262144);

  const auto sliding = sliding_layers(c, r, all_but_every(5, layers));
  set_window_by_layer(c, r, r.size("sliding_window", 512), sliding);
  set_rope_by_kind(c, sliding, read_rope_of_kind(r, "full_attention", c.rope_shape(), {.theta = 1000000}, "rope_theta"),
                   read_rope_of_kind(r, "sliding_attention", c.rope_shape(), {.theta = 10000}, "rope_local_base_freq"));
  c.heads.assign(sliding.size(), {.count = c.num_attention_heads, .kv_count = c.num_key_value_heads, .dim = c.head_dim});
  share_caches(c, r, sliding, r.count("num_kv_shared_layers", 15));
  return c;
}

}  // namespace gemma3n_text

Family family_gemma3n_text() {
  return {.types = {"gemma3n_text"},
          .ignorable = {"*.self_attn.k_proj.*", "*.self_attn.v_proj.*", "*.self_attn.k_norm.*", "*.self_attn.v_norm.*",  // of layers that share
                        "*.altup.correct_output_scale"},  // stored without altup_correct_scale too
          .build = causal_lm_of<gemma3n_text::Gemma3n>(gemma3n_text::config)};
}

}  // namespace mobius::models
