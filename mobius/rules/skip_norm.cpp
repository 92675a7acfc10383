//   s = x + skip
//   y = RMSNorm(s) · γ        ⟶        (y, s) = SkipSimplifiedLayerNormalization(x, skip, γ)
//
// The sum is the residual: it goes on to the next Add, so both results are used. One of the two Adds of a layer meets its norm in the next
// layer; in the flat graph both look the same.
#include "mobius/rules/rules.hpp"

namespace mobius::rules {
using namespace rewrite;

RuleGroup skip_norm() {
  const auto [x, skip, gamma] = vars("x", "skip", "gamma");
  const auto eps = attr<float>("eps");

  const auto sum = x + skip;
  const auto norm = rms_norm(sum, gamma, {{"epsilon", eps}});

  const auto [y, mean, inv_std, s] = ms::skip_rms_norm(x, skip, gamma, {{"epsilon", eps}});

  const Rule rule = {
      .name = "SkipNorm", .from = {norm, sum}, .to = {y, s}, .where = {same_shape(x, skip), has_rank(x, 3), has_rank(gamma, 1)}, .when = [](const Target& t) {
        return t.ep.supports_skip_layer_norm;
      }};
  return {"SkipNorm", {rule}};
}

}  // namespace mobius::rules
