// Sequences of different lengths that lie one behind the other in one row: which value says where they begin and end.
//
//   const auto found = packed_sequences(attention);             // a node Attention with a mask
//   if (const auto* ends = std::get_if<ir::Value*>(&found)) ... // 0, 3, 7 for sequences of 3 and 4 tokens, maybe without the 0 or the 7
//   else miss = std::get<std::string>(found);                   // "with sequences of 1, 2 tokens: query 0 sees key 1"
//
// As with other masks (attention_mask.hpp), no form is looked for: the mask is evaluated for lengths of every kind, from each list of
// integers that it depends on, and compared with
//   query s sees key t  ⟺  both are tokens of one sequence.
#pragma once
#include <string>
#include <variant>

#include "mobius/ir/graph.hpp"

namespace mobius::rules {

std::variant<ir::Value*, std::string> packed_sequences(const ir::Node& attention);

}  // namespace mobius::rules
