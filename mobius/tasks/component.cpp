// What every task does with a finished graph.
#include "mobius/tasks/component.hpp"

namespace mobius {

void import_domains(ir::Model& model) {
  for (const auto* node : model.graph->nodes()) model.opset_imports.try_emplace(std::string(node->op.domain), 1);
}

}  // namespace mobius
