//   s = x + skip
//   y = RMSNorm(s) · γ        ⟶        (y, s) = SkipSimplifiedLayerNormalization(x, skip, γ)
//
// The sum is the residual: it goes on to the next Add, so both results are used. One of the two Adds of a layer meets its norm in the next
// layer; in the flat graph both look the same. A bias before the residual, (x + bias) + skip, goes along where the kernel adds it and no
// function body has to stand in for the operator: a model holds a body for one form, and the form without bias is the usual one.
#include "mobius/rules/conditions.hpp"
#include "mobius/rules/rules.hpp"

namespace mobius::rules {
using namespace rewrite;

namespace {

bool has_kernel(const Target& t) { return t.ep.supports_skip_layer_norm; }
bool adds_bias(const Target& t) { return t.ep.supports_skip_layer_norm && t.ep.supports_skip_rms_norm_bias && !t.ep.relies_on_function_bodies; }

// bias: absent where it has no node.
Rule rule(const char* name, const Pat& x, const Pat& skip, const Pat& sum, const Pat& bias) {
  const auto [gamma] = vars("gamma");
  const auto eps = attr<float>("eps");
  const auto axis = attr<std::int64_t>("axis");

  const auto norm = rms_norm(sum, gamma, {{"epsilon", eps}, {"axis", axis}});
  const auto [y, mean, inv_std, s] = ms::skip_rms_norm(x, skip, gamma, bias.node ? Pat::Arg(bias) : Pat::Arg(), {{"epsilon", eps}});

  Rule rule{.name = name,
            .from = {norm, sum},
            .to = {y, s},
            .where = {same_shape(x, skip), has_rank_in(x, 2, 3), is_last_axis(axis, sum),
                      kernel_takes("SkipSimplifiedLayerNormalization", &EpCapabilities::skip_layer_norm_dtypes, x)},
            .when = bias.node ? adds_bias : has_kernel};
  for (const auto& vector : {gamma, bias}) {
    if (!vector.node) continue;
    rule.where.push_back(is_channel_vector(vector, x));
    rule.where.push_back(same_dtype(vector, x));
  }
  return rule;
}

}  // namespace

RuleGroup skip_norm() {
  const auto [x, skip, bias] = vars("x", "skip", "bias");
  return {"SkipNorm", {rule("SkipNormBias", x, skip, (x + bias) + skip, bias), rule("SkipNorm", x, skip, x + skip, {})}};
}

}  // namespace mobius::rules
