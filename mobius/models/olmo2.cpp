// OLMo 2 (arXiv 2501.00656) and OLMo 3: Llama that normalises what attention and MLP give instead of what they take, and q and k as
// wholes, before they are cut into heads. OLMo 3 has sliding windows in three of four layers, and scales rope in the others only.
//
//   h = x + RMSNorm(Attention(x));   y = h + RMSNorm(SwiGLU(h));   q, k = rope(RMSNorm(x·Wq)), rope(RMSNorm(x·Wk))
#include "mobius/components/decoder.hpp"
#include "mobius/models/family.hpp"

namespace mobius::models {
namespace olmo2 {

using Olmo2 = CausalLM<PostNormLayer<WholeNormAttention<LayeredConfig>, GatedMLP, LayeredConfig>, LayeredConfig>;

LayeredConfig config(const ConfigReader& r) {
  const DecoderDefaults defaults{.vocab_size = 50304, .rms_norm_eps = 1e-5};
  const bool windowed = r.model_type() == "olmo3";
  LayeredConfig c{windowed ? read_decoder_without_rope(r, defaults) : read_decoder(r, defaults), {}};
  c.qkv_bias = c.o_bias = r.boolean("attention_bias", false);
  if (!windowed) {
    set_rope(c, c.rope);
    return c;
  }
  const auto sliding = sliding_layers(c, r, all_but_every(4, c.num_hidden_layers));
  set_window_by_layer(c, r, r.nullable_size("sliding_window", 4096), sliding);
  set_rope_by_kind(c, sliding, read_rope_of_kind(r, "full_attention", c.rope_shape(), {.theta = 500000}, "rope_theta"),
                   read_rope_of_kind(r, "sliding_attention", c.rope_shape(), {.theta = 500000}));
  return c;
}

}  // namespace olmo2

Family family_olmo2() { return {.types = {"olmo2", "olmo3"}, .build = causal_lm_of<olmo2::Olmo2>(olmo2::config)}; }

}  // namespace mobius::models
