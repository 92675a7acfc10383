//   total_sequence_length = Cast(Shape(attention_mask)[1])   ⟶   max over rows of the mask's sums
//
// A captured graph can't read sizes on the host. The longest row of a batch has no padding, so its tokens are as many as the slots.
#include "mobius/rules/gqa.hpp"
#include "mobius/rules/rules.hpp"

namespace mobius::rules {
using namespace rewrite;

namespace {

bool only_tells_total(const ir::Value* v) {
  if (v->is_graph_output()) return false;
  for (const auto& use : v->uses())
    if (!use.node->is("GroupQueryAttention", ops::microsoft) || use.index != 6) return false;
  return true;
}

Rule eliminate(bool sliced) {
  const auto mask = Pat::variable("mask");
  const auto count = sliced ? shape(mask, 1, 2) : (gather(shape(mask), 1) | gather(shape(mask), {1}));
  const auto total = cast(count, ir::DataType::int32);
  return {.name = "EliminateShape",
          .from = {total},
          .where = {has_rank(mask, 2),
                    require("it is not the total_sequence_length of GroupQueryAttention alone", [=](const Match& m) { return only_tells_total(m[total]); })},
          .when = [](const Target& t) { return t.ep.requires_graph_capture_rewrite && t.padding == Padding::right; },
          .make =
              [=](Inserter& at, const Match& m, const Target&) {
                auto* ones = m[mask]->dtype() == ir::DataType::int32 ? m[mask] : at.shared({"", "Cast"}, {m[mask]}, cast_to(ir::DataType::int32));
                auto* tokens = at.shared({"", "ReduceSum"}, {ones, at.integers({1})}, {{"keepdims", std::int64_t{0}}});
                return std::vector{at.shared({"", "ReduceMax"}, {tokens, at.integers({0})}, {{"keepdims", std::int64_t{0}}})};
              }};
}

}  // namespace

RuleGroup eliminate_shape() { return {"EliminateShape", {eliminate(true), eliminate(false)}}; }

}  // namespace mobius::rules
