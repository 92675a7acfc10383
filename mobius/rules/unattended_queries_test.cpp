#include "mobius/rules/rule_test.hpp"

namespace mobius::rules {
namespace {

// Attention over 2 heads of 8, with a mask that hides padding by a low number, and zeros for the queries that `marks` marks.
std::string graph(const std::string& marks, const std::string& back, const std::string& mask = "low") {
  return "g (int64[B,S] ids, int64[B,\"P + S\"] attention_mask, float[B,S,16] q, float[B,S,16] k, float[B,S,16] v, float[B,2,P,8] past_key,"
         " float[B,2,P,8] past_value) => (y, float[B,2,\"P + S\",8] present_key, float[B,2,\"P + S\",8] present_value)"
         " <int64[4] heads = {0, 0, 2, 8}, int64[2] axes = {1, 2}, int64[1] last = {-1}, int64[1] one = {1}, float lowest = {-3.4e38}, float zero = {0},"
         " float least = {1.0}, float most = {2.0}, bool nobody = {0}> {"
         " token = Cast<to = 9>(attention_mask) row = Unsqueeze(token, axes) s = Shape<start = 1, end = 2>(ids) shape = Concat<axis = 0>(one, one, s, one)"
         " seen = Expand(row, shape) hidden = Not(seen) h = Cast<to = 1>(hidden) low = Mul(h, lowest) f = Cast<to = 1>(seen)"
         " count = ReduceSum<keepdims = 1>(f, last) " +
         marks + " a, present_key, present_value = Attention<q_num_heads = 2, kv_num_heads = 2>(q, k, v, " + mask +
         ", past_key, past_value) r = Reshape(a, heads) " + back + " }";
}
const std::string marked = "marks = Less(count, least)";
const std::string by_head = "t = Transpose<perm = [0, 2, 1, 3]>(r) y = Where(marks, zero, t)";
const std::string by_token = "m = Transpose<perm = [0, 2, 1, 3]>(marks) y = Where(m, zero, r)";
// A row of padding, a full one.
const rewrite::Trials padded = {.contents = {{"B", "2..3"}, {"P", "2..3"}, {"S", "2..3"}, {"attention_mask", "0, 0, 0, 0, 1, 1, 1, 1"}}};

const RuleExamples examples("UnattendedQueries", {{.graph = graph(marked, by_head), .trials = padded}, {.graph = graph(marked, by_token), .trials = padded}});

TEST(UnattendedQueries, AreWhatTheOperatorMakesZeros) {
  for (const auto& back : {by_head, by_token}) {
    const auto r = rewritten(unattended_queries(), "cpu", graph(marked, back));
    EXPECT_EQ(r.report.applied, 1u) << r.report.nearest_miss;
    EXPECT_THAT(ops_of(*r.model.graph), testing::Not(testing::HasSubstr("Where")));
    EXPECT_EQ(rewrite::difference(r.original, r.model, padded).value_or(""), "");
  }
}
TEST(UnattendedQueries, NotOtherQueries) {
  expect_unchanged(unattended_queries(), "cpu", graph("marks = Less(count, most)", by_head), "is marked");
  expect_unchanged(unattended_queries(), "cpu", graph("m4 = Less(count, least) marks = And(m4, nobody)", by_head), "is not marked");
}
TEST(UnattendedQueries, NotWithAnotherValueOrWithoutAMask) {
  expect_unchanged(unattended_queries(), "cpu", graph(marked, "t = Transpose<perm = [0, 2, 1, 3]>(r) y = Where(marks, least, t)"), "expected the constant 0");
  expect_unchanged(unattended_queries(), "cpu", graph(marked, by_head, "\"\""), "there is no mask");
}

}  // namespace
}  // namespace mobius::rules
