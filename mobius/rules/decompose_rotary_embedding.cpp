//   RotaryEmbedding(x, cos, sin)   ⟶   [x₁·cos − x₂·sin, x₂·cos + x₁·sin] of the halves x₁, x₂ (or of even and odd channels), and the rest of x
#include "mobius/rewrite/body.hpp"
#include "mobius/rules/rules.hpp"

namespace mobius::rules {
using namespace rewrite;

RuleGroup decompose_rotary_embedding() {
  const auto when = [](const Target& t) { return !t.ep.supports_rotary_embedding; };
  return {"DecomposeRotaryEmbedding", {body_rule("DecomposeRotaryEmbedding", {"", "RotaryEmbedding"}, 1, 22, when)}};
}

}  // namespace mobius::rules
