#include "mobius/passes/passes.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mobius/base/error.hpp"
#include "mobius/base/log.hpp"
#include "mobius/passes/pipeline.hpp"

namespace mobius::passes {
namespace {

using ::testing::HasSubstr;

std::string ops_of(const ir::Model& m) {
  std::string ops;
  for (const auto* n : m.graph->nodes()) ops += (ops.empty() ? "" : " ") + std::string(n->op.type);
  EXPECT_EQ(ir::verify(m), std::vector<std::string>{});
  return ops;
}

TEST(DeadCode, RemovesChainsAndKeepsTheInterface) {
  auto m = ir::model_from_text("g (float[B] x, float[B] unused) => (float[B] y) <float[1] w = {1}> { a = Neg(x) b = Mul(a, w) y = Relu(x) }");
  EXPECT_EQ(remove_dead_code(*m.graph), 2u);
  EXPECT_EQ(ops_of(m), "Relu");
  EXPECT_TRUE(m.graph->initializers().empty());
  EXPECT_EQ(m.graph->inputs().size(), 2u);
}

TEST(Identities, GoUnlessTheyCarryTheInterface) {
  auto m = ir::model_from_text("g (float[B,2] x) => (float[B,2] y, float[B,2] z) { i = Identity(x) c = Cast<to = 1>(i) y = Relu(c) z = Identity(x) }");
  remove_identities(*m.graph);
  EXPECT_EQ(ops_of(m), "Relu Identity");
}

TEST(CommonSubexpressions, MergeOnlyWhatIsEqual) {
  auto m = ir::model_from_text(
      "g (float[B,2] x) => (float[B,2] y) { a = Softmax<axis = 1>(x) b = Softmax<axis = 1>(x) c = Softmax<axis = 0>(x) d = Add(a, b) y = Add(d, c) }");
  EXPECT_EQ(eliminate_common_subexpressions(*m.graph), 1u);
  EXPECT_EQ(ops_of(m), "Softmax Softmax Add Add");
}

TEST(CommonSubexpressions, LeaveRandomNodesAlone) {
  auto m = ir::model_from_text("g (float[B,2] x) => (float[B,2] y) { a = RandomNormalLike(x) b = RandomNormalLike(x) y = Add(a, b) }");
  EXPECT_EQ(eliminate_common_subexpressions(*m.graph), 0u);
}

TEST(NodeNames, RepeatedOnesGetAnother) {
  auto m = ir::model_from_text("g (float[B] x) => (float[B] y) { [n] a = Neg(x) [n] b = Neg(a) [n_1] c = Neg(b) [m] y = Neg(c) }");
  EXPECT_EQ(make_node_names_unique(*m.graph), 2u);
  std::string names;
  for (const auto* n : m.graph->nodes()) names += n->name + " ";
  EXPECT_EQ(names, "n n_1 n_1_1 m ");
}

TEST(Initializers, EqualOnesBecomeOne) {
  auto m = ir::model_from_text("g (float[B] x) => (float[B] y) <float a = {2}, float b = {2}, int64 c = {2}> { m = Mul(x, a) y = Mul(m, b) }");
  EXPECT_EQ(deduplicate_initializers(*m.graph), 1u);
}

TEST(Fold, ATransposeBecomesPartOfTheWeight) {
  auto m = ir::model_from_text("g (float[B,3] x) => (float[B,2] y) <float[2,3] w = {1, 2, 3, 4, 5, 6}> { t = Transpose<perm = [1, 0]>(w) y = MatMul(x, t) }");
  EXPECT_EQ(fold_constants(*m.graph), 1u);
  remove_dead_code(*m.graph);
  EXPECT_EQ(ops_of(m), "MatMul");
  ASSERT_EQ(m.graph->initializers().size(), 1u);
  EXPECT_EQ(*ir::as_doubles(*m.graph->initializers()[0]->data()), (std::vector<double>{1, 4, 2, 5, 3, 6}));
}

TEST(Fold, ShapeArithmeticIsComputed) {
  auto m = ir::model_from_text("g (float[B] x) => (float[B] y) <int64[1] a = {2}, int64[1] b = {3}> { s = Add(a, b) f = Cast<to = 1>(s) y = Mul(x, f) }");
  EXPECT_EQ(fold_constants(*m.graph), 2u);
  EXPECT_EQ(ops_of(m), "Mul");
}

constexpr auto layer =
    "<ir_version: 11, opset_import: [\"\" : 24]> g (float[B,S,8] x, float[B,S,8] r, float[8] w) => (float[B,S,8] y) "
    "{ s = Add(x, r) n = RMSNormalization(s, w) y = Add(n, s) }";

TEST(Pipeline, GivesCustomOperatorsTheirBodies) {
  auto m = ir::model_from_text(layer);
  optimize_model(m);
  EXPECT_EQ(ops_of(m), "SkipSimplifiedLayerNormalization Add");
  ASSERT_EQ(m.functions.size(), 1u);
  EXPECT_EQ(m.functions[0].name, "SkipSimplifiedLayerNormalization");
  EXPECT_EQ(m.opset_imports.at("com.microsoft"), 1);
}

TEST(Pipeline, LeavesNoCustomOperatorForStrictOnnx) {
  auto m = ir::model_from_text(layer);
  optimize_model(m, {.ep = "onnx-standard"});
  EXPECT_EQ(ops_of(m), "Add RMSNormalization Add");
  EXPECT_FALSE(m.opset_imports.contains("com.microsoft"));
}

TEST(Pipeline, RefusesAnUnknownEp) {
  auto m = ir::model_from_text(layer);
  EXPECT_THROW(optimize_model(m, {.ep = "rocm"}), Error);
}

TEST(Pipeline, TracesEachRule) {
  std::string lines;
  const auto old = logging::set_sink([&](logging::Level, std::string_view line) { lines += std::string(line) + "\n"; });
  auto m = ir::model_from_text(layer);
  optimize_model(m, {.trace = true});
  logging::set_sink(old);
  EXPECT_THAT(lines, HasSubstr("[EP Trace] Target: default, dtype: FLOAT, role: decoder"));
  EXPECT_THAT(lines, HasSubstr("SkipNorm"));
}

}  // namespace
}  // namespace mobius::passes
