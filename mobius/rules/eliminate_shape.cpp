//   total_sequence_length = Cast(Shape(attention_mask)[1])   ⟶   max over rows of the mask's sums
//   Reshape(y [B·S, H], Shape(x [B, S, H]))                  ⟶   Gather(y, [[0, 1, ...], [S, S + 1, ...], ...])
//
// A captured graph can't read sizes on the host. The longest row of a batch has no padding, so its tokens are as many as the slots. What
// stands at a place of a batch is numbered by sums along its axes.
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

// The integer graph input [B, S] of a value [B, S, H]: nullptr if there is none.
ir::Value* ids_of(const ir::Value* x) {
  for (auto* input : x->graph()->inputs())
    if (input->rank() == 2u && (input->dtype() == ir::DataType::int64 || input->dtype() == ir::DataType::int32) && (*input->shape())[0] == (*x->shape())[0] &&
        (*input->shape())[1] == (*x->shape())[1])
      return input;
  return nullptr;
}

// int32 [B, S]: 0, 1, 2, ... through all rows.
ir::Value* places(Inserter& at, ir::Value* ids) {
  const auto sum = [&](ir::Value* of, std::int64_t axis) {
    return at.shared({"", "CumSum"}, {of, at.number(ir::DataType::int64, static_cast<double>(axis))}, {{"exclusive", std::int64_t{1}}});
  };
  auto* numbers = ids->dtype() == ir::DataType::int32 ? ids : at.shared({"", "Cast"}, {ids}, cast_to(ir::DataType::int32));
  auto* ones = at.shared({"", "Add"}, {at.shared({"", "Sub"}, {numbers, numbers}), at.number(ir::DataType::int32, 1)});
  auto* width = at.shared({"", "ReduceSum"}, {ones, at.integers({1})});
  return at.shared({"", "Add"}, {sum(ones, 1), sum(width, 0)});
}

Rule restore_rows() {
  const auto [y, x] = vars("y", "x");
  const auto restored = reshape(y, shape(x));
  return {.name = "RestoreRows",
          .from = {restored},
          .where = {has_rank(y, 2), has_rank(x, 3),
                    require("the rows have another width", [=](const Match& m) { return (*m[y]->shape())[1] == (*m[x]->shape())[2]; }),
                    require("no graph input has the batch's sizes", [=](const Match& m) { return ids_of(m[x]) != nullptr; })},
          .when = [](const Target& t) { return t.ep.requires_graph_capture_rewrite; },
          .make =
              [=](Inserter& at, const Match& m, const Target&) {
                return at.add({"", "Gather"}, {m[y], places(at, ids_of(m[x]))}, {{"axis", std::int64_t{0}}});
              }};
}

}  // namespace

RuleGroup eliminate_shape() { return {"EliminateShape", {eliminate(true), eliminate(false), restore_rows()}}; }

}  // namespace mobius::rules
