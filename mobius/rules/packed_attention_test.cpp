#include "mobius/rules/rule_test.hpp"

namespace mobius::rules {
namespace {

// Attention over 2 heads of 4 in one row of T tokens; `nodes` make `mask` from `ends`, the sequences' bounds.
std::string graph(const std::string& nodes, const std::string& ends = "int64[N] ends", const std::string& attributes = "q_num_heads = 2, kv_num_heads = 2",
                  const std::string& type = "float") {
  return fmt::format(
      "g ({0}[1,T,8] q, {0}[1,T,8] k, {0}[1,T,8] v, {1}) => ({0}[1,T,8] y)"
      " <int64[1] one = {{1}}, int64[1] axis = {{0}}, int64[1] last = {{-1}}, int64[1] all = {{9223372036854775807}}, int64 zero = {{0}}, int64 step = {{1}}, "
      "int64[1] second = {{1}},"
      " {0} none = {{0.0}}, {0} low = {{-60000.0}}>"
      " {{ shape = Shape<start = 1, end = 2>(q) count = Squeeze(shape, axis) tokens = Range(zero, count, step) row = Unsqueeze(tokens, axis) column = "
      "Unsqueeze(tokens, one)"
      " {2} y = Attention<{3}>(q, k, v, mask) }}",
      type, ends, nodes, attributes);
}

// The number of a token's sequence: of the ends behind it.
const std::string numbered =
    "stops = Slice(ends, one, all, axis) past = LessOrEqual(stops, column) f = Cast<to = 1>(past) block = ReduceSum<keepdims = 1>(f, one) other = "
    "Transpose<perm = [1, 0]>(block) ";
const std::string blocks = numbered + "mask = Equal(block, other)";
const std::string blocks_as_bias = numbered + "same = Equal(block, other) mask = Where(same, none, low)";
// Bounds of which the first and the last one say nothing.
const std::string of_any_form =
    "wide = Cast<to = 7>(ends) past = LessOrEqual(wide, column) f = Cast<to = 1>(past) block = ReduceSum<keepdims = 1>(f, one)"
    " other = Transpose<perm = [1, 0]>(block) mask = Equal(block, other)";

rewrite::Trials with_bounds(const std::string& list) {
  const auto n = 1 + std::ranges::count(std::string_view(list), ',');
  return {.contents = {{"ends", list}, {"T", "7..8"}, {"N", fmt::format("{}..{}", n, n + 1)}}};
}
const auto three_sequences = with_bounds("0, 2, 3, 7");

const RuleExamples examples("PackedMultiHeadAttention",
                            {{.graph = graph(blocks), .trials = three_sequences},
                             {.graph = graph(blocks_as_bias, "int64[N] ends", "q_num_heads = 2, kv_num_heads = 2, scale = 0.3"), .trials = three_sequences},
                             {.graph = graph(of_any_form, "int32[N] ends"), .trials = with_bounds("2, 3")},
                             {.graph = graph(of_any_form, "int32[N] ends"), .trials = three_sequences}},
                            {{"Cast 1: left out", "the reference counts in integers of any type"},
                             {"Cast 1: attribute to changed", "the reference counts in integers of any type"},
                             {"Cast 2: left out", "the reference counts in integers of any type"},
                             {"Cast 2: attribute to changed", "the reference counts in integers of any type"},
                             {"And 1: is Or", "an empty sequence at either end changes no number"},
                             {"And 1: left out", "an empty sequence at either end changes no number"},
                             {"Compress 1: left out", "an empty sequence at either end changes no number"},
                             {"Greater 1: constant operand 1 changed", "an empty sequence at either end changes no number"},
                             {"Greater 1: is GreaterOrEqual", "an empty sequence at either end changes no number"},
                             {"Greater 1: left out", "an empty sequence at either end changes no number"},
                             {"Less 1: is LessOrEqual", "an empty sequence at either end changes no number"},
                             {"Less 1: left out", "an empty sequence at either end changes no number"},
                             {"Compress 1: attribute axis left out", "the list has one axis"},
                             {"ReduceMax 1: attribute keepdims changed", "the reference takes a limit [1] for a scalar"},
                             {"ReduceMax 1: attribute keepdims left out", "the reference takes a limit [1] for a scalar"},
                             {"Slice 1: operand 3 left out", "the list has one axis"},
                             {"Slice 2: operand 3 left out", "the list has one axis"},
                             {"Squeeze 1: operand 1 left out", "the row is the only axis of length 1"},
                             {"Squeeze 2: operand 1 left out", "the row is the only axis of length 1"},
                             {"Squeeze 3: operand 1 left out", "the row is the only axis of length 1"}});

constexpr std::string_view packed =
    "Shape Squeeze Range Unsqueeze Slice Squeeze Squeeze Squeeze Greater Less And Compress Concat Slice Slice Sub ReduceMax Range Unsqueeze Less Reshape"
    " NonZero Not NonZero Concat Shape Reshape Cast Cast PackedMultiHeadAttention Unsqueeze";

TEST(PackedMultiHeadAttention, TakesSequencesOneBehindTheOther) {
  expect_rewrite(packed_multi_head_attention(), "cuda", graph(blocks), packed, {.role = "vision_encoder", .trials = three_sequences});
  const auto r = rewritten(packed_multi_head_attention(), "cuda", graph(blocks_as_bias));
  EXPECT_EQ(r.report.applied, 1u) << r.report.nearest_miss;
}

TEST(PackedMultiHeadAttention, FindsTheBoundsBehindOtherIntegers) {
  const std::string from_lengths = "zeros = Sub(one, one) sums = CumSum(lengths, zero) ends = Concat<axis = 0>(zeros, sums) ";
  const auto r = rewritten(packed_multi_head_attention(), "cuda", graph(from_lengths + blocks, "int64[N] lengths"));
  EXPECT_EQ(r.report.applied, 1u) << r.report.nearest_miss;
  const rewrite::Trials trials = {.contents = {{"lengths", "2, 1, 4"}, {"T", "7..8"}, {"N", "3..4"}}};
  EXPECT_EQ(rewrite::difference(r.original, r.model, trials).value_or(""), "");
}

TEST(PackedMultiHeadAttention, TakesBoundsWithoutTheFirstOrLast) {
  for (const auto& list : {"0, 2, 3, 7", "2, 3, 7", "0, 2, 3", "2, 3"}) {
    const auto r = rewritten(packed_multi_head_attention(), "cuda", graph(of_any_form, "int32[N] ends"));
    EXPECT_EQ(rewrite::difference(r.original, r.model, with_bounds(list)).value_or(""), "") << list;
  }
}

TEST(PackedMultiHeadAttention, NotOtherMasks) {
  const auto miss = [](const std::string& nodes, const std::string& reason) { expect_unchanged(packed_multi_head_attention(), "cuda", graph(nodes), reason); };
  miss(numbered + "same = Equal(block, other) seen = LessOrEqual(row, column) mask = And(same, seen)",
       "with sequences of 4 tokens: query 0 does not see key 1");
  miss(numbered + "mask = LessOrEqual(other, block)", "with sequences of 2, 2 tokens: query 2 sees key 0");
  miss(numbered + "distance = Sub(other, block) scaled = Abs(distance) mask = Neg(scaled)", "with sequences of 2, 2 tokens: the mask adds -1 to scores");
  miss(numbered + "same = Equal(block, other) here = Equal(row, column) mask = And(same, here)", "query 0 does not see key 1");
  miss("mask = LessOrEqual(row, column)", "with sequences of 1, 2 tokens: query 1 sees key 0");  // Range makes a list too
}

TEST(PackedMultiHeadAttention, NotOtherForms) {
  const auto rule = packed_multi_head_attention();
  auto fewer = graph(blocks, "int64[N] ends", "q_num_heads = 2, kv_num_heads = 1");
  for (const auto& x : {"[1,T,8] k", "[1,T,8] v"}) fewer.replace(fewer.find(x), 9, std::string("[1,T,4]") + x[8 - 1] + x[8]);
  expect_unchanged(rule, "cuda", fewer, "as many key heads as query heads");
  expect_unchanged(rule, "cuda", graph(blocks, "int64[N] ends", "q_num_heads = 2, kv_num_heads = 2, softcap = 2.0"), "softcap");
  expect_unchanged(rule, "cuda", graph(blocks, "int64[2] ends"), "fixes the number");
  expect_unchanged(rule, "cuda", graph(blocks, "int64[N] ends", "q_num_heads = 2, kv_num_heads = 2", "bfloat16"), "BFLOAT16");
  expect_unchanged(rule, "cpu", graph(blocks), "");
}

}  // namespace
}  // namespace mobius::rules
