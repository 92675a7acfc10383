// The two halves of a rule's application. The matcher finds the pattern at a node, with backtracking over operand orders and
// alternatives; the replacement is written into the graph.
//
//   Miss miss;
//   if (const auto found = match(rule, node->output(), target, miss)) replacement(rule, at, *found, target);
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

// The nodes of the right-hand side, inserted: one value per `from` (nullptr where that did not match).
std::vector<ir::Value*> replacement(const Rule& rule, Inserter& at, const Match& match, const Target& target);

}  // namespace mobius::rewrite
