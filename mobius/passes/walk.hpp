// Walks over graphs with their subgraphs.
//
//   const auto before = count_operators(model);
//   ...
//   difference(before, count_operators(model))   // {{"Attention", -2}, {"GroupQueryAttention", 2}}
#pragma once
#include <map>
#include <string>

#include "mobius/ir/model.hpp"

namespace mobius::passes {

// Calls `each` for every node of a graph and its subgraphs; a node comes before those of its subgraphs.
template <class F>
void for_each_node(const ir::Graph& graph, F&& each) {
  for (auto* n : graph.nodes()) {
    each(*n);
    for (const auto* g : n->subgraphs()) for_each_node(*g, each);
  }
}

using OperatorCounts = std::map<std::string, std::int64_t>;  // by operator type

inline OperatorCounts count_operators(const ir::Model& model) {
  OperatorCounts counts;
  for_each_node(*model.graph, [&](const ir::Node& n) { ++counts[std::string(n.op.type)]; });
  return counts;
}

// What changed, without zeros.
inline OperatorCounts difference(const OperatorCounts& before, OperatorCounts after) {
  for (const auto& [op, count] : before) after[op] -= count;
  std::erase_if(after, [](const auto& e) { return e.second == 0; });
  return after;
}

}  // namespace mobius::passes
