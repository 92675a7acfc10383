#include "mobius/rules/attention_graphs_test.hpp"
#include "mobius/rules/gqa.hpp"
#include "mobius/rules/rule_test.hpp"

namespace mobius::rules {
namespace {

const rewrite::Trials full_rows = {.contents = {{"attention_mask", "1"}, {"position_ids", "P.."}}};
const Setup usual = {.trials = full_rows};
// Padding before, within and behind the cache's tokens.
const Setup any_padding = {
    .trials =
        {.contents = {{"B", "3..4"}, {"P", "3..4"}, {"S", "2..3"}, {"attention_mask", "0, 0, 1, 1, 1, 1, 0, 1, 1, 1, 1, 1, 0, 1, 1"}, {"position_ids", "P.."}}},
    .padding = rewrite::Padding::any};

rewrite::Example with_any_padding(std::string graph) {
  return {.graph = std::move(graph), .trials = any_padding.trials, .on_runtime = {{{"S", "1..2"}, {"P", "4..5"}}}, .padding = rewrite::Padding::any};
}
const RuleExamples attention_examples(
    "GQAFusion",
    {{.graph = AttentionGraph{}.text(), .trials = full_rows, .on_runtime = one_row_or_one_token},
     {.graph = AttentionGraph{.mask = slot_causal}.text(), .trials = full_rows, .on_runtime = one_row_or_one_token},
     {.graph = AttentionGraph{.mask = counted_window, .attributes = "q_num_heads = 2, kv_num_heads = 1, scale = 0.5, softcap = 2.0"}.text(),
      .trials = full_rows,
      .on_runtime = one_row_or_one_token},
     {.graph = AttentionGraph{.mask = "", .operand = "\"\"", .attributes = "q_num_heads = 2, kv_num_heads = 1, is_causal = 1"}.text(),
      .trials = full_rows,
      .on_runtime = one_row_or_one_token,
      .padding = rewrite::Padding::right},
     with_any_padding(AttentionGraph{}.text()),
     with_any_padding(AttentionGraph{.mask = slot_causal}.text())},
    {{"Cast 1: attribute to changed", "the reference reads lengths of any integer type"},
     {"Cast 1: left out", "the reference reads lengths of any integer type"},
     {"Cast 2: left out", "the reference reads lengths of any integer type"},
     {"Cast 2: attribute to changed", "the reference reads lengths of any integer type"},
     {"ReduceSum 1: attribute keepdims changed", "the reference reads lengths [batch, 1] as [batch]"},
     {"ReduceSum 1: attribute keepdims left out", "the reference reads lengths [batch, 1] as [batch]"},
     {"Shape 2: attribute end changed", "the reference reads as many lengths as there are rows"},
     {"Shape 2: attribute end left out", "the reference reads as many lengths as there are rows"},
     {"Max 1: left out", "the scores of these masks are finite"},
     {"Max 1: constant operand 1 changed", "any very low score hides a key"},
     {"Where 1: constant operand 2 changed", "any very low score hides a key"},
     {"Where 1: constant operand 1 changed", "softmax does not see what is added to all scores"}});
// What GQAFusion leaves with rope outside.
std::string rope_outside(std::string_view attributes) {
  return fmt::format(
      "g (float[B,S,32] q, float[B,S,16] k, float[B,S,16] v, float[B,1,P,16] past_key, float[B,1,P,16] past_value, int32[B] seqlens_k, int32[1] total,"
      " int64[B,S] position_ids) => (float[B,S,32] y, float[B,1,\"P + S\",16] present_key, float[B,1,\"P + S\",16] present_value)"
      " <float[64,8] cos, float[64,8] sin> {{"
      " q_rope = RotaryEmbedding<num_heads = 2{0}>(q, cos, sin, position_ids) k_rope = RotaryEmbedding<num_heads = 1{0}>(k, cos, sin, position_ids)"
      " y, present_key, present_value = com.microsoft.GroupQueryAttention<num_heads = 2, kv_num_heads = 1, scale = 0.5>"
      "(q_rope, k_rope, v, past_key, past_value, seqlens_k, total) }}",
      attributes);
}
const rewrite::Trials known_lengths = {.contents = {{"seqlens_k", "P + S - 1"}, {"total", "P + S"}, {"position_ids", "P.."}}};
const RuleExamples rope_examples("FuseRoPE", {{.graph = rope_outside(""), .trials = known_lengths, .on_runtime = one_row_or_one_token},
                                              {.graph = rope_outside(", interleaved = 1"), .trials = known_lengths, .on_runtime = one_row_or_one_token}});

// The same with the cosines of the positions at hand, as exporters write it: angles by Mul, or by a product of matrices.
std::string rope_of_angles(const std::string& angles, const std::string& tables = "cos = Cos(angles) sin = Sin(angles)") {
  return "g (float[B,S,32] q, float[B,S,16] k, float[B,S,16] v, float[B,1,P,16] past_key, float[B,1,P,16] past_value, int32[B] seqlens_k, int64[1] slots,"
         " int64[B,S] position_ids) => (float[B,S,32] y, float[B,1,\"P + S\",16] present_key, float[B,1,\"P + S\",16] present_value)"
         " <float[8] inv_freq = {1.0, 0.5, 0.25, 0.125, 0.0625, 0.03125, 0.015625, 0.0078125}, int64[1] one = {1}, int64[1] two = {2}, int64[1] zero = {0},"
         " float factor = {1.5}> {"
         " total = Cast<to = 6>(slots) column = Unsqueeze(position_ids, two) floats = Cast<to = 1>(column) " +
         angles + " " + tables +
         " q_rope = RotaryEmbedding<num_heads = 2>(q, cos, sin) k_rope = RotaryEmbedding<num_heads = 1>(k, cos, sin)"
         " y, present_key, present_value = com.microsoft.GroupQueryAttention<num_heads = 2, kv_num_heads = 1, scale = 0.5>"
         "(q_rope, k_rope, v, past_key, past_value, seqlens_k, total) }";
}
const std::string multiplied = "angles = Mul(floats, inv_freq)";
const std::string by_matrices = "row = Unsqueeze(inv_freq, zero) angles = MatMul(floats, row)";
const rewrite::Trials known_slots = {.contents = {{"seqlens_k", "P + S - 1"}, {"slots", "P + S"}, {"position_ids", "P.."}}};
const RuleExamples angle_examples("FuseRoPEOfAngles",
                                  {{.graph = rope_of_angles(multiplied), .trials = known_slots, .on_runtime = one_row_or_one_token},
                                   {.graph = rope_of_angles(by_matrices, "c = Cos(angles) s = Sin(angles) cos = Mul(c, factor) sin = Mul(s, factor)"),
                                    .trials = known_slots,
                                    .on_runtime = one_row_or_one_token}},
                                  {{"Cast 1: left out", "the reference counts in numbers of any type"},
                                   {"Squeeze 1: left out", "the reference takes a count [1] for a scalar"},
                                   {"Squeeze 1: operand 1 left out", "the count has one axis"}});

const std::string rotated = R"(
  q_rope = RotaryEmbedding<num_heads = 2>(q, cos, sin, position_ids)
  k_rope = RotaryEmbedding<num_heads = 1>(k, cos, sin, position_ids)
)";

// Applies the group and removes what the mask was: nothing reads it any more.
std::string ops_after(const AttentionGraph& g, std::string_view ep = "cpu", const Setup& setup = usual) {
  auto r = rewritten(gqa_fusion(), ep, g.text(), setup);
  EXPECT_EQ(rewrite::difference(r.original, r.model, setup.trials).value_or(""), "");
  std::string ops;
  for (const auto* n : r.model.graph->nodes())
    if (n->is("Attention") || n->is("RotaryEmbedding") || !n->op.domain.empty()) ops += std::string(n->op.type) + " ";
  return ops.empty() ? ops : ops.substr(0, ops.size() - 1);
}

TEST(GqaFusion, FiresOnEveryCausalMask) {
  EXPECT_EQ(ops_after({}), "GroupQueryAttention");
  EXPECT_EQ(ops_after({.mask = slot_causal}), "GroupQueryAttention");
  EXPECT_EQ(ops_after({.mask = "", .operand = "\"\"", .attributes = "q_num_heads = 2, kv_num_heads = 1, is_causal = 1"}), "GroupQueryAttention");
}

TEST(GqaFusion, CarriesScaleSoftcapAndWindow) {
  const AttentionGraph g{.mask = counted_window, .attributes = "q_num_heads = 2, kv_num_heads = 1, scale = 0.5, softcap = 20.0"};
  EXPECT_EQ(ops_after(g), "GroupQueryAttention");
  const auto r = rewritten(gqa_fusion(), "cpu", g.text(), usual);
  const auto* gqa = gqa_of(r.model);
  ASSERT_NE(gqa, nullptr);
  EXPECT_EQ(gqa->float_attribute("scale", 0), 0.5f);
  EXPECT_EQ(gqa->float_attribute("softcap", 0), 20.0f);
  EXPECT_EQ(gqa->int_attribute("local_window_size", -1), 3);
}

TEST(GqaFusion, ComputesATableWhereAnglesAreComputed) {
  for (const auto& angles : {multiplied, by_matrices}) {
    const auto r = rewritten({"FuseRoPEOfAngles", rope_inside_gqa()}, "cpu", rope_of_angles(angles), {.trials = known_slots});
    const auto* gqa = gqa_of(r.model);
    ASSERT_NE(gqa, nullptr);
    EXPECT_EQ(gqa->int_attribute("do_rotary", 0), 1) << r.report.nearest_miss;
    EXPECT_EQ(rewrite::difference(r.original, r.model, known_slots).value_or(""), "");
  }
}

TEST(GqaFusion, LeavesRopeWhoseAnglesAreNoPositionsTimesFrequencies) {
  const auto miss = [](const std::string& angles, const std::string& tables = "cos = Cos(angles) sin = Sin(angles)") {
    const auto r = rewritten({"FuseRoPEOfAngles", rope_inside_gqa()}, "cpu", rope_of_angles(angles, tables), {.trials = known_slots});
    EXPECT_EQ(r.report.applied, 0u);
    return r.report.nearest_miss;
  };
  EXPECT_THAT(miss("later = Add(floats, factor) angles = Mul(later, inv_freq)"), testing::HasSubstr("angles are not positions times frequencies"));
  EXPECT_THAT(miss("squared = Mul(floats, floats) angles = Mul(squared, inv_freq)"), testing::HasSubstr("angles are not positions times frequencies"));
  // Frequencies that follow the longest position, as dynamic scaling has them.
  EXPECT_THAT(miss("top = ReduceMax<keepdims = 0>(floats) rate = Div(inv_freq, top) angles = Mul(floats, rate)"), testing::HasSubstr("angles"));
  EXPECT_THAT(miss(multiplied, "more = Mul(angles, factor) cos = Cos(angles) sin = Sin(more)"),
              testing::HasSubstr("are not cosines and sines of the same angles"));
  EXPECT_THAT(miss(multiplied, "cos = Sin(angles) sin = Cos(angles)"), testing::HasSubstr("are not cosines and sines of the same angles"));
}

TEST(GqaFusion, TakesRopeInside) {
  const AttentionGraph g{.q = "q_rope", .k = "k_rope", .nodes = rotated, .head_size = 16, .value_size = 16};
  EXPECT_EQ(ops_after(g), "GroupQueryAttention");
  // Not where the kernel has none, nor where rows of the table are too short for it.
  EXPECT_EQ(ops_after(g, "dml", {.dtype = ir::DataType::float32, .trials = full_rows}), "RotaryEmbedding RotaryEmbedding Attention");
  EXPECT_EQ(ops_after({.q = "q_rope", .k = "k_rope", .nodes = rotated}), "RotaryEmbedding RotaryEmbedding GroupQueryAttention");
  // Keys and queries by different positions.
  const std::string two = rotated + "later = Add(position_ids, one) k_late = RotaryEmbedding<num_heads = 1>(k, cos, sin, later)\n";
  EXPECT_EQ(ops_after({.q = "q_rope", .k = "k_late", .nodes = two, .head_size = 16, .value_size = 16}),
            "RotaryEmbedding RotaryEmbedding RotaryEmbedding GroupQueryAttention");
}

TEST(GqaFusion, RopeWithShiftedPositionsStaysOutside) {
  const std::string shifted = R"(
  far = Add(position_ids, one)
  q_rope = RotaryEmbedding<num_heads = 2>(q, cos, sin, far)
  k_rope = RotaryEmbedding<num_heads = 1>(k, cos, sin, far)
)";
  EXPECT_EQ(ops_after({.q = "q_rope", .k = "k_rope", .nodes = shifted, .head_size = 16, .value_size = 16}),
            "RotaryEmbedding RotaryEmbedding GroupQueryAttention");
}

TEST(GqaFusion, LayersShareWhatTheKernelIsTold) {
  const std::string text =
      "g (int64[B,S] input_ids, int64[B,\"P + S\"] attention_mask, float[B,S,8] q, float[B,1,P,8] a, float[B,1,P,8] b, float[B,1,P,8] c, float[B,1,P,8] d)"
      " => (float[B,S,8] y, float[B,1,\"P + S\",8] pa, float[B,1,\"P + S\",8] pb, float[B,1,\"P + S\",8] pc, float[B,1,\"P + S\",8] pd)"
      " <int64 one = {1}, int64 zero = {0}, int64 many = {2147483647}, int64[1] last = {9223372036854775807}, int64[1] axis_1 = {1},"
      " int64[2] axes_1_2 = {1, 2}, int64[2] axes_1_3 = {1, 3}> {" +
      counted_causal +
      "x, pa, pb = Attention<q_num_heads = 1, kv_num_heads = 1>(q, q, q, mask, a, b)"
      "y, pc, pd = Attention<q_num_heads = 1, kv_num_heads = 1>(x, x, x, mask, c, d) }";
  const auto r = rewritten(gqa_fusion(), "cpu", text);
  EXPECT_EQ(r.report.applied, 2u);
  EXPECT_EQ(r.report.change_per_op.at("ReduceSum"), 1);
  EXPECT_EQ(r.report.change_per_op.at("Cast"), 1);  // two more, and that of the mask is gone
  EXPECT_EQ(rewrite::difference(r.original, r.model, {.contents = {{"attention_mask", "1"}}}).value_or(""), "");
}

TEST(GqaFusion, WithAnyPaddingTheMaskGoesAlong) {
  EXPECT_EQ(ops_after({}, "cpu", any_padding), "GroupQueryAttention");
  EXPECT_EQ(ops_after({.mask = counted_window}, "cpu", any_padding), "GroupQueryAttention");
  EXPECT_EQ(ops_after({.mask = slot_causal}, "cpu", any_padding), "GroupQueryAttention");
  EXPECT_EQ(ops_after({.q = "q_rope", .k = "k_rope", .nodes = rotated, .head_size = 16, .value_size = 16}, "cpu", any_padding),
            "RotaryEmbedding RotaryEmbedding GroupQueryAttention");
  auto setup = any_padding;
  setup.dtype = ir::DataType::float16;
  expect_unchanged(gqa_fusion(), "cuda", AttentionGraph{}.text(), "the kernel", setup);
}

// ALiBi: scores fall with the distance, by a slope of each head's own.
const std::string alibi = counted_causal + R"(
  ordinal = CumSum(attention_mask, one)
  key_floats = Cast<to = 1>(ordinal)
  key_row = Unsqueeze(key_floats, axes_1_2)
  distances = Mul(key_row, slopes)
  mask_and_distances = Where(mask, distances, lowest)
)";

TEST(GqaFusion, AMaskThatAddsToScoresGoesAlong) {
  const AttentionGraph g{.mask = alibi, .operand = "mask_and_distances"};
  auto text = g.text();
  text.replace(text.find("float nothing"), 0, "float[1,2,1,1] slopes = {0.5, 0.25}, ");
  for (const auto& setup : {usual, any_padding}) {
    const auto r = rewritten(gqa_fusion(), "cpu", text, setup);
    const auto* gqa = gqa_of(r.model);
    ASSERT_NE(gqa, nullptr) << r.report.nearest_miss;
    EXPECT_NE(gqa->input(10), nullptr);
    EXPECT_EQ(rewrite::difference(r.original, r.model, setup.trials).value_or(""), "");
  }
  // A kernel without a bias can't be told: then the first reason is given.
  const auto r = rewritten(gqa_fusion(), "mlx", text, usual);
  EXPECT_EQ(r.report.applied, 0u);
  EXPECT_THAT(r.report.nearest_miss, testing::HasSubstr("the mask is not causal with padding: the mask adds"));
}

TEST(GqaFusion, NumbersBehindAMaskMayDependOnTheTokens) {
  const auto mask = counted_causal + "number = ReduceMean<keepdims = 1>(q)\n mask_and_number = Where(mask, number, lowest)\n";
  for (const auto& setup : {usual, any_padding}) {
    const auto r = rewritten(gqa_fusion(), "cpu", AttentionGraph{.mask = mask, .operand = "mask_and_number"}.text(), setup);
    EXPECT_NE(gqa_of(r.model), nullptr) << r.report.nearest_miss;
    EXPECT_EQ(rewrite::difference(r.original, r.model, setup.trials).value_or(""), "");
  }
  // The other way round nothing is known of what is hidden.
  const auto turned = counted_causal + "number = ReduceMean<keepdims = 1>(q)\n mask_and_number = Where(mask, lowest, number)\n";
  EXPECT_EQ(rewritten(gqa_fusion(), "cpu", AttentionGraph{.mask = turned, .operand = "mask_and_number"}.text(), usual).report.applied, 0u);
}

// ── what is left alone, and why ──────────────────────────────────────────────────────────────────────────────────────────

void expect_left(const AttentionGraph& g, std::string_view reason, std::string_view ep = "cpu", const Setup& setup = usual) {
  expect_unchanged(gqa_fusion(), ep, g.text(), reason, setup);
}

TEST(GqaFusion, NotForOtherTargets) {
  expect_left({}, "", "default");
  expect_left({}, "", "cuda");  // in float32
  expect_left({}, "", "cpu", {.role = "encoder", .trials = full_rows});
}
TEST(GqaFusion, NotWithAnotherMask) {
  expect_left({.mask = slot_mask + "mask = Identity(tokens)\n"}, "the mask is not causal with padding: mask [1, 1, 1, 1, 1, 1]: query 0 sees key 5");
}
TEST(GqaFusion, NotWithHeadsThatTheKernelCantTake) {
  expect_left({.head_size = 12, .value_size = 12}, "the head size 12 is no multiple of 8");
  expect_left({.value_size = 16}, "key heads have size 8, value heads 16");
}
TEST(GqaFusion, NotWithASoftcapOrWindowThatTheKernelLacks) {
  expect_left({.attributes = "q_num_heads = 2, kv_num_heads = 1, softcap = 20.0"}, "the kernel has no softcap", "webgpu");
  expect_left({.mask = counted_window}, "the kernel has no window", "mlx");
}
TEST(GqaFusion, NotWhenScoresAreAskedFor) {
  expect_left({.attributes = "q_num_heads = 2, kv_num_heads = 1, qk_matmul_output_mode = 1"}, "attribute qk_matmul_output_mode is set");
}

}  // namespace
}  // namespace mobius::rules
