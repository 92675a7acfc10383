// Dead code: from the end of the graph to its start, so that one walk finds chains.
#include "mobius/passes/passes.hpp"

#include <algorithm>

namespace mobius::passes {

std::size_t remove_dead_code(ir::Graph& graph) {
  std::size_t removed = 0;
  for (auto* n = graph.last(); n;) {
    auto* previous = n->previous();
    for (auto* g : n->subgraphs()) removed += remove_dead_code(*g);
    if (std::ranges::all_of(n->outputs(), [](auto* o) { return !o || !o->is_used(); })) {
      graph.erase(n);
      ++removed;
    }
    n = previous;
  }
  const auto initializers = graph.initializers();  // a copy: the list shrinks
  for (auto* v : initializers)
    if (!v->is_used()) graph.remove_initializer(v);
  return removed;
}

std::vector<std::string> remove_dead_inputs(ir::Graph& graph) {
  std::vector<std::string> removed;
  const auto inputs = graph.inputs();  // a copy: the list shrinks
  for (auto* v : inputs) {
    if (v->is_used() || v->name.starts_with("past_key_values.")) continue;
    removed.push_back(v->name);
    graph.remove_input(v);
  }
  return removed;
}

}  // namespace mobius::passes
