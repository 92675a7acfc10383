#include "mobius/rules/attention_mask.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mobius/ir/model.hpp"
#include "mobius/ops/infer.hpp"
#include "mobius/rules/attention_graphs_test.hpp"

namespace mobius::rules {
namespace {

using ::testing::HasSubstr;

struct Typed {
  explicit Typed(const AttentionGraph& g) : model(ir::model_from_text(g.text())) { ops::TypeInference().infer(*model.graph); }
  const ir::Node& attention() const { return *model.graph->last(); }
  ir::Model model;
};

std::string meaning(const AttentionGraph& g) {
  const Typed typed(g);
  const auto found = causal_mask(typed.attention());
  if (const auto* why = std::get_if<std::string>(&found)) return *why;
  const auto& mask = std::get<CausalMask>(found);
  std::string text = mask.attention_mask ? mask.attention_mask->name : "no mask";
  if (mask.window) text += ", window " + std::to_string(*mask.window);
  return text;
}

TEST(CausalMask, IsFoundInEachForm) {
  EXPECT_EQ(meaning({}), "attention_mask");
  EXPECT_EQ(meaning({.mask = slot_causal}), "attention_mask");
  EXPECT_EQ(meaning({.mask = "", .operand = "\"\"", .attributes = "q_num_heads = 2, kv_num_heads = 1, is_causal = 1"}), "no mask");
  // Padding in the mask, causality in the attribute.
  EXPECT_EQ(meaning({.mask = slot_mask + "mask = Identity(tokens)\n", .attributes = "q_num_heads = 2, kv_num_heads = 1, is_causal = 1"}), "attention_mask");
  // Causality alone: every slot holds a token.
  EXPECT_EQ(meaning({.mask = slot_mask, .operand = "causal"}), "no mask");
}

TEST(CausalMask, WindowsAreMeasured) {
  for (const int window : {1, 3, 4, 17, 4096}) {
    EXPECT_EQ(meaning({.mask = counted_window, .window = window}), "attention_mask, window " + std::to_string(window));
    EXPECT_EQ(meaning({.mask = slot_window, .window = window}), "attention_mask, window " + std::to_string(window));
  }
  const std::string inclusive =
      slot_mask + "first = Sub(query_slot, window) near = GreaterOrEqual(key_slot, first) narrow = And(causal, near) mask = And(narrow, tokens)\n";
  EXPECT_EQ(meaning({.mask = inclusive, .window = 3}), "attention_mask, window 4");
}

TEST(CausalMask, AStaticBatchIsTriedAsItIs) {
  EXPECT_EQ(meaning({.batch = "1"}), "attention_mask");
  EXPECT_EQ(meaning({.mask = counted_window, .batch = "2"}), "attention_mask, window 3");
}

TEST(CausalMask, AnythingElseIsToldApart) {
  EXPECT_THAT(meaning({.mask = slot_mask + "mask = Identity(tokens)\n"}), HasSubstr("query 0 sees key 5"));  // not causal
  EXPECT_THAT(meaning({.mask = slot_mask + "no = Not(tokens) mask = And(causal, no)\n"}), HasSubstr("does not see itself"));
  EXPECT_THAT(meaning({.mask = slot_mask + "strict = Less(key_slot, query_slot) mask = And(strict, tokens)\n"}), HasSubstr("query 0 does not see itself"));
  // Chunks of 3: what a query sees depends on where it stands.
  EXPECT_THAT(meaning({.mask = slot_mask +
                               "a = Div(key_slot, window) b = Div(query_slot, window) same = Equal(a, b) near = And(same, causal) mask = And(near, tokens)\n"}),
              HasSubstr("query"));
  // A prefix of 3 tokens that see each other.
  EXPECT_THAT(meaning({.mask = slot_mask + "early = Less(key_slot, window) open = Or(early, causal) mask = And(open, tokens)\n"}), HasSubstr("sees key"));
  // A bias by distance.
  EXPECT_THAT(meaning({.mask = slot_mask + "d = Sub(key_slot, query_slot) f = Cast<to = 1>(d) seen = And(causal, tokens) mask = Where(seen, f, lowest)\n"}),
              HasSubstr("the mask adds"));
  // Padding is read, but the wrong way round where there are two rows.
  EXPECT_THAT(
      meaning({.mask = slot_mask +
                       "some = ReduceMax<keepdims = 1>(attention_mask, axis_1) t = Cast<to = 9>(some) u = Unsqueeze(t, axes_1_2) mask = And(causal, u)\n"}),
      HasSubstr("sees key"));
  // A prompt of another length than this one's tokens say.
  EXPECT_THAT(meaning({.mask = "f = Cast<to = 9>(q) mask = Identity(f)\n"}), HasSubstr("it depends on q"));
}

TEST(CausalMask, AWindowThatEndsSomewhereIsNone) {
  // All keys up to 3 tokens, then 2: no window says that.
  const std::string odd =
      slot_mask +
      "d = Sub(query_slot, key_slot) near = Less(d, two) start = Less(query_slot, window) any = Or(near, start) c = And(any, causal) mask = And(c, tokens)\n";
  AttentionGraph g{.mask = odd};
  auto text = g.text();
  text.replace(text.find("int64 zero"), 10, "int64 two = {2}, int64 zero");
  auto model = ir::model_from_text(text);
  ops::TypeInference().infer(*model.graph);
  const auto found = causal_mask(*model.graph->last());
  ASSERT_TRUE(std::holds_alternative<std::string>(found));
}

TEST(PaddingMask, LookingAheadIsSeen) {
  const Typed fine({.mask = counted_window}), ahead({.mask = slot_mask + "mask = Identity(tokens)\n"});
  EXPECT_EQ(std::get<ir::Value*>(mask_without_lookahead(fine.attention()))->name, "attention_mask");
  EXPECT_THAT(std::get<std::string>(mask_without_lookahead(ahead.attention())), HasSubstr("sees key"));
}

TEST(Positions, CountTokens) {
  const auto skip = [](const std::string& nodes) {
    const Typed typed({.nodes = nodes + "unused = Identity(positions)\n"});
    return positions_skip(typed.model.graph->find_value("positions"), typed.attention()).value_or("");
  };
  EXPECT_EQ(skip("positions = Identity(position_ids)\n"), "");
  EXPECT_EQ(skip("positions = Sub(recent, one)\n"), "");
  EXPECT_THAT(skip("positions = Add(position_ids, one)\n"), HasSubstr("token 0 has position 1"));
  // Shifted beyond a threshold only.
  EXPECT_THAT(skip("m = ReduceMax<keepdims = 0>(position_ids) far = Greater(m, window) n = Cast<to = 7>(far) positions = Add(position_ids, n)\n"),
              HasSubstr("has position"));
}

}  // namespace
}  // namespace mobius::rules
