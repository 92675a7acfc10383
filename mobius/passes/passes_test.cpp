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

// Operators that are left after types were inferred and identities removed.
std::string without_identities(const std::string& text) {
  auto m = ir::model_from_text(text);
  infer_shapes(*m.graph);
  remove_identities(*m.graph);
  remove_dead_code(*m.graph);
  return ops_of(m);
}

TEST(Identities, AreSlicesOfAllAndConcatsOfOne) {
  const std::string head =
      "g (float[B,S,4] x) => (y) <int64[1] zero = {0}, int64[1] one = {1}, int64[1] two = {2}, int64[1] four = {4}, int64[1] minus = {-1}> { ";
  EXPECT_EQ(without_identities(head + "a = Slice(x, zero, four, two, one) y = Neg(a) }"), "Neg");
  EXPECT_EQ(without_identities(head + "s = Shape<start = 1, end = 2>(x) a = Slice(x, zero, s, one) b = Concat<axis = 1>(a) y = Neg(b) }"), "Neg");
  EXPECT_EQ(without_identities(head + "a = Slice(x, minus, four, two, minus) y = Neg(a) }"), "Slice Neg");
  EXPECT_EQ(without_identities(head + "a = Slice(x, zero, two, two) y = Neg(a) }"), "Slice Neg");
}

TEST(Identities, AreMovesThatEndWhereTheyBegan) {
  const std::string head = "g (float[B,S,8] x) => (y) <int64[4] heads = {0, 0, 2, 4}, int64[3] flat = {0, 0, 8}> { h = Reshape(x, heads) ";
  EXPECT_EQ(without_identities(head + "a = Transpose<perm = [0, 2, 1, 3]>(h) b = Transpose<perm = [0, 2, 1, 3]>(a) c = Reshape(b, flat) y = Neg(c) }"), "Neg");
  EXPECT_EQ(without_identities(head + "a = Transpose<perm = [0, 1, 3, 2]>(h) c = Reshape(a, flat) y = Neg(c) }"), "Reshape Transpose Reshape Neg");
}

TEST(Identities, AreCastsThereAndBackByAWiderType) {
  EXPECT_EQ(without_identities("g (float16[B] x) => (y) { a = Cast<to = 1>(x) b = Cast<to = 10>(a) y = Neg(b) }"), "Neg");
  EXPECT_EQ(without_identities("g (float[B] x) => (y) { a = Cast<to = 10>(x) b = Cast<to = 1>(a) y = Neg(b) }"), "Cast Cast Neg");
  EXPECT_EQ(without_identities("g (float16[B] x) => (y) { a = Cast<to = 1>(x) b = Cast<to = 16>(a) y = Neg(b) }"), "Cast Cast Neg");
  EXPECT_EQ(without_identities("g (bool[B] x) => (y) { a = Cast<to = 7>(x) b = Cast<to = 9>(a) y = Not(b) }"), "Not");
  EXPECT_EQ(without_identities("g (int64[B] x) => (y) { a = Cast<to = 9>(x) b = Cast<to = 7>(a) y = Neg(b) }"), "Cast Cast Neg");
}

TEST(Identities, AreNeutralNumbersThatAddNoAxes) {
  const std::string head =
      "g (float[B,4] x, bool[B] c) => (y) <float one = {1}, float[1] ones = {1}, float[1,1,1] axes = {1}, float zero = {0}, bool yes = {1}> { ";
  EXPECT_EQ(without_identities(head + "a = Mul(x, one) b = Mul(ones, a) d = Div(b, one) e = Add(zero, d) f = Sub(e, zero) y = Neg(f) }"), "Neg");
  EXPECT_EQ(without_identities(head + "a = And(yes, c) y = Not(a) }"), "Not");
  EXPECT_EQ(without_identities(head + "a = Or(yes, c) y = Not(a) }"), "Or Not");
  EXPECT_EQ(without_identities(head + "a = Mul(x, axes) y = Neg(a) }"), "Mul Neg");
  EXPECT_EQ(without_identities(head + "a = Div(one, x) b = Sub(zero, a) y = Neg(b) }"), "Div Sub Neg");
}

TEST(Sizes, ThatAreFixedBecomeConstants) {
  auto m = ir::model_from_text(
      "g (float[B,S,64] x) => (y) <int64 two = {2}, int64[1] last = {-1}, int64[1] end = {9223372036854775807}, float[1] one = {1}> {"
      " s = Shape(x) n = Gather(s, two) h = Div(n, two) a = Slice(s, last, end) f = Cast<to = 1>(a) r = Sqrt(f) c = Div(one, r) z = Mul(x, c)"
      " k = Cast<to = 1>(h) y = Mul(z, k) }");
  fold_sizes(*m.graph);
  remove_dead_code(*m.graph);
  EXPECT_EQ(ops_of(m), "Mul Mul");
  EXPECT_EQ(*ir::as_scalar(*m.graph->first()->input(1)->data()), 0.125);
  EXPECT_EQ(*ir::as_scalar(*m.graph->last()->input(1)->data()), 32);
}

TEST(Sizes, WeightsAreNotFolded) {
  auto m = ir::model_from_text("g (float[B,3] x) => (float[B,2] y) <float[2,3] w = {1, 2, 3, 4, 5, 6}> { t = Transpose<perm = [1, 0]>(w) y = MatMul(x, t) }");
  EXPECT_EQ(fold_sizes(*m.graph), 0u);
}

// The keys' length is read from what it is the sum of, so that a mask for them does not wait for them.
TEST(Sizes, AreReadFromInputs) {
  auto m = ir::model_from_text(
      "g (int64[B,S] ids, float[B,2,P,4] past, float[B,2,S,4] k) => (n, m, o) <int64 two = {2}, int64[1] zero = {0}> {"
      " keys = Concat<axis = 2>(past, k) shape = Shape(keys) total = Gather(shape, two) again = Shape<start = 2, end = 3>(keys) s = Shape<start = 2, end = "
      "3>(k)"
      " n = Neg(total) m = Neg(again) o = Neg(s) }");
  infer_shapes(*m.graph);
  read_sizes_from_inputs(*m.graph);
  remove_dead_code(*m.graph);
  EXPECT_EQ(ops_of(m), "Shape Shape Add Squeeze Neg Neg Neg");
  EXPECT_EQ(m.graph->first()->input(0)->name, "past");
  EXPECT_EQ(m.graph->first()->next()->input(0)->name, "ids");
}

TEST(Sizes, ThatNoInputShowsStay) {
  auto m = ir::model_from_text("g (float[B,S] x) => (n) { c = Concat<axis = 1>(x, x) s = Shape<start = 1>(c) n = Neg(s) }");
  infer_shapes(*m.graph);
  EXPECT_EQ(read_sizes_from_inputs(*m.graph), 0u);
}

// As an exporter states attention_mask and present after an example with one token.
TEST(StatedTypes, AreTheInterfaceButNotBelieved) {
  auto m = ir::model_from_text(
      "g (int64[B,S] ids, int64[B,\"P + 1\"] mask, float[B,2,P,4] past, float[B,2,S,4] k) => (float[B,2,\"P + 1\",4] present, float[B,Q] y) {"
      " present = Concat<axis = 2>(past, k) f = Cast<to = 1>(mask) y = Neg(f) }");
  const auto text = ir::to_text(*m.graph, {.value_info = false});
  {
    const StatedTypes stated(*m.graph);
    infer_shapes(*m.graph);
    EXPECT_EQ(ir::to_string(m.graph->outputs()[0]->type), "float[B,2,P + S,4]");
    const auto& length = (*m.graph->inputs()[1]->shape())[1];
    EXPECT_FALSE(length == ir::Dim("P + 1"));
    EXPECT_TRUE((*m.graph->outputs()[1]->shape())[1] == length);
  }
  EXPECT_EQ(ir::to_text(*m.graph, {.value_info = false}), text);
}

TEST(StatedTypes, SumsOfSymbolsAreBelieved) {
  auto m = ir::model_from_text("g (int64[B,\"P + S\"] mask) => (int64[B,T] y) { y = Neg(mask) }");
  const StatedTypes stated(*m.graph);
  EXPECT_TRUE((*m.graph->inputs()[0]->shape())[1] == ir::Dim("S + P"));
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

TEST(Pipeline, LeavesNothingOfItsOwnWhereItFails) {
  auto m = ir::model_from_text(
      "<ir_version: 13, opset_import: [\"\" : 26]> g (float[B,8] x, float[8] w) => (float[B,8] y) <float[8] w = {1, 1, 1, 1, 1, 1, 1, 1}, int64 one = {1}> "
      "{ a = Mul(x, w) y = CumProd(a, one) }");
  EXPECT_THROW(optimize_model(m, {.ep = "cpu"}), Error);
  EXPECT_EQ(ops_of(m), "Mul CumProd");
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
