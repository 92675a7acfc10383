//   x · wᵀ   ⟶   FusedMatMul(x, w; transB)
//
// A Linear keeps the checkpoint's [out, in] layout: the kernel reads it transposed at no cost, and the file is a copy of the checkpoint.
#include "mobius/rules/rules.hpp"

namespace mobius::rules {
using namespace rewrite;

RuleGroup fused_matmul() {
  const auto [x, w] = vars("x", "w");
  const auto product = matmul(x, transpose(w, {1, 0}));
  const Rule rule = {.name = "FusedMatMul", .from = {product}, .to = {ms::fused_matmul(x, w, {{"transB", 1}})}, .when = [](const Target& t) {
                       return t.ep.supports_fused_matmul;
                     }};
  return {"FusedMatMul", {rule}};
}

}  // namespace mobius::rules
