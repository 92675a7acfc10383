// Opsets and IR versions, types and constants of models as they come.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mobius/base/error_of_test.hpp"
#include "mobius/passes/passes.hpp"
#include "mobius/passes/pipeline.hpp"
#include "mobius/rewrite/disprove.hpp"

namespace mobius::passes {
namespace {

using ::testing::HasSubstr;

ir::Model model_of(int opset, int ir_version, const std::string& graph) {
  return ir::model_from_text("<ir_version: " + std::to_string(ir_version) + ", opset_import: [\"\" : " + std::to_string(opset) + "]>\n" + graph);
}

const std::string norm = "g (float[B,S,8] x, float[8] w) => (float[B,S,8] y) { y = RMSNormalization(x, w) }";

TEST(Opset, IsLoweredWithTheIrVersion) {
  const std::pair<int, int> versions[] = {{21, 10}, {22, 10}, {23, 11}, {24, 11}};
  for (const auto& [opset, ir_version] : versions) {
    auto model = model_of(24, 11, norm), original = model_of(24, 11, norm);
    optimize_model(model, {.ep = "cpu", .opset = opset});
    EXPECT_EQ(model.opset_imports.at(""), opset);
    EXPECT_EQ(model.ir_version, ir_version);
    EXPECT_EQ(rewrite::difference(original, model).value_or(""), "");
    const bool has_norm = model.graph->first()->is("RMSNormalization");
    EXPECT_EQ(has_norm, opset >= 23);
  }
}

TEST(Opset, IsTheEpsHighest) {
  auto newer = model_of(26, 13, norm), older = model_of(17, 8, "g (float[B,8] x) => (float[B,8] y) { y = Neg(x) }");
  optimize_model(newer, {.ep = "cpu"});
  EXPECT_EQ(newer.opset_imports.at(""), 24);
  EXPECT_EQ(newer.ir_version, 11);
  optimize_model(older, {.ep = "cpu"});
  EXPECT_EQ(older.opset_imports.at(""), 24);
  EXPECT_EQ(older.ir_version, 11);
}

TEST(Opset, IsTheModelsOwnWhereANodeWouldMeanSomethingElse) {
  const std::string sample = "g (float[1,2,3,4] x, float[1,3,4,2] s) => (y) { [sample] y = GridSample(x, s) }";
  auto changed = model_of(19, 9, sample);
  optimize_model(changed, {.ep = "cpu"});
  EXPECT_EQ(changed.opset_imports.at(""), 19);
  EXPECT_EQ(changed.ir_version, 9);
  changed = model_of(19, 9, sample);
  EXPECT_THAT(error_of([&] { optimize_model(changed, {.ep = "cpu", .opset = 24}); }), HasSubstr("sample: GridSample of opset 19 can't be raised to opset 24"));
  auto old = model_of(8, 7, "g (float[B,8] x) => (float[B,8] y) { y = Neg(x) }");
  optimize_model(old, {.ep = "cpu"});
  EXPECT_EQ(old.opset_imports.at(""), 8);
  auto resized = model_of(17, 8, "g (float[1,1,2,2] x, float[4] scales) => (y) { y = Resize(x, \"\", scales) }");
  EXPECT_THAT(why_not_raised(resized, 24).value_or(""), HasSubstr("Resize of opset 17 can't be raised to opset 24"));
}

TEST(Opset, OlderFormsAreWrittenAnew) {
  const std::string graph =
      "g (float[B,8] x, bool c) => (float[B,1] y, float[B,4] z) {"
      " y = ReduceMean<axes = [-1]>(x) z, a = Split<axis = 1>(x)"
      " b = If<then_branch = t () => (u) { u = ReduceMax<axes = [0], keepdims = 0>(x) }, else_branch = e () => (v) { v = ReduceMax<axes = [0], keepdims = "
      "0>(a) }>(c) }";
  auto model = model_of(14, 7, graph), original = model_of(14, 7, graph);
  EXPECT_EQ(raise_opset(model, 24, 11), 4u);
  EXPECT_EQ(ir::verify(model), std::vector<std::string>{});
  EXPECT_EQ(model.graph->first()->attribute("axes"), nullptr);
  EXPECT_EQ(*ir::as_integers(*model.graph->first()->input(1)->data()), (std::vector<std::int64_t>{-1}));
  EXPECT_EQ(model.graph->first()->next()->int_attribute("num_outputs", 0), 2);
  EXPECT_EQ(model.opset_imports.at(""), 24);
  EXPECT_EQ(model.ir_version, 11);
  EXPECT_EQ(rewrite::difference(original, model).value_or(""), "");
  EXPECT_EQ(raise_opset(model, 24, 11), 0u);
}

TEST(Opset, OutsideWhatCanBeWrittenIsRefused) {
  for (const std::int64_t opset : {20, 25}) {
    auto model = model_of(24, 11, norm);
    EXPECT_THAT(error_of([&] { optimize_model(model, {.ep = "cpu", .opset = opset}); }), HasSubstr("can't be written for cpu: expected 21 to 24"));
  }
}

TEST(Opset, ANewerNodeThatIsLeftIsRefused) {
  auto model = model_of(24, 11, "g (float[B,8] x) => (float[B,8] y) { [up] y = Swish(x) }");
  EXPECT_THAT(error_of([&] { optimize_model(model, {.ep = "cpu", .opset = 21, .skip = {"InlinePass"}}); }),
              HasSubstr("up (Swish) can't be written for opset 21"));
  auto own = model_of(21, 10, "g (float[B,8] x) => (float[B,8] y) { [up] y = Swish(x) }");
  EXPECT_THAT(error_of([&] { optimize_model(own, {.ep = "cpu", .opset = 21, .skip = {"InlinePass"}}); }),
              HasSubstr("up (Swish) can't be written for opset 21"));
}

TEST(Opset, TheIrVersionCoversElementTypesAndFunctions) {
  auto model = model_of(21, 10, "g (float[B,8] x, int4[8] w) => (float[B,8] y) { y = Neg(x) }");
  model.ir_version = 9;
  set_opset(model, 21, 11);
  EXPECT_EQ(model.ir_version, 10);
  auto old = model_of(17, 7, "g (float[B,8] x) => (float[B,8] y) { y = Neg(x) }");
  old.functions.emplace_back().name = "F";
  set_opset(old, 17, 11);
  EXPECT_EQ(old.ir_version, 8);
}

TEST(Shapes, AreFoundInModelsThatStateNone) {
  auto model = model_of(18, 8, "g (float[B,8] x) => (y) { a = Neg(x) b = Shape(a) y = Reshape(x, b) }");
  EXPECT_EQ(infer_shapes(*model.graph), 3u);
  EXPECT_EQ(ir::to_string(model.graph->outputs()[0]->type), "float[B,8]");
}

TEST(Shapes, ContradictionsAreLeftToTheRuntime) {
  auto model = model_of(18, 8, "g (float[B,8] x, float[3,4] w) => (y) { a = MatMul(x, w) y = Neg(x) }");
  EXPECT_EQ(infer_shapes(*model.graph), 1u);
  EXPECT_EQ(ir::to_string(model.graph->outputs()[0]->type), "float[B,8]");
}

TEST(Constants, BecomeInitializersOfTheSameName) {
  auto model = model_of(18, 8,
                        "g (bool c, float[B,2] x) => (float[B,2] y, float k) { f = Constant<value_floats = [1.0, 2.0]>() i = Constant<value_int = 1>()"
                        " k = Constant<value_float = 3.0>() m = Mul(x, f) s = Cast<to = 1>(i) n = Add(m, s) y = If(c) <then_branch = a () => (p) {"
                        " t = Constant<value = float {5}>() p = Add(n, t) }, else_branch = b () => (q) { q = Neg(n) }> }");
  EXPECT_EQ(lift_constants(*model.graph), 3u);
  EXPECT_THAT(ir::verify(model), ::testing::IsEmpty());
  ASSERT_TRUE(model.graph->find_value("f"));
  EXPECT_EQ(*ir::as_doubles(*model.graph->find_value("f")->data()), (std::vector<double>{1, 2}));
  EXPECT_EQ(model.graph->find_value("i")->dtype(), ir::DataType::int64);
  EXPECT_TRUE(model.graph->find_value("k")->producer()) << "an output keeps its node";
}

}  // namespace
}  // namespace mobius::passes
