// InlinePass: which operators go, what they become, and that numbers stay.
#include "mobius/passes/inline.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mobius/base/error.hpp"
#include "mobius/ep/registry.hpp"
#include "mobius/ops/infer.hpp"
#include "mobius/passes/passes.hpp"
#include "mobius/rewrite/disprove.hpp"

namespace mobius::passes {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr auto head = "<ir_version: 11, opset_import: [\"\" : 24, \"com.microsoft\" : 1, \"my\" : 1]>\n";

struct Case {
  std::string_view ep = "onnx-standard";
  std::int64_t opset = 24;
  rewrite::Trials trials = {};
};

struct Result {
  ir::Model model;
  Inlined done;
  std::string ops;
};

std::string ops_of(const ir::Graph& graph) {
  std::string ops;
  for (const auto* n : graph.nodes()) {
    ops += (ops.empty() ? "" : " ") + std::string(n->op.type);
    for (const auto* g : n->subgraphs()) ops += "[" + ops_of(*g) + "]";
  }
  return ops;
}

// Inlines; the numbers must stay, and the model well-formed.
Result inlined(const std::string& text, const Case& setup = {}) {
  auto original = ir::model_from_text(head + text);
  Result r{ir::model_from_text(head + text), {}, {}};
  for (auto* m : {&original, &r.model}) infer_shapes(*m->graph);
  EXPECT_THAT(ir::verify(original), IsEmpty());
  r.done = inline_functions(r.model, {get_ep(setup.ep), ir::DataType::float32, "decoder", setup.opset});
  EXPECT_THAT(ir::verify(r.model), IsEmpty());
  EXPECT_EQ(rewrite::difference(original, r.model, setup.trials).value_or(""), "") << ir::to_text(r.model);
  r.ops = ops_of(*r.model.graph);
  return r;
}

std::string error_of(const std::string& text, const Case& setup = {}) {
  auto model = ir::model_from_text(head + text);
  try {
    inline_functions(model, {get_ep(setup.ep), ir::DataType::float32, "decoder", setup.opset});
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

// ── what an EP lacks ─────────────────────────────────────────────────────────────────────────────────────────────────────

const std::string skip_norm =
    "g (float[B,S,8] x, float[B,S,8] r, float[8] w) => (float[B,S,8] y, float[B,S,8] z) { y, \"\", \"\", s = com.microsoft.SkipSimplifiedLayerNormalization"
    "<epsilon = 0.1>(x, r, w) z = Neg(s) }";

TEST(Inline, ASkipNormBecomesWhatWasFusedIntoIt) {
  const auto r = inlined(skip_norm);
  EXPECT_EQ(r.ops, "Add RMSNormalization Neg");
  EXPECT_FLOAT_EQ(r.model.graph->first()->next()->float_attribute("epsilon", 0), 0.1f);
  EXPECT_THAT(r.model.graph->initializers(), IsEmpty());
  EXPECT_FALSE(r.model.opset_imports.contains("com.microsoft"));
  EXPECT_EQ(r.done.report.applied, 1u);
  EXPECT_EQ(r.done.report.change_per_op, (std::map<std::string, std::int64_t>{{"Add", 1}, {"RMSNormalization", 1}, {"SkipSimplifiedLayerNormalization", -1}}));
  EXPECT_EQ(r.done.report.added, 2u);
  EXPECT_EQ(r.done.report.removed, 1u);
}

TEST(Inline, NodesAreNamedAfterTheCallAndKeepItsMetadata) {
  auto model = ir::model_from_text(head + skip_norm);
  auto* call = model.graph->first();
  call->name = "layers.0.norm/Skip";
  call->metadata["origin"] = "layer 0";
  infer_shapes(*model.graph);
  inline_functions(model, {get_ep("trt-rtx"), ir::DataType::float32, "decoder"});
  const auto* sum = model.graph->first();
  EXPECT_EQ(sum->name, "layers.0.norm/Skip/Add");
  EXPECT_EQ(sum->metadata.at("origin"), "layer 0");
  EXPECT_EQ(ir::to_string(sum->output()->type), "float[B,S,8]");
  EXPECT_EQ(sum->next()->output()->name, "y") << "the interface keeps its names";
}

TEST(Inline, ALayerNormWithBiasAndStatistics) {
  EXPECT_EQ(inlined("g (float[B,S,8] x, float[B,S,8] r, float[8] w, float[8] b, float[8] c) => (float[B,S,8] y) {"
                    " y = com.microsoft.SkipLayerNormalization(x, r, w, b, c) }")
                .ops,
            "Add Add LayerNormalization");
  EXPECT_EQ(inlined("g (float[B,S,8] x, float[B,S,8] r, float[8] w) => (float[B,S,8] y, m, i) {"
                    " y, m, i = com.microsoft.SkipLayerNormalization(x, r, w) }")
                .ops,
            "Add LayerNormalization");
  EXPECT_EQ(inlined("g (float[B,S,8] x, float[B,S,8] r, float[8] w) => (float[B,S,8] y, i) {"
                    " y, \"\", i = com.microsoft.SkipSimplifiedLayerNormalization(x, r, w) }")
                .ops,
            "Add RMSNormalization Mul ReduceMean Add Sqrt Reciprocal");
}

TEST(Inline, TheTransposeOfAWeightBecomesPartOfIt) {
  const auto r =
      inlined("g (float[B,S,3] x) => (float[B,S,2] y) <float[2,3] w = {1, 2, 3, 4, 5, 6}> { y = com.microsoft.FusedMatMul<transB = 1, alpha = 0.5>(x, w) }");
  EXPECT_EQ(r.ops, "MatMul Mul");
  EXPECT_EQ(*ir::as_doubles(*r.model.graph->first()->input(1)->data()), (std::vector<double>{1, 4, 2, 5, 3, 6}));
}

TEST(Inline, OnlyWhereTheEpLacksTheKernel) {
  EXPECT_EQ(inlined(skip_norm, {.ep = "cuda"}).ops, "SkipSimplifiedLayerNormalization Neg");
  EXPECT_EQ(inlined(skip_norm, {.ep = "default"}).ops, "SkipSimplifiedLayerNormalization Neg");
  EXPECT_EQ(inlined(skip_norm, {.ep = "trt-rtx"}).ops, "Add RMSNormalization Neg");
  EXPECT_EQ(inlined(skip_norm, {.ep = "openvino"}).ops, "Add RMSNormalization Neg");
  const std::string gelu = "g (float[B,8] x, float[8] b) => (float[B,8] y) { y = com.microsoft.BiasGelu(x, b) }";
  EXPECT_EQ(inlined(gelu, {.ep = "cpu"}).ops, "BiasGelu");
  EXPECT_EQ(inlined(gelu, {.ep = "mlx"}).ops, "Add Gelu");
  const std::string fast = "g (float[B,8] x) => (float[B,8] y) { y = com.microsoft.FastGelu(x) }";
  EXPECT_EQ(inlined(fast, {.ep = "cpu"}).ops, "FastGelu");
  EXPECT_EQ(inlined(fast, {.ep = "trt-rtx"}).ops, "Gelu");
  const std::string moe =
      "g (float[S,4] x, float[S,3] r, float[3,4,4] a, float[3,4,4] b) => (float[S,4] y) { y = com.microsoft.MoE<k = 1, activation_type = \"relu\">(x, r, a, "
      "\"\", b) }";
  EXPECT_EQ(inlined(moe, {.ep = "cuda"}).ops, "MoE");
  EXPECT_THAT(inlined(moe, {.ep = "webgpu"}).ops, Not(HasSubstr("MoE")));
}

const std::string gqa =
    "g (float[1,2,16] q, float[1,2,8] k, float[1,2,8] v, float[1,1,P,8] pk, float[1,1,P,8] pv, int32[1] l, int32 t) => (y, a, c) {"
    " y, a, c = com.microsoft.GroupQueryAttention<num_heads = 2, kv_num_heads = 1>(q, k, v, pk, pv, l, t) }";

TEST(Inline, ByTheTypeThatTheNodeHas) {
  const Case two_tokens{.ep = "cuda", .trials = {.contents = {{"P", "3..4"}, {"l", "4"}, {"t", "5"}}}};
  EXPECT_THAT(inlined(gqa, two_tokens).ops, AllOf(Not(HasSubstr("GroupQueryAttention")), HasSubstr("Attention"))) << "cuda has no kernel in float32";
  Case cpu = two_tokens;
  cpu.ep = "cpu";
  EXPECT_EQ(inlined(gqa, cpu).ops, "GroupQueryAttention");
}

TEST(Inline, ByWhatTheKernelTakes) {
  const auto attention = [](const std::string& attributes, const std::string& bias) {
    return "g (float[1,2,16] q, float[1,2,8] k, float[1,2,8] v, float[1,1,3,8] pk, float[1,1,3,8] pv, int32[1] l, int32 t, float[1,1,2,5] b) => (y, a, c) {"
           " y, a, c = com.microsoft.GroupQueryAttention<num_heads = 2, kv_num_heads = 1" +
           attributes + ">(q, k, v, pk, pv, l, t" + bias + ") }";
  };
  const auto goes = [&](const std::string& attributes, const std::string& bias, std::string_view ep) {
    const auto ops = inlined(attention(attributes, bias), {.ep = ep, .trials = {.contents = {{"l", "4"}, {"t", "5"}}}}).ops;
    return ops.find("GroupQueryAttention") == std::string::npos;
  };
  const std::string with_bias = ", \"\", \"\", \"\", b";
  EXPECT_FALSE(goes(", local_window_size = 3", "", "cpu"));
  EXPECT_TRUE(goes(", local_window_size = 3", "", "mlx"));
  EXPECT_FALSE(goes(", softcap = 2.0", "", "cpu"));
  EXPECT_TRUE(goes(", softcap = 2.0", "", "webgpu")) << "the kernel would ignore it";
  EXPECT_FALSE(goes("", with_bias, "webgpu"));
  EXPECT_TRUE(goes("", with_bias, "mlx"));
  const std::string biased =
      "g (float[B,S,8] x, float[B,S,8] r, float[8] w, float[8] b) => (float[B,S,8] y) { y = com.microsoft.SkipSimplifiedLayerNormalization(x, r, w, b) }";
  EXPECT_EQ(inlined(biased, {.ep = "mlx"}).ops, "Add Add RMSNormalization");
  const std::string broadcast = "g (float[B,S,8] x, float[1,S,8] r, float[8] w) => (float[B,S,8] y) { y = com.microsoft.SkipLayerNormalization(x, r, w) }";
  EXPECT_EQ(inlined(broadcast, {.ep = "mlx"}).ops, "Add LayerNormalization");
}

TEST(Inline, ExpandsInSubgraphs) {
  const auto r = inlined(
      "g (bool c, float[B,S,8] x, float[8] w) => (float[B,S,8] y) { y = If(c) <then_branch = a () => (float[B,S,8] p) { p = "
      "com.microsoft.SkipSimplifiedLayerNormalization(x, x, w) }, else_branch = b () => (float[B,S,8] q) { q = Identity(x) }> }");
  EXPECT_EQ(r.ops, "If[Identity][Add RMSNormalization]");
}

TEST(Inline, OrtsOwnOperatorInTheStandardsDomain) {
  const std::string norm = "g (float[B,S,8] x, float[8] w) => (float[B,S,8] y) { y = SimplifiedLayerNormalization<axis = -1>(x, w) }";
  EXPECT_EQ(inlined(norm).ops, "RMSNormalization");
  EXPECT_EQ(inlined(norm, {.ep = "default"}).ops, "RMSNormalization");
  EXPECT_EQ(inlined(norm, {.ep = "cpu"}).ops, "SimplifiedLayerNormalization");
}

// ── forms without a body ─────────────────────────────────────────────────────────────────────────────────────────────────

const std::string quantised =
    "g (float[1,2,16] q, float[1,2,8] k, float[1,2,8] v, int32[1] l, int32 t) => (y) { [attend] y = com.microsoft.GroupQueryAttention"
    "<num_heads = 2, kv_num_heads = 1, k_quant_type = \"PER_TENSOR\">(q, k, v, \"\", \"\", l, t) }";

TEST(Inline, RefusesWhatCanNotBeSaidInTheStandard) {
  EXPECT_THAT(error_of(quantised), AllOf(HasSubstr("attend (com.microsoft::GroupQueryAttention): onnx-standard runs the standard's own operators only"),
                                         HasSubstr("k_quant_type=PER_TENSOR")));
  EXPECT_THAT(error_of("g (float[B] x) => (y) { [odd] y = my.Thing(x) }"), HasSubstr("odd (my::Thing)"));
}

TEST(Inline, WarnsWhereItCanOnlyStay) {
  auto model = ir::model_from_text(head + quantised);
  EXPECT_THAT(inline_functions(model, {get_ep("trt-rtx"), ir::DataType::float32, "decoder"}).warnings,
              ElementsAre(AllOf(HasSubstr("attend (com.microsoft::GroupQueryAttention) stays: trt-rtx has no kernel for it in f32 (gqa_dtypes)"),
                                HasSubstr("k_quant_type"))));
  EXPECT_THAT(inline_functions(model, {get_ep("default"), ir::DataType::float32, "decoder"}).warnings, ElementsAre(HasSubstr("relies on function bodies")));
  EXPECT_THAT(inline_functions(model, {get_ep("cpu"), ir::DataType::float32, "decoder"}).warnings, IsEmpty());
}

// ── opsets ───────────────────────────────────────────────────────────────────────────────────────────────────────────────

TEST(Inline, WhatTheOpsetLacks) {
  const std::string rope =
      "g (float[B,S,8] x, float[9,2] c, float[9,2] s, int64[B,S] p) => (float[B,S,8] y) { y = RotaryEmbedding<num_heads = 2>(x, c, s, p) }";
  EXPECT_EQ(inlined(rope, {.ep = "cpu", .opset = 23, .trials = {.contents = {{"p", "0..9"}}}}).ops, "RotaryEmbedding");
  EXPECT_THAT(inlined(rope, {.ep = "cpu", .opset = 22, .trials = {.contents = {{"p", "0..9"}}}}).ops, Not(HasSubstr("RotaryEmbedding")));
  EXPECT_EQ(inlined("g (float[B,8] x, float[8] w) => (float[B,8] y) { y = RMSNormalization(x, w) }", {.ep = "cpu", .opset = 21}).ops,
            "Mul ReduceMean Add Sqrt Reciprocal Mul Mul");
  EXPECT_EQ(inlined("g (float[B,8] x) => (float[B,8] y) { y = Swish(x) }", {.ep = "cpu", .opset = 23}).ops, "Sigmoid Mul");
  EXPECT_EQ(inlined("g (float[B,8] x) => (float[B,8] y) { y = Gelu(x) }", {.ep = "cpu", .opset = 21}).ops, "Gelu");
  EXPECT_THAT(inlined("g (float[B,2,S,4] q, float[B,1,T,4] k, bool[B,1,S,T] m) => (y) { y = Attention(q, k, k, m) }", {.ep = "cpu", .opset = 21}).ops,
              AllOf(HasSubstr("Softmax"), Not(HasSubstr("Attention"))));
}

TEST(Inline, BodiesOfCustomOperatorsKeepToTheOpset) {
  const auto ops = inlined(skip_norm, {.opset = 22}).ops;
  EXPECT_THAT(ops, Not(HasSubstr("RMSNormalization")));
}

TEST(Inline, RefusesWhatALowerOpsetCanNotSay) {
  EXPECT_THAT(error_of("g (float[B] x) => (y) { [odd] y = SwiGLU(x) }", {.ep = "cpu"}), HasSubstr("odd (SwiGLU): it needs opset 28, the target is 24"));
  EXPECT_THAT(error_of("g (float[B] x) => (y) { [odd] y = Cast<to = 1, round_mode = \"up\">(x) }", {.ep = "cpu", .opset = 23}), HasSubstr("needs opset 24"));
}

// ── one form per operator ────────────────────────────────────────────────────────────────────────────────────────────────

TEST(Inline, TheMostFrequentFormStaysWhereBodiesCount) {
  const std::string products =
      "g (float[B,S,4] x, float[4,4] w, float[4,S,B] z) => (y) { a = com.microsoft.FusedMatMul<alpha = 2.0>(x, w) b = com.microsoft.FusedMatMul<alpha = "
      "3.0>(a, w)"
      " c = com.microsoft.FusedMatMul<alpha = 3.0>(b, w) y = com.microsoft.FusedMatMul<alpha = 4.0>(c, w) }";
  EXPECT_EQ(inlined(products, {.ep = "default"}).ops, "MatMul Mul FusedMatMul FusedMatMul MatMul Mul");
  EXPECT_EQ(inlined(products, {.ep = "cpu"}).ops, "FusedMatMul FusedMatMul FusedMatMul FusedMatMul") << "kernels take any form";
  const std::string two = "g (float[B,4] x, float[4,4] w) => (y) { a = com.microsoft.FusedMatMul<alpha = 2.0>(x, w) y = com.microsoft.FusedMatMul(a, w) }";
  EXPECT_EQ(inlined(two, {.ep = "default"}).ops, "FusedMatMul MatMul") << "of equally frequent ones the first";
}

TEST(Inline, FormsThatDifferInResultsAreOne) {
  const auto r = inlined(
      "g (float[B,S,8] x, float[B,S,8] r, float[8] w) => (y) { a, \"\", \"\", s = com.microsoft.SkipSimplifiedLayerNormalization(x, r, w)"
      " y = com.microsoft.SkipSimplifiedLayerNormalization(a, s, w) }",
      {.ep = "default"});
  EXPECT_EQ(r.ops, "SkipSimplifiedLayerNormalization SkipSimplifiedLayerNormalization");
  const auto* last = r.model.graph->last();
  ASSERT_EQ(last->outputs().size(), 4u);
  EXPECT_EQ(last->output(1), nullptr);
  EXPECT_EQ(ir::to_string(last->output(3)->type), "float[B,S,8]");
  EXPECT_EQ(r.done.report.applied, 0u);
}

TEST(Inline, AFormWithoutBodyLeavesNoneForTheOthers) {
  auto model = ir::model_from_text(head + std::string("g (float[1,2,16] q, float[1,2,8] k, float[1,2,8] v, int32[1] l, int32 t) => (y, z) { y = "
                                                      "com.microsoft.GroupQueryAttention<num_heads = 2, kv_num_heads ="
                                                      " 1, k_quant_type = \"PER_TENSOR\">(q, k, v, \"\", \"\", l, t) z = "
                                                      "com.microsoft.GroupQueryAttention<num_heads = 2, kv_num_heads = 1>(q, k, v, \"\", \"\","
                                                      " l, t) }"));
  infer_shapes(*model.graph);
  const auto done = inline_functions(model, {get_ep("default"), ir::DataType::float32, "decoder"});
  EXPECT_EQ(done.report.applied, 1u);
  EXPECT_EQ(done.report.change_per_op.at("GroupQueryAttention"), -1);
  EXPECT_EQ(done.warnings.size(), 1u);
}

// ── functions that came with the model ───────────────────────────────────────────────────────────────────────────────────

const std::string functions =
    "g (float[B,4] x) => (float[B,4] y) { [call] y = my.Outer<scale = 3.0>(x) }\n"
    "<domain: \"my\", opset_import: [\"\" : 24, \"my\" : 1]> Outer <scale, shift: float = 0.5> (a) => (b) {"
    " h = my.Inner<factor: float = @scale>(a) s = Constant<value_float: float = @shift>() b = Add(h, s) }\n"
    "<domain: \"my\", opset_import: [\"\" : 24]> Inner <factor> (a) => (b) { f = Constant<value_float: float = @factor>() b = Mul(a, f) }";

TEST(Inline, FunctionsInFunctionsWithAttributesAndDefaults) {
  const auto r = inlined(functions);
  EXPECT_EQ(r.ops, "Mul Add");
  EXPECT_EQ(ir::as_scalar(*r.model.graph->first()->input(1)->data()), 3.0);
  EXPECT_EQ(ir::as_scalar(*r.model.graph->last()->input(1)->data()), 0.5);
  EXPECT_THAT(r.model.functions, IsEmpty());
  EXPECT_EQ(r.model.graph->first()->name, "call/Inner/Mul");
  EXPECT_EQ(r.model.opset_imports, (decltype(r.model.opset_imports){{"", 24}}));
}

TEST(Inline, FunctionsStayWhereCustomDomainsMay) {
  const auto r = inlined(functions, {.ep = "cpu"});
  EXPECT_EQ(r.ops, "Outer");
  EXPECT_EQ(r.model.functions.size(), 2u);
}

TEST(Inline, AFunctionGoesWhenSomethingInItHasTo) {
  const std::string text =
      "g (float[B,S,8] x, float[8] w) => (float[B,S,8] y) { y = my.Norm(x, w) }\n"
      "<domain: \"my\", opset_import: [\"\" : 24, \"com.microsoft\" : 1]> Norm (a, b) => (c) { c = com.microsoft.SkipSimplifiedLayerNormalization(a, a, b) }\n"
      "<domain: \"my\", opset_import: [\"\" : 24]> Unused (a) => (b) { b = Neg(a) }";
  EXPECT_EQ(inlined(text, {.ep = "cpu"}).ops, "Norm");
  EXPECT_EQ(inlined(text, {.ep = "trt-rtx"}).ops, "Add RMSNormalization");
}

TEST(Inline, SubgraphsOfFunctionsAreCopied) {
  const std::string text =
      "g (bool c, bool d, float[B,4] x) => (float[B,4] y) { a = my.Choose<by = 2.0>(c, x) y = my.Choose<by = 3.0>(d, a) }\n"
      "<domain: \"my\", opset_import: [\"\" : 24]> Choose <by> (c, v) => (r) { twice = Add(v, v) r = If(c) <then_branch = yes () => (p) {"
      " f = Constant<value_float: float = @by>() p = Mul(twice, f) }, else_branch = no () => (q) { q = Neg(v) }> }";
  EXPECT_EQ(inlined(text).ops, "Add If[Neg][Constant Mul] Add If[Neg][Constant Mul]");
}

TEST(Inline, AnOperandThatTheCallLeavesOut) {
  const std::string text =
      "g (float[B,4] x) => (float[B,4] y) { y = my.Limit(x) }\n"
      "<domain: \"my\", opset_import: [\"\" : 24]> Limit (a, low) => (b) { b = Clip(a, low) }";
  const auto r = inlined(text);
  EXPECT_EQ(r.ops, "Clip");
  EXPECT_EQ(r.model.graph->first()->inputs().size(), 1u);
}

TEST(Inline, FunctionsThatCanNotBeExpanded) {
  EXPECT_THAT(error_of("g (float[B] x) => (y) { y = my.F(x) }\n<domain: \"my\", opset_import: [\"\" : 24, \"my\" : 1]> F (a) => (b) { b = my.F(a) }"),
              HasSubstr("function my::F calls itself"));
  EXPECT_THAT(error_of("g (float[B] x) => (y) { [call] y = my.F(x, x) }\n<domain: \"my\", opset_import: [\"\" : 24]> F (a) => (b) { b = Neg(a) }"),
              HasSubstr("call: the call of function my::F has 2 inputs, the function has 1"));
  EXPECT_THAT(
      error_of("g (float[B,4] x) => (y) { [call] y = my.F(x) }\n<domain: \"my\", opset_import: [\"\" : 11]> F (a) => (b) { b = ReduceMean<axes = [0]>(a) }"),
      HasSubstr("call: function my::F is written for opset 11, and can't be expanded in opset 24 (ReduceMean differs)"));
}

TEST(Inline, AContribOperatorsOwnBodyCountsMoreThanOneThatCame) {
  const auto r = inlined(skip_norm +
                         "\n<domain: \"com.microsoft\", opset_import: [\"\" : 24]> SkipSimplifiedLayerNormalization <epsilon> (a, b, w) => (y, m, i, s) {"
                         " s = Add(a, b) y = RMSNormalization<epsilon: float = @epsilon>(s, w) m = Identity(s) i = Identity(s) }");
  EXPECT_EQ(r.ops, "Add RMSNormalization Neg");
  EXPECT_THAT(r.model.functions, IsEmpty());
}

}  // namespace
}  // namespace mobius::passes
