// Graphs with one attention node, for tests: a mask in one of the forms that are in the wild, optional rope, a cache.
#pragma once
#include <fmt/format.h>

#include <string>

#include "mobius/ir/model.hpp"

namespace mobius::rules {

// As components/decode.cpp makes it: tokens are numbered by a cumulative sum.
inline const std::string counted_mask = R"(
  count = CumSum(attention_mask, one)
  is_token = Cast<to = 9>(attention_mask)
  numbered = Where(is_token, count, many)
  key_number = Unsqueeze(numbered, axes_1_2)
  new = Shape<start = 1, end = 2>(input_ids)
  back = Neg(new)
  recent = Slice(count, back, last, axis_1)
  own = Max(recent, one)
  query_number = Unsqueeze(own, axes_1_3)
  causal = LessOrEqual(key_number, query_number)
)";
inline const std::string counted_causal = counted_mask + "mask = Identity(causal)\n";
inline const std::string counted_window = counted_mask + R"(
  first = Sub(query_number, window)
  near = Greater(key_number, first)
  mask = And(causal, near)
)";

// Slots are numbered by their place, padding is masked apart, and what is hidden gets the lowest score.
inline const std::string slot_mask = R"(
  new = Shape<start = 1, end = 2>(input_ids)
  slots = Shape<start = 1, end = 2>(attention_mask)
  all = Squeeze(slots)
  old = Sub(slots, new)
  past = Squeeze(old)
  key_slot = Range(zero, all, one)
  own_slot = Range(past, all, one)
  query_slot = Unsqueeze(own_slot, axis_1)
  causal = LessOrEqual(key_slot, query_slot)
  is_token = Cast<to = 9>(attention_mask)
  tokens = Unsqueeze(is_token, axes_1_2)
)";
inline const std::string slot_causal = slot_mask + R"(
  seen = And(causal, tokens)
  mask = Where(seen, nothing, lowest)
)";
inline const std::string slot_window = slot_mask + R"(
  first = Sub(query_slot, window)
  near = Greater(key_slot, first)
  narrow = And(causal, near)
  mask = And(narrow, tokens)
)";

struct AttentionGraph {
  std::string mask = counted_causal;  // nodes that define `mask`
  std::string operand = "mask";       // of Attention
  std::string attributes = "q_num_heads = 2, kv_num_heads = 1";
  std::string q = "q", k = "k";
  std::string nodes = "";    // more of them, before Attention
  std::string outputs = "";  // more of them
  int head_size = 8, value_size = 8;
  int window = 3;
  std::string batch = "B";

  std::string text() const {
    return fmt::format(
               "g (int64[{6},S] input_ids, int64[{6},\"P + S\"] attention_mask, int64[{6},S] position_ids, float[{6},S,{1}] q, float[{6},S,{0}] k, "
               "float[{6},S,{2}] v,"
               " float[{6},1,P,{0}] past_key, float[{6},1,P,{2}] past_value)"
               " => (float[{6},S,{3}] y, float[{6},1,\"P + S\",{0}] present_key, float[{6},1,\"P + S\",{2}] present_value{7})"
               " <int64 zero = {{0}}, int64 one = {{1}}, int64 many = {{2147483647}}, int64[1] last = {{9223372036854775807}}, int64[1] axis_1 = {{1}},"
               " int64[2] axes_1_2 = {{1, 2}}, int64[2] axes_1_3 = {{1, 3}}, int64 window = {{{4}}}, float nothing = {{0}}, float lowest = {{-3.4e38}},"
               " float[64,{5}] cos, float[64,{5}] sin>"
               " {{\n",
               head_size, 2 * head_size, value_size, 2 * value_size, window, head_size / 2, batch, outputs) +
           mask + nodes + fmt::format("  y, present_key, present_value = Attention<{}>({}, {}, v, {}, past_key, past_value)\n}}\n", attributes, q, k, operand);
  }
};

// The model's GroupQueryAttention, or nullptr.
inline const ir::Node* gqa_of(const ir::Model& m) {
  for (const auto* n : m.graph->nodes())
    if (n->is("GroupQueryAttention", "com.microsoft")) return n;
  return nullptr;
}

}  // namespace mobius::rules
