// Names of nodes.
#include <unordered_set>

#include "mobius/base/error.hpp"
#include "mobius/passes/passes.hpp"

namespace mobius::passes {
namespace {

std::size_t rename_repeated(ir::Graph& graph, std::unordered_set<std::string>& taken) {
  std::size_t renamed = 0;
  for (auto* n : graph.nodes()) {
    if (!n->name.empty() && !taken.insert(n->name).second) {
      const auto name = n->name;
      for (int i = 1; !taken.insert(n->name = fmt::format("{}_{}", name, i)).second; ++i) {
      }
      ++renamed;
    }
    for (auto* g : n->subgraphs()) renamed += rename_repeated(*g, taken);
  }
  return renamed;
}

}  // namespace

std::size_t make_node_names_unique(ir::Graph& graph) {
  std::unordered_set<std::string> taken;
  return rename_repeated(graph, taken);
}

}  // namespace mobius::passes
