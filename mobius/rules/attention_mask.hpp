// What an attention mask lets through, found out by evaluating it.
//
//   const auto found = causal_mask(attention);                  // a node Attention
//   if (const auto* mask = std::get_if<CausalMask>(&found)) ... // *mask->attention_mask, mask->window
//   else miss = std::get<std::string>(found);                   // "a mask [1, 1, 0]: query 1 does not see key 0"
//
// Exporters write masks in countless forms. So no form is looked for: the reference interpreter runs the mask's subgraph on small
// batches of every kind of padding, on both sides of each threshold that occurs in it, on all positions of each table, and far out; and what comes
// out is compared with
//   query s sees key t  ⟺  t is a token  ∧  t ≤ s  (∧  s − t < window).
// A mask that says anything else (chunks, blocks, a prefix, a bias) is told apart by the first query and key where it does.
#pragma once
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "mobius/ir/graph.hpp"

namespace mobius::rules {

struct CausalMask {
  ir::Value* attention_mask = nullptr;      // the graph input, integer or bool [batch, past + new]; nullptr: every slot holds a token
  std::optional<std::int64_t> window = {};  // tokens a query sees, itself included; absent: all before it
};

// The mask of an Attention node (its inputs attn_mask and past_key, its attribute is_causal), or why it is none of this kind.
// Padding is taken to stand on the right of what a row adds to the cache.
std::variant<CausalMask, std::string> causal_mask(const ir::Node& attention);

// The graph input that tells where padding is, if no query of a token sees a key behind it, wherever padding stands; else where one does.
// The mask may add any numbers to the scores of what is seen, as ALiBi does; in Where(seen, numbers, lowest) they may depend on the tokens.
std::variant<ir::Value*, std::string> mask_without_lookahead(const ir::Node& attention);

// Whether positions [batch, new] number the tokens of each row from 0; nullopt: so it is; else where they don't.
std::optional<std::string> positions_skip(ir::Value* positions, const ir::Node& attention);

// Whether marks [batch, 1, new, 1] (by_token: [batch, new, 1, 1]) say of which queries the mask hides all keys; nullopt: so it is; else where
// they don't.
std::optional<std::string> marks_blind_queries(ir::Value* marks, bool by_token, const ir::Node& attention);

// What angles [batch or 1, new, columns] are for each token: its number in the row times the frequency of the column. Or where they are not.
std::variant<std::vector<double>, std::string> rope_frequencies(ir::Value* angles, const ir::Node& attention);

}  // namespace mobius::rules
