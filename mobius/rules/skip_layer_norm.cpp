//   s = x + skip
//   y = LayerNorm(s) · γ + β        ⟶        (y, s) = SkipLayerNormalization(x, skip, γ, β)
//
// The sum is the residual, as in SkipNorm. A skip that is the same for all of the batch (position embeddings) may have the shape [1, S, H]
// or [S, H] where the kernel broadcasts it. A norm without β, and a bias in (x + bias) + skip, are other forms of the operator: they are
// used where no function body has to stand in for it, since a model holds a body for one form.
#include <fmt/core.h>

#include <algorithm>

#include "mobius/rules/conditions.hpp"
#include "mobius/rules/rules.hpp"

namespace mobius::rules {
using namespace rewrite;

namespace {

bool has_kernel(const Target& t) { return t.ep.supports_skip_layer_norm; }
bool has_all_forms(const Target& t) { return t.ep.supports_skip_layer_norm && !t.ep.relies_on_function_bodies; }

// [1, S, H] or [S, H] against [B, S, H].
bool is_shared_by_batch(const ir::Shape& skip, const ir::Shape& x) {
  if (x.size() != 3 || (skip.size() != 2 && !(skip.size() == 3 && skip[0] == ir::Dim(1)))) return false;
  return std::equal(skip.end() - 2, skip.end(), x.begin() + 1);
}

// The shapes of x and skip are equal, or the kernel repeats skip along the batch.
Condition skip_fits(const Pat& x, const Pat& skip) {
  return {[=](const Match& m, const Target& t) -> std::optional<std::string> {
    const auto &a = m[x]->shape(), &b = m[skip]->shape();
    const bool known = a && b;
    if (known && *a == *b) return std::nullopt;
    if (known && t.ep.supports_skip_broadcast && is_shared_by_batch(*b, *a)) return std::nullopt;
    const bool either = known && (is_shared_by_batch(*a, *b) || is_shared_by_batch(*b, *a));
    return fmt::format("operands have shapes {} and {}{}", shape_text(m[x]), shape_text(m[skip]), either ? ", which the kernel here does not broadcast" : "");
  }};
}

// beta and bias: absent where they have no node.
Rule rule(const char* name, const Pat& x, const Pat& skip, const Pat& sum, const Pat& beta, const Pat& bias) {
  const auto [gamma] = vars("gamma");
  const auto eps = attr<float>("eps");
  const auto axis = attr<std::int64_t>("axis");
  const auto optional = [](const Pat& p) { return p.node ? Pat::Arg(p) : Pat::Arg(); };

  const auto norm = layer_norm(sum, gamma, optional(beta), {{"epsilon", eps}, {"axis", axis}});
  const auto [y, mean, inv_std, s] = ms::skip_layer_norm(x, skip, gamma, optional(beta), optional(bias), {{"epsilon", eps}});

  Rule rule{.name = name,
            .from = {norm, sum},
            .to = {y, s},
            .where = {skip_fits(x, skip), has_rank_in(x, 2, 3), is_last_axis(axis, sum),
                      kernel_takes("SkipLayerNormalization", &EpCapabilities::skip_layer_norm_dtypes, x)},
            .when = beta.node && !bias.node ? has_kernel : has_all_forms};
  for (const auto& vector : {gamma, beta, bias}) {
    if (!vector.node) continue;
    rule.where.push_back(is_channel_vector(vector, x));
    rule.where.push_back(same_dtype(vector, x));
  }
  return rule;
}

}  // namespace

RuleGroup skip_layer_norm() {
  const auto [x, skip, beta, bias] = vars("x", "skip", "beta", "bias");
  const auto sum = x + skip, biased = (x + bias) + skip;
  return {"SkipLayerNorm",
          {
              rule("SkipLayerNormBias", x, skip, biased, beta, bias),
              rule("SkipLayerNormBiasNoBeta", x, skip, biased, {}, bias),
              rule("SkipLayerNorm", x, skip, sum, beta, {}),
              rule("SkipLayerNormNoBeta", x, skip, sum, {}, {}),
          }};
}

}  // namespace mobius::rules
