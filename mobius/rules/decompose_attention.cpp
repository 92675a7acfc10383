//   Attention(q, k, v, mask, past)   ⟶   softmax(scale · q · kᵀ + mask) · v, with the past before k and v
//
// All forms that the operator's function body knows: bool and float masks, is_causal, query heads that share a key, scale, softcap.
#include "mobius/rewrite/body.hpp"
#include "mobius/rules/rules.hpp"

namespace mobius::rules {
using namespace rewrite;

RuleGroup decompose_attention() {
  return {"DecomposeAttention", {body_rule("DecomposeAttention", {"", "Attention"}, 4, 22, [](const Target& t) { return !t.ep.supports_attention; })}};
}

}  // namespace mobius::rules
