//   TensorScatter(cache, update, write_indices)   ⟶   ScatterND along the slots; with more than one row, along rows and slots
#include "mobius/rewrite/body.hpp"
#include "mobius/rules/rules.hpp"

namespace mobius::rules {
using namespace rewrite;

RuleGroup scatter_nd() {
  return {"TensorScatterToScatterND",
          {body_rule("TensorScatterToScatterND", {"", "TensorScatter"}, 1, 23, [](const Target& t) { return !t.ep.supports_tensor_scatter; })}};
}

}  // namespace mobius::rules
