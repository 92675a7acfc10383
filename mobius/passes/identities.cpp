// Operators that provably return their operand.
#include "mobius/passes/passes.hpp"

namespace mobius::passes {
namespace {

bool same_static_or_symbolic_shape(const ir::Value* a, const ir::Value* b) { return a->shape() && b->shape() && *a->shape() == *b->shape(); }

bool returns_operand(const ir::Node& n) {
  const auto* x = n.input(0);
  const auto* y = n.output(0);
  if (!x || !y || !n.op.domain.empty() || n.outputs().size() != 1) return false;
  if (n.op.type == "Identity") return true;
  if (n.op.type == "Cast") return x->dtype() != ir::DataType::undefined && n.int_attribute("to", 0) == static_cast<std::int64_t>(x->dtype());
  if (n.op.type == "Reshape" || n.op.type == "Expand") return same_static_or_symbolic_shape(x, y);
  if (n.op.type == "Transpose") {
    const auto perm = n.ints_attribute("perm");
    if (!perm) return false;
    for (std::size_t i = 0; i < perm->size(); ++i)
      if ((*perm)[i] != static_cast<std::int64_t>(i)) return false;
    return true;
  }
  return false;
}

}  // namespace

std::size_t remove_identities(ir::Graph& graph) {
  std::size_t removed = 0;
  for (auto* n = graph.first(); n;) {
    auto* next = n->next();
    for (auto* g : n->subgraphs()) removed += remove_identities(*g);
    if (returns_operand(*n)) {
      auto* x = n->input(0);
      auto* y = n->output(0);
      // An output of the graph keeps a node of its own when its operand can't take the name.
      const bool operand_is_interface = x->is_graph_input() || x->is_graph_output() || x->is_initializer() || x->graph() != &graph;
      if (!(y->is_graph_output() && operand_is_interface)) {
        graph.replace_all_uses(y, x);
        graph.erase(n);
        ++removed;
      }
    }
    n = next;
  }
  return removed;
}

}  // namespace mobius::passes
