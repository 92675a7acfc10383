// GPT-Neo (EleutherAI 2021; transformers modeling_gpt_neo.py): GPT-2 with separate projections, attention that is not scaled, and a window in the layers
// that are "local".
//
//   score(query, key) = q · k,   not divided by √d
#include "mobius/base/error.hpp"
#include "mobius/components/layer_norm_decoder.hpp"
#include "mobius/models/family.hpp"

namespace mobius::models {
namespace gpt_neo {

struct Attention : AttentionProjections<Attention> {
  Attention(const Scope& s, const DecoderConfig& c, std::int64_t layer_index) : AttentionProjections(s / "attention", c, layer_index, {.o = "out_proj"}) {}

  Tensor forward(Tensor x, Decode& at) const {
    auto spec = attention_spec(cfg, layer);
    spec.scale = 1;
    const auto q = q_proj(x), k = k_proj(x);
    return o_proj(at.attend(q, k, v_proj(x), spec));
  }
};

using Layer = PreNormLayer<Attention, GptFeedForward, DecoderConfig, LayerNorm, GptLayerNames>;

struct GPTNeo : Module<GPTNeo, DecoderConfig> {
  using Module::Module;

  GptStack<Layer, DecoderConfig> body{scope, cfg};
  Linear lm_head = vocabulary_head(body.head, cfg, body.wte);

  Tensor forward(Tensor input_ids, Decode& at) const { return lm_head(body(input_ids, at)); }
};

// "attention_layers" says it layer by layer, and wins. "attention_types": [[["global", "local"], 12]], from which the original derives it, says each kind in
// turn, twelve times. Neither: by turns.
std::vector<std::string> kinds(const ConfigReader& r, std::int64_t layers) {
  if (const auto stated = r.texts("attention_layers")) return *stated;
  std::vector<std::string> out;
  const auto* types = r.find("attention_types");
  if (!types) {
    for (std::int64_t i = 0; i < layers; ++i) out.emplace_back(i % 2 == 0 ? "global" : "local");
    return out;
  }
  const auto refuse = [&] { r.refuse("attention_types", types->dump(), R"(a list like [[["global", "local"], 12]])"); };
  if (!types->is_array()) refuse();
  for (const auto& item : types->as_array()) {
    if (!item.is_array() || item.as_array().size() != 2 || !item.as_array()[0].is_array() || !item.as_array()[1].is_int()) refuse();
    const auto times = item.as_array()[1].as_int();
    for (std::int64_t i = 0; i < times && static_cast<std::int64_t>(out.size()) <= layers; ++i)
      for (const auto& kind : item.as_array()[0].as_array()) {
        if (!kind.is_string()) refuse();
        out.push_back(kind.as_string());
      }
  }
  return out;
}

DecoderConfig config(const ConfigReader& r) {
  auto c = read_decoder_without_rope(r, {.vocab_size = 50257,
                                         .hidden_size = 2048,
                                         .intermediate_size = {},
                                         .num_hidden_layers = 24,
                                         .num_attention_heads = 16,
                                         .max_position_embeddings = 2048,
                                         .rms_norm_eps = 1e-5,
                                         .hidden_act = "gelu_new",
                                         .tie_word_embeddings = true,
                                         .own_names = {{"num_hidden_layers", "num_layers"},
                                                       {"num_attention_heads", "num_heads"},
                                                       {"hidden_act", "activation_function"},
                                                       {"rms_norm_eps", "layer_norm_epsilon"}}});
  c.intermediate_size = r.optional_size("intermediate_size").value_or(4 * c.hidden_size);
  c.o_bias = c.mlp_bias = true;

  const auto window = r.size("window_size", 256);
  const auto kind = kinds(r, c.num_hidden_layers);
  if (static_cast<std::int64_t>(kind.size()) != c.num_hidden_layers)
    r.refuse("attention_types", fmt::format("for {} layers", kind.size()), fmt::format("as many kinds as num_layers, {}", c.num_hidden_layers));
  for (const auto& k : kind) {
    if (k != "global" && k != "local") r.unsupported(fmt::format("attention_types has '{}'; known: global, local", k));
    c.sliding_window.push_back(k == "local" ? std::optional(window) : std::nullopt);
  }
  return c;
}

}  // namespace gpt_neo

Family family_gpt_neo() {
  return {.types = {"gpt_neo"}, .ignorable = {"*.attention.bias", "*.attention.masked_bias"}, .build = causal_lm_of<gpt_neo::GPTNeo>(gpt_neo::config)};
}

}  // namespace mobius::models
