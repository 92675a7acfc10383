// Screening: which rules can't match anywhere in a graph, told from its operators alone. Most rules are for graphs that others wrote, and
// most graphs lack what those look for.
//
//   OperatorSet present(graph);
//   present.missing(rule)                                                  // "Erf", "Add": no node of the graph is one; empty: look
#pragma once
#include <vector>

#include "mobius/rewrite/rule.hpp"

namespace mobius::rewrite {

// The operators of a graph and its subgraphs.
class OperatorSet {
 public:
  explicit OperatorSet(const ir::Graph& graph) { collect(graph); }

  bool contains(ir::OpName op) const;
  bool has_subgraphs() const { return has_subgraphs_; }
  // Operators that every match of the rule has, but not the graph.
  std::vector<ir::OpName> missing(const Rule& rule) const;

 private:
  void collect(const ir::Graph& graph);

  std::vector<ir::OpName> ops_;
  bool has_subgraphs_ = false;
};

// The operators that a rule's root may have; empty: any.
std::vector<ir::OpName> root_operators(const Rule& rule);

}  // namespace mobius::rewrite
