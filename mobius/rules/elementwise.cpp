// Scaling, cosines and casts.
#include "mobius/rules/elementwise.hpp"

#include <algorithm>

namespace mobius::rules {
namespace {

std::optional<double> scalar(const ir::Value* v) { return v && v->data() ? ir::as_scalar(*v->data()) : std::nullopt; }

}  // namespace

ir::Value* scaled_operand(const ir::Node& n) {
  if (n.is("Mul") && scalar(n.input(0))) return n.input(1);
  return (n.is("Mul") || n.is("Div")) && scalar(n.input(1)) ? n.input(0) : nullptr;
}

double factor_of(const ir::Node& n) {
  if (n.is("Div")) return 1 / *scalar(n.input(1));
  return *scalar(n.input(scalar(n.input(0)) ? 0 : 1));
}

ir::Value* elementwise_operand(const ir::Node& n) {
  if (n.is("Cos") || n.is("Sin") || n.is("Cast")) return n.input(0);
  return scaled_operand(n);
}

ir::Value* replayed(rewrite::Inserter& at, const ops::History& h, std::size_t i, ir::Value* v) {
  while (i-- > 0) {
    auto* n = h.node(i);
    if (!elementwise_operand(*n)) continue;
    auto operands = n->inputs();
    std::replace(operands.begin(), operands.end(), h[i + 1], v);
    if (operands[0] != v) std::swap(operands[0], operands[1]);  // of Mul: a node is found again by its first operand
    v = at.shared(n->op, std::move(operands), n->attributes);
  }
  return v;
}

}  // namespace mobius::rules
