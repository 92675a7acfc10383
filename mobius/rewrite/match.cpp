// Match and the common conditions.
#include "mobius/base/error.hpp"
#include "mobius/rewrite/rule.hpp"

namespace mobius::rewrite {

bool Match::has(const Pat& p) const { return p.node->kind == PatNode::Kind::op ? nodes.contains(p.get()) : variables.contains(p.get()); }
ir::Node* Match::node(const Pat& p) const {
  if (p.node->kind == PatNode::Kind::either) return (*this)[p] ? (*this)[p]->producer() : nullptr;
  const auto it = nodes.find(p.get());
  return it == nodes.end() ? nullptr : it->second;
}
ir::Value* Match::operator[](const Pat& p) const {
  if (const auto bound = variables.find(p.get()); bound != variables.end()) return bound->second;
  const auto it = nodes.find(p.get());
  return it == nodes.end() ? nullptr : it->second->output(p.output);
}

namespace {
std::string shape_text(const ir::Value* v) { return v->shape() ? ir::to_string(*v->shape()) : "of unknown rank"; }
}  // namespace

Condition same_shape(const Pat& a, const Pat& b) {
  return {[=](const Match& m, const Target&) -> std::optional<std::string> {
    if (m[a]->shape() && m[b]->shape() && *m[a]->shape() == *m[b]->shape()) return std::nullopt;
    return "operands have shapes " + shape_text(m[a]) + " and " + shape_text(m[b]);
  }};
}

Condition is_constant(const Pat& a) {
  return {[=](const Match& m, const Target&) -> std::optional<std::string> {
    if (m[a]->data()) return std::nullopt;
    return m[a]->name + " is not a constant";
  }};
}

Condition has_rank(const Pat& a, std::size_t rank) {
  return {[=](const Match& m, const Target&) -> std::optional<std::string> {
    if (m[a]->rank() == rank) return std::nullopt;
    return fmt::format("{} is {}, expected rank {}", m[a]->name, shape_text(m[a]), rank);
  }};
}

Condition require(std::string what, std::function<bool(const Match&)> holds) {
  return {[what = std::move(what), holds = std::move(holds)](const Match& m, const Target&) -> std::optional<std::string> {
    return holds(m) ? std::nullopt : std::optional(what);
  }};
}

}  // namespace mobius::rewrite
