// Ministral 3 (Mistral AI; transformers modeling_ministral3.py): Mistral with YaRN positions, whose queries grow with the distance from the trained context:
//
//   q ← q · (1 + β · log(1 + ⌊position / N⌋)),   N = original_max_position_embeddings, β = llama_4_scaling_beta
#include "mobius/base/error.hpp"
#include "mobius/components/decoder.hpp"
#include "mobius/models/family.hpp"

namespace mobius::models {
namespace ministral3 {

struct Config : DecoderConfig {
  double llama_4_scaling_beta = 0;
  std::int64_t scaling_length = 0;
};

struct Attention : Module<Attention, Config> {
  std::int64_t layer;
  Attention(Scope s, const Config& c, std::int64_t layer_index) : Module(std::move(s), c), layer(layer_index) {}

  Linear q_proj{scope / "q_proj", cfg.hidden_size, cfg.q_size()};
  Linear k_proj{scope / "k_proj", cfg.hidden_size, cfg.kv_size()};
  Linear v_proj{scope / "v_proj", cfg.hidden_size, cfg.kv_size()};
  Linear o_proj{scope / "o_proj", cfg.q_size(), cfg.hidden_size};

  Tensor forward(Tensor x, Decode& at) const {
    const auto q = at.rope(q_proj(x), cfg.num_attention_heads, cfg.rope);
    const auto k = at.rope(k_proj(x), cfg.num_key_value_heads, cfg.rope);
    return o_proj(at.attend(q * query_scale(at), k, v_proj(x), attention_spec(cfg, layer)));
  }

  Tensor query_scale(const Decode& at) const {  // [B, S, 1]
    const auto periods = floor(cast(at.position_ids(), ir::DataType::float32) / static_cast<double>(cfg.scaling_length));
    const auto scale = log(periods + 1) * cfg.llama_4_scaling_beta + 1;
    return unsqueeze(cfg.dtype == ir::DataType::float32 ? scale : cast(scale, cfg.dtype), {2});
  }
};

using Ministral3 = CausalLM<PreNormLayer<Attention, GatedMLP, Config>, Config>;

// What the type's configuration uses when config.json has no rope keys at all.
ConfigReader with_default_rope(const ConfigReader& r) {
  if (!rope_parameters(r).as_object().empty()) return r;
  auto json = r.json();
  json.set("rope_parameters", Json(Json::Object{{"rope_type", "yarn"},
                                                {"rope_theta", 1000000.0},
                                                {"factor", 16.0},
                                                {"original_max_position_embeddings", 16384},
                                                {"beta_fast", 32.0},
                                                {"beta_slow", 1.0},
                                                {"mscale_all_dim", 1.0},
                                                {"mscale", 1.0},
                                                {"llama_4_scaling_beta", 0.1}}));
  return r.with(std::move(json));
}

Config config(const ConfigReader& given) {
  const auto r = with_default_rope(given);
  Config c{read_decoder(r, {.vocab_size = 131072,
                            .intermediate_size = 14336,
                            .num_hidden_layers = 34,
                            .num_key_value_heads = 8,
                            .head_dim = 128,
                            .max_position_embeddings = 262144,
                            .rms_norm_eps = 1e-5})};
  set_window(c, r.nullable_size("sliding_window", std::nullopt));
  const ConfigReader rope(rope_parameters(r), r.where() + ": rope_parameters");
  if (!rope.has("llama_4_scaling_beta")) fail(ErrorKind::not_found, "{}: llama_4_scaling_beta is missing", rope.where());
  c.llama_4_scaling_beta = rope.number("llama_4_scaling_beta", 0);
  // Only kinds that scale have a trained length among their facts, which a key at the top level may override.
  const auto trained = c.rope.original_max_position_embeddings;
  c.scaling_length = trained != 0 ? trained : rope.size("original_max_position_embeddings", c.max_position_embeddings);
  return c;
}

}  // namespace ministral3

Family family_ministral3() { return {.types = {"ministral3"}, .build = causal_lm_of<ministral3::Ministral3>(ministral3::config)}; }

}  // namespace mobius::models
