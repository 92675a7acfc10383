// Judges rewrites by numbers: two graphs on equal random inputs, through the reference interpreter.
//
//   const auto why = difference(original, rewritten, {{"position_ids", "P.."}, {"P", "0..4"}});
//   // "y of x [2, 3, 8], ...: element 5 is 0.25, expected 0.5", or nothing
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "mobius/ir/model.hpp"
#include "mobius/ops/interpreter.hpp"

namespace mobius::rewrite {

// What a graph's inputs hold, by name; and from what range a shape's symbols are drawn. Expressions are those of dimensions, "P + S".
//   "3", "P + S"     that number everywhere                       "0..V"   integers from 0 to V - 1
//   "P.."            P, P + 1, ... along the last axis            "0.5~2"  reals between the two
//   "0, 2, 5"        these elements, again and again              "right padded", "left padded"   rows of ones with zeros behind or before
// Without a word: reals around 0, any booleans, integers 0 and 1; symbols from 1 to 5.
using Contents = std::map<std::string, std::string>;

struct Trials {
  Contents contents = {};
  double tolerance = 1e-9;  // relative to the largest element of an output, at least 1
  int rounds = 4;           // each with new shapes; in the second one all symbols are as small as they may be
  std::uint64_t seed = 1;
};

// Random inputs for round `round`, by name. Weights without data are bound to random data too, in all `models`, by name.
std::map<std::string, ops::Array> random_inputs(std::initializer_list<const ir::Model*> models, const Trials& trials, int round);

// The first difference between two models with the same inputs and outputs; nullopt: none was found.
std::optional<std::string> difference(const ir::Model& original, const ir::Model& rewritten, const Trials& trials = {});

}  // namespace mobius::rewrite
