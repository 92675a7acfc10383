//   Gelu(x + b)                        ⟶   BiasGelu(x, b)          the erf form
//   Gelu(x + b; approximate = tanh)    ⟶   FastGelu(x, b)          the tanh form; b may be absent
//
// Each kernel computes one of the two forms, and neither of them the other's. b is a vector for the last axis.
#include "mobius/rules/conditions.hpp"
#include "mobius/rules/rules.hpp"

namespace mobius::rules {
using namespace rewrite;

RuleGroup bias_gelu() {
  const auto [x, bias] = vars("x", "bias");
  return {"BiasGelu",
          {{.name = "BiasGelu",
            .from = {gelu(x + bias)},
            .to = {ms::bias_gelu(x, bias)},
            .where = {is_channel_vector(bias, x), same_dtype(bias, x), kernel_takes("BiasGelu", &EpCapabilities::gelu_dtypes, x)},
            .when = [](const Target& t) { return t.ep.supports_bias_gelu; }}}};
}

RuleGroup fast_gelu() {
  const auto [x, bias] = vars("x", "bias");
  const auto has_kernel = [](const Target& t) { return t.ep.supports_fast_gelu; };
  return {"FastGelu",
          {{.name = "FastGeluBias",
            .from = {gelu_tanh(x + bias)},
            .to = {ms::fast_gelu(x, bias)},
            .where = {is_channel_vector(bias, x), same_dtype(bias, x), kernel_takes("FastGelu", &EpCapabilities::gelu_dtypes, x)},
            .when = has_kernel},
           {.name = "FastGelu",
            .from = {gelu_tanh(x)},
            .to = {ms::fast_gelu(x, {})},
            .where = {kernel_takes("FastGelu", &EpCapabilities::gelu_dtypes, x)},
            .when = has_kernel}}};
}

}  // namespace mobius::rules
