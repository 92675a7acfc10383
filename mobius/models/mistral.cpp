// Mistral (arXiv 2310.06825): Llama whose queries see a sliding window of the last tokens, in every layer. Ministral: in some layers.
//
//   o(p) = Σ softmax(q(p)·k(i) / √d) v(i)   over p − window < i ≤ p
#include "mobius/components/decoder.hpp"
#include "mobius/models/family.hpp"

namespace mobius::models {
namespace mistral {

using Mistral = CausalLM<PreNormLayer<SelfAttention, GatedMLP>>;

DecoderConfig config(const ConfigReader& r) {
  auto c = read_decoder(r, {.intermediate_size = 14336, .num_key_value_heads = 8, .max_position_embeddings = 131072});
  const auto window = r.nullable_size("sliding_window", 4096);
  // The definition takes a mistral that lists its layers for a ministral.
  if (c.model_type == "mistral" && !r.has("layer_types")) set_window(c, window);
  else set_window_by_layer(c, r, window, std::vector<bool>(static_cast<std::size_t>(c.num_hidden_layers), window.has_value()));
  return c;
}

}  // namespace mistral

Family family_mistral() {
  return {.types = {"mistral", "ministral"}, .ignorable = {"*.rotary_emb.inv_freq"}, .build = causal_lm_of<mistral::Mistral>(mistral::config)};
}

}  // namespace mobius::models
