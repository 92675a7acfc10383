// What a pattern can't do without.
#include "mobius/rewrite/screening.hpp"

#include <algorithm>
#include <map>

namespace mobius::rewrite {
namespace {

bool contains(const std::vector<ir::OpName>& list, ir::OpName op) { return std::ranges::find(list, op) != list.end(); }

// Parts of a pattern are shared, so each is looked at once.
class Needs {
 public:
  const std::vector<ir::OpName>& of(const PatNode* p) {
    const auto [it, fresh] = known_.try_emplace(p);
    if (!fresh) return it->second;
    std::vector<ir::OpName> needed;
    if (p->kind == PatNode::Kind::op) {
      needed.push_back(p->op);
      for (const auto& a : p->args)
        if (a.node) add(needed, of(a.node.get()));
    } else if (p->kind == PatNode::Kind::either) {
      needed = of(p->args[0].node.get());
      for (const auto& a : p->args) {
        const auto& other = of(a.node.get());
        std::erase_if(needed, [&](ir::OpName op) { return !contains(other, op); });
      }
    }
    return known_[p] = std::move(needed);
  }

 private:
  static void add(std::vector<ir::OpName>& list, const std::vector<ir::OpName>& more) {
    for (const auto op : more)
      if (!contains(list, op)) list.push_back(op);
  }

  std::map<const PatNode*, std::vector<ir::OpName>> known_;
};

// false: any operator may be the root.
bool collect_roots(const PatNode* p, std::vector<ir::OpName>& roots) {
  if (p->kind == PatNode::Kind::op) roots.push_back(p->op);
  else if (p->kind != PatNode::Kind::either) return false;
  else return std::ranges::all_of(p->args, [&](const Pat::Arg& a) { return collect_roots(a.node.get(), roots); });
  return true;
}

}  // namespace

bool OperatorSet::contains(ir::OpName op) const { return rewrite::contains(ops_, op); }

std::vector<ir::OpName> OperatorSet::missing(const Rule& rule) const {
  Needs needs;
  auto list = needs.of(rule.from[0].get());
  std::erase_if(list, [&](ir::OpName op) { return contains(op); });
  return list;
}

void OperatorSet::collect(const ir::Graph& graph) {
  for (const auto* n : graph.nodes()) {
    // Names are literals or interned: nearly always the same characters in memory.
    const auto is_known = std::ranges::any_of(ops_, [&](ir::OpName op) { return op.type.data() == n->op.type.data() && op.domain == n->op.domain; });
    if (!is_known && !contains(n->op)) ops_.push_back(n->op);
    for (const auto* g : n->subgraphs()) {
      has_subgraphs_ = true;
      collect(*g);
    }
  }
}

std::vector<ir::OpName> root_operators(const Rule& rule) {
  std::vector<ir::OpName> roots;
  if (!collect_roots(rule.from[0].get(), roots)) roots.clear();
  return roots;
}

}  // namespace mobius::rewrite
