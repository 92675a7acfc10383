// The matcher: finds a rule's pattern at a node, with backtracking over operand orders and alternatives.
#pragma once
#include <optional>
#include <string>

#include "mobius/rewrite/rule.hpp"

namespace mobius::rewrite {

struct Miss {
  std::size_t depth = 0;  // parts of the pattern that had matched when it failed
  std::string reason;     // "place: reason"; empty when not even the root matched
};

// A match with from[0] at `value`, or nothing and the deepest miss.
std::optional<Match> match(const Rule& rule, ir::Value* value, const Target& target, Miss& miss);

bool is_commutative(ir::OpName op);
// The default that the operator's specification gives the attribute; nullopt: it has none.
std::optional<ir::Attribute> attribute_default(ir::OpName op, std::string_view attribute);

}  // namespace mobius::rewrite
