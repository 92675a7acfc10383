// PackQKV, UnpackQKV, SeparateRoPE and EliminateShape.
#include "mobius/rules/rule_test.hpp"

namespace mobius::rules {
namespace {

// x -> GroupQueryAttention, its projections given as nodes that define q, k and v (or `packed`); heads of 16, 2 for queries, 1 for keys.
std::string graph(const std::string& weights, const std::string& nodes, const std::string& operands, const std::string& attributes = "do_rotary = 1") {
  return "g (float[B,S,8] x, int64[B,\"P + S\"] attention_mask, int32[B] seqlens, int32[1] total, float[B,1,P,16] past_key, float[B,1,P,16] past_value)"
         " => (float[B,S,32] y, float[B,1,\"P + S\",16] present_key, float[B,1,\"P + S\",16] present_value)"
         " <float[64,8] cos, float[64,8] sin, int64[3] sizes = {32, 16, 16}, " +
         weights + "> { " + nodes + " y, present_key, present_value = com.microsoft.GroupQueryAttention<num_heads = 2, kv_num_heads = 1, " + attributes + ">(" +
         operands + ") }";
}

const Setup usual = {.trials = {.contents = {{"B", "2..3"}, {"seqlens", "P + S - 1"}, {"total", "P + S"}, {"attention_mask", "1"}}}};

// The operands of GroupQueryAttention beside queries, keys and values.
rewrite::Example attending(std::map<std::string, std::string> variables, const char* do_rotary = "1") {
  variables.merge(std::map<std::string, std::string>{
      {"past_key", "B,1,P,16"}, {"past_value", "B,1,P,16"}, {"seqlens_k", "int32[B]"}, {"total", "int32[1]"}, {"cos", "64,8"}, {"sin", "64,8"}, {"sink", "2"}});
  return {.variables = std::move(variables),
          .attributes = {{"num_heads", "2"},
                         {"kv_num_heads", "1"},
                         {"scale", "0.5"},
                         {"local_window_size", "2"},
                         {"smooth_softmax", "1"},
                         {"rotary_interleaved", "1"},
                         {"do_rotary", do_rotary}},
          .trials = {.contents = {{"B", "2..3"}, {"P", "0..4"}, {"seqlens_k", "P + S - 1"}, {"total", "P + S"}}},
          .on_runtime = one_row_or_one_token};
}
rewrite::Example right_padded_prompt(rewrite::Example e) {
  e.on_runtime = {{{"seqlens_k", "S - 1"}}};  // what queries get that are padding is the kernel's own affair
  e.trials.contents["P"] = "0..1";
  e.trials.contents["seqlens_k"] = "0..S";
  return e;
}
const std::map<std::string, std::string> queries_keys_values = {{"q", "B,S,32"}, {"k", "B,S,16"}, {"v", "B,S,16"}};
std::map<std::string, std::string> with_positions(std::map<std::string, std::string> variables) {
  variables["position_ids"] = "int64[B,S]";
  return variables;
}
// In a prompt the kernel of ONNX Runtime's CPU provider counts on from the first position that it is given.
rewrite::Example numbered(rewrite::Example e) {
  for (auto& contents : e.on_runtime) contents["position_ids"] = "P..";
  return e;
}
const rewrite::Example weights_out_in = attending({{"x", "B,S,8"},
                                                   {"q_weight", "constant 32,8"},
                                                   {"k_weight", "constant 16,8"},
                                                   {"v_weight", "constant 16,8"},
                                                   {"q_bias", "constant 32"},
                                                   {"k_bias", "constant 16"},
                                                   {"v_bias", "constant 16"}});
const rewrite::Example weights_in_out = attending({{"x", "B,S,8"},
                                                   {"q_weight", "constant 8,32"},
                                                   {"k_weight", "constant 8,16"},
                                                   {"v_weight", "constant 8,16"},
                                                   {"q_bias", "constant 32"},
                                                   {"k_bias", "constant 16"},
                                                   {"v_bias", "constant 16"}});
const std::map<std::string, std::string> without_rope = {{"GroupQueryAttention 1: attribute rotary_interleaved changed", "of no account without rope inside"},
                                                         {"GroupQueryAttention 1: attribute rotary_interleaved left out", "of no account without rope inside"}};
std::map<std::string, std::string> without_rope_or_with_sink() {
  auto all = without_rope;
  for (const auto* what : {"set", "changed", "left out"})
    all[std::string("GroupQueryAttention 1: attribute smooth_softmax ") + what] = "a sink is a smooth softmax already";
  return all;
}
const RuleExamples packing("PackQKV", {weights_out_in, weights_in_out}, without_rope_or_with_sink());
const RuleExamples unpacking("UnpackQKV", {attending({{"packed", "B,S,64"}}), attending({{"packed", "B,S,64"}}, "0")}, without_rope);
const RuleExamples ropes("SeparateRoPE",
                         {attending(queries_keys_values), right_padded_prompt(attending(queries_keys_values)),
                          numbered(attending(with_positions(queries_keys_values)))},
                         {{"Squeeze 1: operand 1 left out", "there is one axis only"},
                          {"Squeeze 1: left out", "the reference reads the one element of a list"},
                          {"Cast 1: left out", "the reference adds any integers"},
                          {"Cast 2: left out", "the reference adds any integers"}});
rewrite::Example slots_counted_by(const std::string& nodes) {
  return {.graph = graph("float[8,64] w, int64 second = {1}, int64[1] seconds = {1}",
                         nodes + " all = Cast<to = 6>(slots) p = MatMul(x, w) q, k, v = Split<axis = 2>(p, sizes)",
                         "q, k, v, past_key, past_value, seqlens, all", "do_rotary = 0"),
          .trials = usual.trials,
          .on_runtime = one_row_or_one_token};
}
const RuleExamples slots("EliminateShape",
                         {slots_counted_by("slots = Shape<start = 1, end = 2>(attention_mask)"),
                          slots_counted_by("dims = Shape(attention_mask) slots = Gather(dims, second)"),
                          slots_counted_by("dims = Shape(attention_mask) slots = Gather<axis = 0>(dims, seconds)")},
                         {{"Cast 1: attribute to changed", "the reference reads a length of any integer type"},
                          {"Cast 1: left out", "the reference reads a length of any integer type"},
                          {"ReduceSum 1: attribute keepdims changed", "the maximum of [batch, 1] and of [batch] is the same"},
                          {"ReduceSum 1: attribute keepdims left out", "the maximum of [batch, 1] and of [batch] is the same"},
                          {"ReduceMax 1: attribute keepdims changed", "the total may be a scalar or have one element"},
                          {"ReduceMax 1: attribute keepdims left out", "the total may be a scalar or have one element"},
                          {"ReduceMax 1: operand 1 left out", "there is one axis only"}});
const RuleExamples split_bias("SplitBias", {{.variables = {{"product", "B,S,8"}, {"bias", "constant 8"}, {"sizes", "= 4, 1, 3"}}}});
const RuleExamples split_product("SplitProduct", {{.variables = {{"x", "B,S,5"}, {"weight", "constant 8,5"}, {"sizes", "= 4, 1, 3"}}},
                                                  {.variables = {{"x", "B,S,5"}, {"weight", "constant 5,8"}, {"sizes", "= 4, 1, 3"}}}});

const std::string separate_weights = "float[32,8] wq, float[16,8] wk, float[16,8] wv";
const std::string rest = "past_key, past_value, seqlens, total, cos, sin";
const std::string fused =
    "q = com.microsoft.FusedMatMul<transB = 1>(x, wq) k = com.microsoft.FusedMatMul<transB = 1>(x, wk) v = com.microsoft.FusedMatMul<transB = 1>(x, wv) ";
const std::string transposed =
    "tq = Transpose<perm = [1, 0]>(wq) tk = Transpose<perm = [1, 0]>(wk) tv = Transpose<perm = [1, 0]>(wv) q = MatMul(x, tq) k = MatMul(x, tk) v = MatMul(x, "
    "tv) ";
const std::string biased =
    "a = com.microsoft.FusedMatMul<transB = 1>(x, wq) b = com.microsoft.FusedMatMul<transB = 1>(x, wk) c = com.microsoft.FusedMatMul<transB = 1>(x, wv)"
    " q = Add(a, bq) k = Add(bk, b) v = Add(c, bv) ";
const std::string biases = ", float[32] bq, float[16] bk, float[16] bv";

TEST(PackQkv, JoinsTheWeights) {
  expect_rewrite(pack_qkv(), "cpu", graph(separate_weights, fused, "q, k, v, " + rest), "Concat FusedMatMul GroupQueryAttention", usual);
  expect_rewrite(pack_qkv(), "cpu", graph(separate_weights, transposed, "q, k, v, " + rest), "Concat Transpose MatMul GroupQueryAttention", usual);
  expect_rewrite(pack_qkv(), "cpu",
                 graph("float[8,32] wq, float[8,16] wk, float[8,16] wv", "q = MatMul(x, wq) k = MatMul(x, wk) v = MatMul(x, wv)", "q, k, v, " + rest),
                 "Concat MatMul GroupQueryAttention", usual);
}
TEST(PackQkv, TakesBiasesInEitherOrder) {
  expect_rewrite(pack_qkv(), "cpu", graph(separate_weights + biases, biased, "q, k, v, " + rest), "Concat FusedMatMul Concat Add GroupQueryAttention", usual);
}
TEST(PackQkv, WithoutRopeToo) {
  expect_rewrite(pack_qkv(), "cpu", graph(separate_weights, fused, "q, k, v, past_key, past_value, seqlens, total", "do_rotary = 0"),
                 "Concat FusedMatMul GroupQueryAttention", usual);
}
TEST(PackQkv, NotWhatItDoesNotSay) {
  expect_unchanged(pack_qkv(), "mlx", graph(separate_weights, fused, "q, k, v, " + rest), "");
  // One of the three with a bias.
  expect_unchanged(pack_qkv(), "cpu", graph(separate_weights + ", float[16] bk", fused + "kb = Add(k, bk) ", "q, kb, v, " + rest), "FusedMatMul", usual);
  // Of different inputs.
  expect_unchanged(pack_qkv(), "cpu",
                   graph(separate_weights,
                         "z = Neg(x) q = com.microsoft.FusedMatMul<transB = 1>(z, wq) k = com.microsoft.FusedMatMul<transB = 1>(x, wk)"
                         " v = com.microsoft.FusedMatMul<transB = 1>(x, wv) ",
                         "q, k, v, " + rest),
                   "'x' is two different values", usual);
  // A weight that is computed.
  expect_unchanged(pack_qkv(), "cpu",
                   graph("float[8,32] w, float[8,16] wk, float[8,16] wv",
                         "n = ReduceSum(x) wq = Mul(w, n) q = MatMul(x, wq) k = MatMul(x, wk) v = MatMul(x, wv) ", "q, k, v, " + rest),
                   "wq is not a constant", usual);
  // A projection that something else reads.
  auto text = graph(separate_weights, fused + "also = Neg(q) ", "q, k, v, " + rest);
  text.replace(text.find("=> ("), 4, "=> (float[B,S,32] also, ");
  expect_unchanged(pack_qkv(), "cpu", text, "has another user", usual);
}

const std::string packed_rest = "packed, \"\", \"\", " + rest;

TEST(UnpackQkv, SplitsTheWeights) {
  expect_rewrite(unpack_qkv(), "dml", graph("float[64,8] w", "packed = com.microsoft.FusedMatMul<transB = 1>(x, w)", packed_rest),
                 "Split FusedMatMul FusedMatMul FusedMatMul GroupQueryAttention", usual);
  expect_rewrite(unpack_qkv(), "dml", graph("float[8,64] w", "packed = MatMul(x, w)", packed_rest), "Split MatMul MatMul MatMul GroupQueryAttention", usual);
}
TEST(UnpackQkv, SplitsBiases) {
  for (const auto* sum : {"Add(p, b)", "Add(b, p)"})
    expect_rewrite(unpack_qkv(), "dml", graph("float[8,64] w, float[64] b", std::string("p = MatMul(x, w) packed = ") + sum, packed_rest),
                   "Split MatMul MatMul MatMul Split Add Add Add GroupQueryAttention", usual);
}
TEST(UnpackQkv, SplitsWhatItCanNotFollow) {
  expect_rewrite(unpack_qkv(), "dml", graph("float[8,64] w", "p = MatMul(x, w) packed = Neg(p)", packed_rest), "MatMul Neg Split GroupQueryAttention", usual);
  // The packed operand has another reader: one product stays.
  auto text = graph("float[8,64] w", "packed = MatMul(x, w) also = Neg(packed)", packed_rest);
  text.replace(text.find("=> ("), 4, "=> (float[B,S,64] also, ");
  expect_rewrite(unpack_qkv(), "dml", text, "MatMul Neg Split GroupQueryAttention", usual);
}
TEST(UnpackQkv, NotWhereTheKernelTakesIt) {
  expect_unchanged(unpack_qkv(), "cpu", graph("float[8,64] w", "packed = MatMul(x, w)", packed_rest), "");
  expect_unchanged(unpack_qkv(), "dml", graph(separate_weights, fused, "q, k, v, " + rest), "an operand that the pattern leaves out", usual);
}
TEST(UnpackQkv, UndoesPacking) {
  const auto text = graph(separate_weights + biases, biased, "q, k, v, " + rest);
  auto r = rewritten(pack_qkv(), "cpu", text, usual);
  EXPECT_EQ(r.report.applied, 1u);
  EXPECT_EQ(rewrite::apply(unpack_qkv(), *r.model.graph, {get_ep("dml"), ir::DataType::float32, "decoder"}).applied, 1u);
  for (const auto* n : r.model.graph->nodes()) EXPECT_TRUE(!n->is("GroupQueryAttention", "com.microsoft") || (n->input(1) && n->input(2)));
  EXPECT_EQ(rewrite::difference(r.original, r.model, usual.trials).value_or(""), "");
}

// Both results of the group on `text`, judged by numbers; the nodes called RotaryEmbedding of the second.
std::vector<ir::Node> rotations(const std::string& text, const Setup& setup) {
  const auto r = rewritten(separate_rope(), "dml", text, setup);
  EXPECT_EQ(rewrite::difference(r.original, r.model, setup.trials).value_or(""), "");
  std::vector<ir::Node> found;
  for (const auto* n : r.model.graph->nodes()) {
    if (n->op.type == "RotaryEmbedding") found.push_back(*n);
  }
  EXPECT_EQ(found.size(), 2u);
  return found;
}
TEST(SeparateRope, Interleaved) {
  for (const auto& n : rotations(graph(separate_weights, fused, "q, k, v, " + rest, "do_rotary = 1, rotary_interleaved = 1"), usual))
    EXPECT_EQ(n.int_attribute("interleaved", 0), 1);
}
TEST(SeparateRope, Partial) {
  auto text = graph(separate_weights, fused, "q, k, v, " + rest);
  text.replace(text.find("float[64,8] cos, float[64,8] sin"), 32, "float[64,4] cos, float[64,4] sin");
  for (const auto& n : rotations(text, usual)) EXPECT_EQ(n.int_attribute("rotary_embedding_dim", 0), 8);
}
TEST(SeparateRope, BeforeOpset23ByTheContribOp) {
  auto old = usual;
  old.opset = 21;
  for (const auto& n : rotations(graph(separate_weights, fused, "q, k, v, " + rest), old)) EXPECT_EQ(n.op.domain, "com.microsoft");
}
TEST(SeparateRope, NotWhereTheKernelHasIt) {
  expect_unchanged(separate_rope(), "cpu", graph(separate_weights, fused, "q, k, v, " + rest), "");
  expect_unchanged(separate_rope(), "dml", graph(separate_weights, fused, "q, k, v, past_key, past_value, seqlens, total", "do_rotary = 0"),
                   "attribute do_rotary has another value", usual);
}

std::string total_from(const std::string& nodes) {
  auto text = graph(separate_weights, fused + nodes, "q, k, v, past_key, past_value, seqlens, tokens, cos, sin");
  return text.replace(text.find("int64[3] sizes"), 5, "int64 one = {1}, int64");
}

TEST(EliminateShape, CountsTokensInstead) {
  expect_rewrite(eliminate_shape(), "webgpu", total_from("n = Shape<start = 1, end = 2>(attention_mask) tokens = Cast<to = 6>(n) "),
                 "FusedMatMul FusedMatMul FusedMatMul Cast ReduceSum ReduceMax GroupQueryAttention", usual);
  expect_rewrite(eliminate_shape(), "webgpu", total_from("s = Shape(attention_mask) n = Gather(s, one) tokens = Cast<to = 6>(n) "),
                 "FusedMatMul FusedMatMul FusedMatMul Cast ReduceSum ReduceMax GroupQueryAttention", usual);
}
TEST(EliminateShape, OnlyWhereItTellsTheTotal) {
  const std::string nodes = "n = Shape<start = 1, end = 2>(attention_mask) tokens = Cast<to = 6>(n) ";
  expect_unchanged(eliminate_shape(), "cpu", total_from(nodes), "");
  auto also = total_from(nodes + "other = Neg(tokens) ");
  also.replace(also.find("=> ("), 4, "=> (int32[1] other, ");
  expect_unchanged(eliminate_shape(), "webgpu", also, "it is not the total_sequence_length of GroupQueryAttention alone", usual);
  expect_unchanged(eliminate_shape(), "webgpu", total_from("n = Shape<start = 0, end = 1>(attention_mask) tokens = Cast<to = 6>(n) "),
                   "attribute end has another value", usual);
  auto any = usual;
  any.padding = rewrite::Padding::any;
  expect_unchanged(eliminate_shape(), "webgpu", total_from(nodes), "the graph has no Reshape", any);
}

}  // namespace
}  // namespace mobius::rules
