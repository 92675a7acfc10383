// Attention with a sink, written as a share of the plain one, becomes GroupQueryAttention with head_sink.
#include "mobius/rules/attention_graphs_test.hpp"
#include "mobius/rules/rule_test.hpp"

namespace mobius::rules {
namespace {

std::string replaced(std::string text, std::string_view what, std::string_view by) {
  const auto at = text.find(what);
  EXPECT_NE(at, std::string::npos) << what;
  return text.replace(at, what.size(), by);
}

// As components/decode.cpp makes it.
const std::string share = R"(
  seen = Where(mask, scores, far)
  log_sum = ReduceLogSumExp<keepdims = 1>(seen, axis_3)
  above = Sub(log_sum, sink)
  share = Sigmoid(above)
  by_token = Transpose<perm = [0, 2, 1, 3]>(share)
  heads = Reshape(plain, by_head)
  less = Mul(heads, by_token)
  y = Reshape(less, joined)
)";

std::string graph(AttentionGraph g = {}, const std::string& after = share) {
  auto text = replaced(g.text(), "  y, present_key, present_value = ", "  plain, present_key, present_value, scores = ");
  text = replaced(text, " <int64 zero",
                  " <float far = {-3.3e38}, int64[1] axis_3 = {3}, float[1,2,1,1] sink = {0.5, -1.0}, int64[4] by_head = {0, 0, 2, -1},"
                  " int64[3] joined = {0, 0, -1}, int64 zero");
  return replaced(text, "past_value)\n}", "past_value)\n" + after + "}");
}

const rewrite::Trials full_rows = {.contents = {{"attention_mask", "1"}, {"position_ids", "P.."}}};
const Setup usual = {.trials = full_rows};

const RuleExamples examples("GQAFusionSink",
                            {{.graph = graph(), .trials = full_rows, .on_runtime = one_row_or_one_token},
                             {.graph = graph({.mask = counted_window, .attributes = "q_num_heads = 2, kv_num_heads = 1, scale = 0.5"}),
                              .trials = full_rows,
                              .on_runtime = one_row_or_one_token}},
                            {{"Cast 1: attribute to changed", "the reference reads lengths of any integer type"},
                             {"Cast 1: left out", "the reference reads lengths of any integer type"},
                             {"Cast 2: attribute to changed", "the reference reads lengths of any integer type"},
                             {"Cast 2: left out", "the reference reads lengths of any integer type"},
                             {"GroupQueryAttention 1: attribute smooth_softmax set", "a sink is a smooth softmax already"},
                             {"ReduceSum 1: attribute keepdims changed", "the reference reads lengths [batch, 1] as [batch]"},
                             {"ReduceSum 1: attribute keepdims left out", "the reference reads lengths [batch, 1] as [batch]"},
                             {"Reshape 1: left out", "the reference reads sinks of any shape"},
                             {"Shape 1: attribute end changed", "the reference reads as many lengths as there are rows"},
                             {"Shape 1: attribute end left out", "the reference reads as many lengths as there are rows"},
                             {"Where 1: constant operand 2 changed", "any very low score hides a key"}});

// What GQAFusion leaves with rope outside.
const RuleExamples rope_examples(
    "FuseRoPE",
    {{.graph = "g (float[B,S,32] q, float[B,S,16] k, float[B,S,16] v, float[B,1,P,16] past_key, float[B,1,P,16] past_value, int32[B] seqlens_k, int32[1] total,"
               " int64[B,S] position_ids) => (float[B,S,32] y, float[B,1,\"P + S\",16] present_key, float[B,1,\"P + S\",16] present_value)"
               " <float[64,8] cos, float[64,8] sin, float[2] sink = {0.5, -1.0}> {"
               " q_rope = RotaryEmbedding<num_heads = 2>(q, cos, sin, position_ids) k_rope = RotaryEmbedding<num_heads = 1>(k, cos, sin, position_ids)"
               " y, present_key, present_value = com.microsoft.GroupQueryAttention<num_heads = 2, kv_num_heads = 1, scale = 0.5>"
               "(q_rope, k_rope, v, past_key, past_value, seqlens_k, total, \"\", \"\", \"\", \"\", sink) }",
      .trials = {.contents = {{"seqlens_k", "P + S - 1"}, {"total", "P + S"}, {"position_ids", "P.."}}},
      .on_runtime = one_row_or_one_token}},
    {{"GroupQueryAttention 1: attribute smooth_softmax set", "a sink is a smooth softmax already"}});

TEST(GqaSink, GoesIntoTheKernel) {
  for (const auto& g : {graph(), graph({.mask = counted_window})}) {
    const auto r = rewritten(gqa_fusion(), "cpu", g, usual);
    const auto* gqa = gqa_of(r.model);
    ASSERT_NE(gqa, nullptr) << r.report.nearest_miss;
    ASSERT_EQ(gqa->inputs().size(), 12u);
    EXPECT_EQ(rewrite::difference(r.original, r.model, full_rows).value_or(""), "");
  }
}

TEST(GqaSink, RopeGoesInsideToo) {
  const std::string rotated =
      "  q_rope = RotaryEmbedding<num_heads = 2>(q, cos, sin, position_ids)\n  k_rope = RotaryEmbedding<num_heads = 1>(k, cos, sin, position_ids)\n";
  const auto r = rewritten(gqa_fusion(), "cpu", graph({.q = "q_rope", .k = "k_rope", .nodes = rotated, .head_size = 16, .value_size = 16}), usual);
  const auto* gqa = gqa_of(r.model);
  ASSERT_NE(gqa, nullptr) << r.report.nearest_miss;
  EXPECT_EQ(gqa->int_attribute("do_rotary", 0), 1);
  EXPECT_NE(gqa->input(11), nullptr);
  EXPECT_EQ(rewrite::difference(r.original, r.model, full_rows).value_or(""), "");
}

TEST(GqaSink, StaysWhereTheKernelHasNone) { expect_unchanged(gqa_fusion(), "mlx", graph(), "scores has another user", usual); }

TEST(GqaSink, OtherShares) {
  const auto stays = [](const AttentionGraph& g, const std::string& after, std::string_view reason) {
    expect_unchanged(gqa_fusion(), "cpu", graph(g, after), reason, usual);
  };
  stays({.attributes = "q_num_heads = 2, kv_num_heads = 1, softcap = 2.0"}, share, "scores has another user");  // scores are those before it
  stays({}, replaced(share, "Where(mask, scores, far)", "Where(mask, scores, nothing)"), "what is hidden is not as low as a number gets");
  stays({}, replaced(share, "Sub(log_sum, sink)", "Sub(sink, log_sum)"), "no ReduceLogSumExp before it");
  stays({}, replaced(share, "Where(mask", "Where(causal"), "'mask' is two different values");
}

}  // namespace
}  // namespace mobius::rules
