// Apertus (arXiv 2509.14233): Llama with normalised heads, an MLP without a gate, and xIELU (arXiv 2411.13010) with α₊, α₋ per layer:
//
//   xIELU(x) = β·x + α₊·x²                        x > 0
//              β·x + α₋·(exp(min(x, ε)) − 1 − x)   else        α₊ = softplus(alpha_p), α₋ = β + softplus(alpha_n)
#include <cmath>

#include "mobius/components/decoder.hpp"
#include "mobius/models/family.hpp"

namespace mobius::models {
namespace apertus {

double softplus(double x) { return x > 30 ? x : std::log1p(std::exp(x)); }

struct XIELU : Module<XIELU, DecoderConfig> {
  using Module::Module;

  Parameter alpha_p = Parameter((scope / "alpha_p").path(),
                                ir::elementwise({stored("alpha_p", {1})}, scope.dtype(), "softplus", [](std::span<const double> v) { return softplus(v[0]); }));
  Parameter alpha_n =
      Parameter((scope / "alpha_n").path(), ir::elementwise({stored("alpha_n", {1}), stored("beta", {})}, scope.dtype(), "softplus plus another",
                                                            [](std::span<const double> v) { return softplus(v[0]) + v[1]; }));
  Parameter beta{scope / "beta", {}};
  Parameter eps{scope / "eps", {}};

  Tensor forward(Tensor x) const {
    const auto positive = x * x * alpha_p;
    const auto negative = (exp(minimum(x, eps)) - 1 - x) * alpha_n;
    return where(greater(x, 0), positive, negative) + x * beta;
  }

  // In float32 whatever the graph computes in: the functions above round once.
  ir::TensorPtr stored(std::string_view name, ir::Dims dims) const { return Parameter((scope / name).in(ir::DataType::float32), std::move(dims)).data(); }
};

struct MLP : Module<MLP, DecoderConfig> {
  using Module::Module;

  Linear up_proj{scope / "up_proj", cfg.hidden_size, cfg.intermediate_size};
  Linear down_proj{scope / "down_proj", cfg.intermediate_size, cfg.hidden_size};
  XIELU act_fn{scope / "act_fn", cfg};

  Tensor forward(Tensor x) const {
    const auto up = up_proj(x);
    return down_proj(cfg.hidden_act == "xielu" ? act_fn(up) : nn::activation(cfg.hidden_act, up));
  }
};

struct Names : LayerNames {
  static constexpr std::string_view attention_norm = "attention_layernorm", mlp_norm = "feedforward_layernorm";
};

using Apertus = CausalLM<PreNormLayer<HeadNormAttention, MLP, DecoderConfig, RMSNorm, Names>>;

// What the type's configuration uses when config.json has no rope keys; a rope_theta outside of them then counts for nothing.
ConfigReader with_default_rope(const ConfigReader& r) {
  if (r.find("rope_parameters") || !rope_parameters(r).as_object().empty()) return r;
  auto json = r.json();
  json.set("rope_parameters", Json(Json::Object{{"rope_type", "llama3"},
                                                {"rope_theta", 12000000.0},
                                                {"factor", 8.0},
                                                {"original_max_position_embeddings", 8192},
                                                {"low_freq_factor", 1.0},
                                                {"high_freq_factor", 4.0}}));
  return r.with(std::move(json));
}

DecoderConfig config(const ConfigReader& r) {
  auto c = read_decoder(with_default_rope(r), {.vocab_size = 131072,
                                               .intermediate_size = 14336,
                                               .max_position_embeddings = 65536,
                                               .rms_norm_eps = 1e-5,
                                               .hidden_act = "xielu",
                                               .rope = {.theta = 12000000}});
  c.qkv_bias = c.o_bias = r.boolean("attention_bias", false);
  return c;
}

}  // namespace apertus

Family family_apertus() { return {.types = {"apertus"}, .build = causal_lm_of<apertus::Apertus>(apertus::config)}; }

}  // namespace mobius::models
