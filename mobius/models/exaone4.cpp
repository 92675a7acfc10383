// EXAONE 4 (arXiv 2507.11407): normalises what attention and MLP give, and the heads; where some layers have a sliding window, the others
// have no positions.
//
//   h = x + RMSNorm(Attention(x));   y = h + RMSNorm(SwiGLU(h));   q, k = rope(RMSNorm(x·Wq)), rope(RMSNorm(x·Wk))
#include "mobius/base/error.hpp"
#include "mobius/components/decoder.hpp"
#include "mobius/models/family.hpp"

namespace mobius::models {
namespace exaone4 {

using Exaone4 = CausalLM<PostNormLayer<NormedHeadAttention<LayeredConfig>, GatedMLP, LayeredConfig>, LayeredConfig>;

LayeredConfig config(const ConfigReader& r) {
  LayeredConfig c{read_decoder(r, {.vocab_size = 102400, .intermediate_size = 16384, .num_key_value_heads = 32, .rms_norm_eps = 1e-5}), {}};
  const auto window = r.nullable_size("sliding_window", 4096);
  // Files that spell the pattern as text ("LLLG"), or have no window, have to list the layers, as the definition asks for too.
  const bool listed = r.has("layer_types");
  if (!listed && !window) fail(ErrorKind::not_found, "{}: layer_types is missing, and sliding_window is null", r.where());
  const auto period = listed ? 1 : r.size("sliding_window_pattern", 4);
  const auto sliding = sliding_layers(c, r, all_but_every(period, c.num_hidden_layers));
  set_window_by_layer(c, r, window, sliding);
  for (const bool slides : sliding) c.rope_by_layer.push_back(slides || !window ? std::optional(c.rope) : std::nullopt);
  return c;
}

}  // namespace exaone4

Family family_exaone4() { return {.types = {"exaone4"}, .build = causal_lm_of<exaone4::Exaone4>(exaone4::config)}; }

}  // namespace mobius::models
