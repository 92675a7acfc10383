// Nodes that work on each element for itself, so that data may be moved before or behind them. Internal to rules/.
#pragma once
#include "mobius/ops/layout.hpp"
#include "mobius/rewrite/rule.hpp"

namespace mobius::rules {

// x in x * c and x / c, c being a scalar constant; nullptr: the node is neither. And what x is multiplied with.
ir::Value* scaled_operand(const ir::Node& node);
double factor_of(const ir::Node& scaling);

// x in Cos(x), Sin(x), Cast(x), x * c and x / c; nullptr: the node is none of them.
ir::Value* elementwise_operand(const ir::Node& node);

// What such nodes made of the history's ancestor `i`, made of `v`, which holds some of its elements. Nodes are shared.
ir::Value* replayed(rewrite::Inserter& at, const ops::History& history, std::size_t i, ir::Value* v);

}  // namespace mobius::rules
