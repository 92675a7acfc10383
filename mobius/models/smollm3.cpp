// SmolLM3 (Hugging Face; transformers modeling_smollm3.py): Llama with layers that have no positions (NoPE, arXiv 2501.18795), every fourth one unless told
// otherwise.
//
//   q, k = rope(x·Wq), rope(x·Wk)   in the others,   x·Wq, x·Wk   in those
#include "mobius/base/error.hpp"
#include "mobius/components/decoder.hpp"
#include "mobius/models/family.hpp"

namespace mobius::models {
namespace smollm3 {

using SmolLM3 = CausalLM<PreNormLayer<RotaryAttention<LayeredConfig>, GatedMLP, LayeredConfig>, LayeredConfig>;

// Whether each layer has positions: a number per layer in no_rope_layers that, despite the key's name, is 0 where it has none.
std::vector<bool> rotated_layers(const DecoderConfig& c, const ConfigReader& r) {
  const auto interval = r.size("no_rope_layer_interval", 4);
  if (!r.has("no_rope_layers")) return all_but_every(interval, c.num_hidden_layers);
  auto stated = r.flags("no_rope_layers");
  if (static_cast<std::int64_t>(stated.size()) < c.num_hidden_layers)
    fail(ErrorKind::invalid_argument, "{}: no_rope_layers has {} entries, expected at least {} (num_hidden_layers)", r.where(), stated.size(),
         c.num_hidden_layers);
  stated.resize(static_cast<std::size_t>(c.num_hidden_layers));
  return stated;
}

LayeredConfig config(const ConfigReader& r) {
  LayeredConfig c{read_decoder(r, {.vocab_size = 128256,
                                   .hidden_size = 2048,
                                   .num_hidden_layers = 36,
                                   .num_attention_heads = 16,
                                   .num_key_value_heads = 4,
                                   .max_position_embeddings = 32768,
                                   .tie_word_embeddings = true,
                                   .rope = {.theta = 2000000}}),
                  {}};
  c.qkv_bias = c.o_bias = r.boolean("attention_bias", false);
  c.mlp_bias = r.boolean("mlp_bias", false);
  const auto rotated = rotated_layers(c, r);
  for (const bool rotates : rotated) c.rope_by_layer.push_back(rotates ? std::optional(c.rope) : std::nullopt);

  // Unless layer_types says otherwise, windows are where positions are not.
  const auto window = r.nullable_size("sliding_window", std::nullopt);
  const bool windows = r.boolean("use_sliding_window", false) && window;
  std::vector<bool> sliding(rotated.size());
  for (std::size_t i = 0; i < sliding.size(); ++i) sliding[i] = windows && !rotated[i];
  set_window_by_layer(c, r, window, sliding);
  return c;
}

}  // namespace smollm3

Family family_smollm3() { return {.types = {"smollm3"}, .build = causal_lm_of<smollm3::SmolLM3>(smollm3::config)}; }

}  // namespace mobius::models
