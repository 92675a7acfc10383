#include "mobius/passes/overridable_inputs.hpp"

namespace mobius::passes {
namespace {

// In the standard's domain, so that nobody asks for a kernel or a function body.
constexpr std::string_view stand_in = "OverridableInput";
constexpr std::int64_t first_with_overridable = 4;  // IR version: before, every initializer had to be an input too

}  // namespace

OverridableInputs::OverridableInputs(ir::Model& model) : graph_(*model.graph) {
  if (model.ir_version < first_with_overridable || !graph_.first()) return;
  for (auto* input : graph_.inputs()) {
    if (!input->data() || input->is_graph_output()) continue;
    auto* node = graph_.insert(graph_.first(), {"", stand_in}, {});
    auto* value = node->output();
    value->type = input->type;
    graph_.replace_all_uses(input, value);
    node->set_input(0, input);
  }
}

void OverridableInputs::restore() {
  for (auto* node = graph_.first(); node;) {
    auto* next = node->next();
    if (node->is(stand_in)) {
      graph_.replace_all_uses(node->output(), node->input(0));
      graph_.erase(node);
    }
    node = next;
  }
}

}  // namespace mobius::passes
