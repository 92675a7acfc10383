#include "mobius/rules/attention_form.hpp"
#include "mobius/rules/rule_test.hpp"

namespace mobius::rules {
namespace {

const rewrite::Trials trials = {.contents = {{"mask", "1, 1, 1, 0"}}};

// Attention by heads: 4 query heads of 8, 2 key heads; projections q [B, S, 32], k and v [B, S, 16].
struct Graph {
  std::string q = "q4 = Reshape(q, heads) query = Transpose<perm = [0, 2, 1, 3]>(q4)";
  std::string k = "k4 = Reshape(k, kv_heads) key = Transpose<perm = [0, 2, 1, 3]>(k4)";
  std::string v = "v4 = Reshape(v, kv_heads) value = Transpose<perm = [0, 2, 1, 3]>(v4)";
  std::string attention = "a = Attention<scale = 0.5>(query, key, value, mask)";
  std::string back = "t = Transpose<perm = [0, 2, 1, 3]>(a) y = Reshape(t, flat)";
  std::string mask = "bool[B,1,S,S] mask";
  std::string outputs = "float[B,S,32] y";

  std::string text() const {
    return fmt::format(
        "g (int64[B,S] ids, float[B,S,32] q, float[B,S,16] k, float[B,S,16] v, float[B,2,P,8] past_key, float[B,2,P,8] past_value, {}) => ({})"
        " <int64[4] heads = {{0, 0, 4, 8}}, int64[4] kv_heads = {{0, 0, 2, 8}}, int64[3] flat = {{0, 0, -1}}, int64[1] two = {{2}},"
        " int64[1] four = {{4}}, int64[1] eight = {{8}}, int64[1] one = {{1}}, float half = {{0.5}}, float[1] quarter = {{0.25}}, int64 zero = {{0}}> {{ {} }}",
        mask, outputs, q + " " + k + " " + v + " " + attention + " " + back);
  }
};

const std::string cached_mask = "bool[B,1,S,\"P + S\"] mask";
// Joined with the past, each head twice.
std::string repeated(const std::string& what) {
  return fmt::format(
      "{0}4 = Reshape({0}, kv_heads) new_{0} = Transpose<perm = [0, 2, 1, 3]>({0}4) present_{1} = Concat<axis = -2>(past_{1}, new_{0})"
      " {0}_b = Shape<end = 1>(ids) {0}_t = Shape<start = 2, end = 3>(present_{1})"
      " {0}5 = Unsqueeze(present_{1}, two) {0}_many = Concat<axis = 0>({0}_b, two, two, {0}_t, eight) {0}6 = Expand({0}5, {0}_many)"
      " {0}_all = Concat<axis = 0>({0}_b, four, {0}_t, eight) {1} = Reshape({0}6, {0}_all)",
      what, what == "k" ? "key" : "value");
}
const Graph cached{.k = repeated("k"), .v = repeated("v"), .mask = cached_mask, .outputs = "float[B,S,32] y, present_key, present_value"};

Graph with_scaling() {
  Graph g;
  g.q += " q_scaled = Mul(query, half)";
  g.k = "k4 = Reshape(k, kv_heads) kt = Transpose<perm = [0, 2, 3, 1]>(k4) k_scaled = Div(kt, quarter) key = Transpose<perm = [0, 1, 3, 2]>(k_scaled)";
  g.attention = "a = Attention<scale = 1.0>(q_scaled, key, value, mask)";
  return g;
}
Graph with_own_cache() {
  Graph g = cached;
  g.k = Graph().k, g.v = Graph().v;
  g.attention = "a, present_key, present_value = Attention<scale = 0.5>(query, key, value, mask, past_key, past_value)";
  return g;
}
const RuleExamples examples("AttentionLayout", {{.graph = with_own_cache().text(), .trials = trials},
                                                {.graph = Graph().text(), .trials = trials},
                                                {.graph = cached.text(), .trials = trials},
                                                {.graph = with_scaling().text(), .trials = trials}});
const std::string undone_head = "g (float[B,S,8] x, float[B,1,S,8] z) => (y) <int64[4] heads = {0, 0, 2, 4}, int64[3] flat = {0, 0, 8}, int64[1] one = {1}> { ";
const RuleExamples undone_examples("UndoneMoves",
                                   {{.graph = undone_head + "a = Reshape(x, heads) b = Reshape(a, flat) y = Neg(b) }"},
                                    {.graph = undone_head + "a = Transpose<perm = [0, 2, 1]>(x) b = Transpose<perm = [0, 2, 1]>(a) y = Neg(b) }"},
                                    {.graph = undone_head + "a = Unsqueeze(x, one) b = Squeeze(a, one) y = Neg(b) }"},
                                    {.graph = undone_head + "a = Squeeze(z, one) b = Unsqueeze(a, one) y = Neg(b) }"}});
const std::string turned =
    "g (float[B,S,2,12] x) => (y, z, w) <int64[1] zero = {0}, int64[1] four = {4}, int64[1] last = {-1}, int64[2] two_parts = {4, 8}> {"
    " t = Transpose<perm = [0, 2, 1, 3]>(x) ";
const RuleExamples cut_examples("CutBeforeTurn",
                                {{.graph = turned + "a, b = Split<axis = 3>(t, two_parts) y = Neg(a) z = Neg(b) w = Neg(x) }"},
                                 {.graph = turned + "y, z, w = Split<axis = -1, num_outputs = 3>(t) }"},
                                 {.graph = turned + "y = Slice(t, zero, four, last) z = Neg(x) w = Abs(x) }"}},
                                {{"Split 1: attribute num_outputs left out", "there are as many parts as results"}});

const ir::Node* attention_in(const ir::Model& m) {
  for (const auto* n : m.graph->nodes())
    if (n->is("Attention")) return n;
  return nullptr;
}

TEST(AttentionLayout, WorksOnWhatTheProjectionsGive) {
  expect_rewrite(attention_layout(), "cpu", Graph().text(),
                 "g (int64[B,S] ids, float[B,S,32] q, float[B,S,16] k, float[B,S,16] v, float[B,2,P,8] past_key, float[B,2,P,8] past_value, bool[B,1,S,S] mask)"
                 " => (float[B,S,32] y) { y = Attention<kv_num_heads = 2, q_num_heads = 4, scale = 0.5>(q, k, v, mask) }",
                 {.trials = trials});
}

TEST(AttentionLayout, TakesCacheAndGroups) {
  expect_rewrite(attention_layout(), "cpu", cached.text(),
                 "g (int64[B,S] ids, float[B,S,32] q, float[B,S,16] k, float[B,S,16] v, float[B,2,P,8] past_key, float[B,2,P,8] past_value,"
                 " bool[B,1,S,\"P + S\"] mask) => (float[B,S,32] y, float[B,2,\"P + S\",8] present_key, float[B,2,\"P + S\",8] present_value) {"
                 " y, present_key, present_value = Attention<kv_num_heads = 2, q_num_heads = 4, scale = 0.5>(q, k, v, mask, past_key, past_value) }",
                 {.trials = trials});
}

// Scaling of queries and keys; a key that was turned for the product and is turned back; heads cut from a rank-3 detour.
TEST(AttentionLayout, TakesScalingAndDetours) {
  const auto g = with_scaling();
  const auto r = rewritten(attention_layout(), "cpu", g.text(), {});
  EXPECT_EQ(ops_of(*r.model.graph), "Attention");
  EXPECT_EQ(attention_in(r.model)->float_attribute("scale", 0), 2.0f);
  EXPECT_EQ(rewrite::difference(r.original, r.model, trials).value_or(""), "");
}

TEST(AttentionLayout, LeavesOutTheStandardScale) {
  Graph g;
  g.attention = "a = Attention<scale = 0.35355339>(query, key, value, mask)";
  const auto r = rewritten(attention_layout(), "cpu", g.text(), {});
  EXPECT_EQ(attention_in(r.model)->attribute("scale"), nullptr);
}

TEST(AttentionLayout, FlattensWhatLiesByHeads) {
  Graph g;
  g.k = "k4 = Reshape(k, kv_heads) k5 = Transpose<perm = [0, 2, 1, 3]>(k4) key = Neg(k5)";
  expect_rewrite(attention_layout(), "cpu", g.text(), "Reshape Transpose Neg Transpose Reshape Attention", {.trials = trials});
}

TEST(AttentionLayout, KeepsACacheThatTheNodeHas) { expect_rewrite(attention_layout(), "cpu", with_own_cache().text(), "Attention", {.trials = trials}); }

// The mask is for as many keys as the joined cache shows; it was there first, and goes on reading it.
TEST(AttentionLayout, AnEarlierReaderKeepsTheConcat) {
  Graph g = cached;
  g.v += " seen = Neg(present_key) late = Identity(present_value)";
  g.back += " z = Neg(late)";
  g.outputs += ", seen, z";
  const auto r = rewritten(attention_layout(), "cpu", g.text(), {.trials = trials});
  EXPECT_EQ(rewrite::difference(r.original, r.model, trials).value_or(""), "");
  EXPECT_THAT(ops_of(*r.model.graph), testing::HasSubstr("Concat Neg Identity Attention"));
  EXPECT_EQ(attention_in(r.model)->output(1)->name, "present_key");
}

// "Causal" counts from the end of past_key: with the cache among the keys it counts from their beginning.
TEST(AttentionLayout, LeavesTheCacheOutsideWhereTheNodeItselfIsCausal) {
  Graph g = cached;
  g.attention = "a = Attention<is_causal = 1>(query, key, value)";
  const auto r = rewritten(attention_layout(), "cpu", g.text(), {});
  EXPECT_EQ(attention_in(r.model)->input(4), nullptr);
  EXPECT_EQ(rewrite::difference(r.original, r.model).value_or(""), "");
}

// ── near misses ──

std::string by_heads(const std::string& operands) {
  return "g (float[B,4,S,8] query, float[B,4,T,8] key, float[B,4,T,8] value) => (y) { y = Attention(" + operands + ") }";
}

TEST(AttentionLayout, NotWhereNothingLiesByTokens) {
  expect_unchanged(attention_layout(), "cpu", by_heads("query, key, value"), "it is by heads on all sides");
}
TEST(AttentionLayout, NotWithHeadsThatAreNotKnown) {
  expect_unchanged(attention_layout(), "cpu", "g (float[B,H,S,8] q, float[B,H,T,8] k, float[B,H,T,8] v) => (y) { y = Attention(q, k, v) }",
                   "the numbers of heads or their sizes are not known");
}
// One head after the other and again from the first: not what grouped heads mean.
TEST(AttentionLayout, NotHeadsRepeatedInTurn) {
  Graph g;
  g.k = "k4 = Reshape(k, kv_heads) k5 = Transpose<perm = [0, 2, 1, 3]>(k4) key = Concat<axis = 1>(k5, k5)";
  g.v = "v4 = Reshape(v, kv_heads) v5 = Transpose<perm = [0, 2, 1, 3]>(v4) value = Concat<axis = 1>(v5, v5)";
  const auto r = rewritten(attention_layout(), "cpu", g.text(), {});
  ASSERT_NE(attention_in(r.model), nullptr);
  EXPECT_EQ(attention_in(r.model)->int_attribute("kv_num_heads", 0), 4);
  EXPECT_EQ(rewrite::difference(r.original, r.model, trials).value_or(""), "");
}
// Elements that were cut another way: still attention, but not on q as it is.
TEST(AttentionLayout, NotWhatWasCutAnotherWay) {
  Graph g;
  g.q = "q4 = Reshape(q, eights) query = Transpose<perm = [0, 3, 1, 2]>(q4)";
  auto text = g.text();
  text.replace(text.find("<int64[4] heads"), 1, "<int64[4] eights = {0, 0, 8, 4}, ");
  const auto r = rewritten(attention_layout(), "cpu", text, {});
  EXPECT_EQ(rewrite::difference(r.original, r.model, trials).value_or(""), "");
  EXPECT_NE(attention_in(r.model)->input(0)->name, "q");
}
TEST(AttentionLayout, NotWhereItsScoresAreRead) {
  Graph g;
  g.attention = "a, pk, pv, qk = Attention(query, key, value, mask)";
  g.outputs += ", float[B,4,S,S] qk";
  expect_unchanged(attention_layout(), "cpu", g.text(), "it has operands or results that other forms lack");
}

TEST(CutBeforeTurn, NotWhereTheLastAxisMovesOrIsNotCut) {
  const rewrite::RuleGroup group{"CutBeforeTurn", cuts_before_turns()};
  const std::string reason = "it is not cut along the size of heads that were turned to the front";
  auto other_axis = turned + "a, b = Split<axis = 2, num_outputs = 2>(t) y = Neg(a) z = Neg(b) w = Neg(x) }";
  expect_unchanged(group, "cpu", other_axis, reason);
  auto other_turn = turned + "y = Slice(t, zero, four, last) z = Neg(x) w = Abs(x) }";
  other_turn.replace(other_turn.find("[0, 2, 1, 3]"), 12, "[0, 1, 3, 2]");
  expect_unchanged(group, "cpu", other_turn, reason);
  expect_unchanged(group, "cpu", turned + "y = Slice(x, zero, four, last) z = Neg(t) w = Abs(x) }", reason);
}

// A cache behind the new keys stays a Concat: as the operator's keys it must not be empty.
TEST(AttentionLayout, TakesACacheInFrontOnly) {
  Graph behind = cached;
  for (auto* part : {&behind.k, &behind.v})
    for (const std::string what : {"key", "value"})
      if (const auto at = part->find("(past_" + what); at != std::string::npos)
        part->replace(at, part->find(')', at) - at, what == "key" ? "(new_k, past_key" : "(new_v, past_value");
  const auto r = rewritten(attention_layout(), "cpu", behind.text(), {.trials = trials});
  EXPECT_EQ(rewrite::difference(r.original, r.model, trials).value_or(""), "");
  EXPECT_EQ(attention_in(r.model)->input(4), nullptr) << ir::to_text(r.model);
  EXPECT_NE(attention_in(rewritten(attention_layout(), "cpu", cached.text(), {.trials = trials}).model)->input(4), nullptr);
}

}  // namespace
}  // namespace mobius::rules
