// Look-ups over a whole model.
#include "mobius/ir/model.hpp"

namespace mobius::ir {

const Function* Model::find_function(OpName op, std::string_view overload) const {
  for (const auto& f : functions)
    if (f.domain == op.domain && f.name == op.type && f.overload == overload) return &f;
  return nullptr;
}

}  // namespace mobius::ir
