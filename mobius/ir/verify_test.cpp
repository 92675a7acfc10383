// What verify finds in models that are broken in one place.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

#include "mobius/ir/model.hpp"

namespace mobius::ir {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr std::string_view chain = "g (float[2] x) => (float[2] y) <float[2] w = {1,2}> { [first] a = Add(x, w) [second] b = Mul(a, w) y = Neg(b) }";
constexpr std::string_view branches =
    "g (bool c, float[2] x) => (float[2] y) { y = If(c)<then_branch = t () => (float[2] a) { a = Neg(x) }, else_branch = e () => (float[2] b) { b = Abs(x) }> "
    "}";

Node* node_at(Graph& graph, int i) {
  Node* n = graph.first();
  while (i-- > 0) n = n->next();
  return n;
}

TEST(Verify, AcceptsGoodModels) {
  EXPECT_THAT(verify(model_from_text(chain)), IsEmpty());
  EXPECT_THAT(verify(model_from_text(branches)), IsEmpty());
}

TEST(Verify, FindsValuesReadTooEarly) {
  Model m = model_from_text(chain);
  m.graph->move_before(node_at(*m.graph, 1), m.graph->first());
  EXPECT_THAT(verify(m), ElementsAre("second (Mul): input 0 (a) is read before the node that produces it"));
}

TEST(Verify, FindsValuesOfOtherGraphs) {
  Model m = model_from_text(branches);
  const auto subgraphs = m.graph->first()->subgraphs();
  Value* x = m.graph->inputs()[1];
  subgraphs[0]->first()->set_input(0, subgraphs[1]->first()->output());
  EXPECT_THAT(verify(m), ElementsAre("y (If): else_branch: b (Abs): input 0 (a) is not defined here"));
  subgraphs[0]->first()->set_input(0, x);  // the branches must not outlive what they use
}

TEST(Verify, FindsNamesThatAreNotUnique) {
  Model m = model_from_text(chain);
  m.graph->find_value("b")->name = "a";
  EXPECT_THAT(verify(m), ElementsAre("second (Mul): two values are called a"));
  m.graph->find_value("w")->name = "";
  EXPECT_THAT(verify(m), ElementsAre("a value has an empty name", "second (Mul): two values are called a"));
}

TEST(Verify, FindsShadowingNames) {
  Model m = model_from_text(branches);
  m.graph->first()->subgraphs()[1]->first()->output()->name = "x";
  EXPECT_THAT(verify(m), ElementsAre("y (If): then_branch: x (Neg): x is also the name of a value in an enclosing graph"));
}

TEST(Verify, FindsOuterValuesReturnedBySubgraphs) {
  Model m = model_from_text(branches);
  m.graph->first()->subgraphs()[0]->set_output(0, m.graph->inputs()[1]);
  EXPECT_THAT(verify(m), ElementsAre("y (If): else_branch: output x is a value of an enclosing graph; a subgraph returns its own values"));
}

// Nothing in the graph's interface can cause this; assigning a whole value does.
TEST(Verify, FindsLostEdges) {
  Model m = model_from_text(chain);
  Value* a = m.graph->find_value("a");
  Value bare;
  bare.name = "a";
  *a = bare;
  EXPECT_THAT(verify(m), ElementsAre("first (Add): output 0 (a) names another producer", "first (Add): a belongs to another graph",
                                     "first (Add): a is read 1 times, but records 0 uses"));
}

TEST(Verify, FindsDoubleOutputs) {
  Model m = model_from_text(chain);
  m.graph->add_output(m.graph->find_value("y"));
  EXPECT_THAT(verify(m), ElementsAre("y is an output twice"));
}

TEST(Verify, FindsTypesThatContradict) {
  Model m = model_from_text(chain);
  m.graph->find_value("w")->type.shape = Shape{3};
  EXPECT_THAT(verify(m), ElementsAre("w is float[3], but its data is float[2]"));
  m.graph->find_value("w")->type.shape = Shape{"n"};  // says nothing against it
  EXPECT_THAT(verify(m), IsEmpty());

  Model branched = model_from_text(branches);
  branched.graph->first()->subgraphs()[0]->outputs()[0]->type.dtype = DataType::float16;
  EXPECT_THAT(verify(branched), ElementsAre("y (If): y is float[2], but else_branch gives float16[2]"));
}

TEST(Verify, FindsBranchesOfAnotherLength) {
  Model m = model_from_text(branches);
  m.graph->first()->add_output("z");
  EXPECT_THAT(verify(m), ElementsAre("y (If): else_branch gives 1 values, the node 2", "y (If): then_branch gives 1 values, the node 2"));
}

TEST(Verify, FindsOperatorsWithoutImport) {
  Model m = model_from_text(chain);
  node_at(*m.graph, 1)->op = {"com.microsoft", "Mul"};
  EXPECT_THAT(verify(m), ElementsAre("second (com.microsoft::Mul): the operator domain \"com.microsoft\" is not imported"));
}

TEST(Verify, FindsMisplacedAttributes) {
  Model m = model_from_text(chain);
  m.graph->first()->attributes["alpha"] = AttributeReference{"alpha", 1};
  m.graph->first()->attributes["body"] = GraphPtr();
  m.graph->first()->attributes["value"] = TensorPtr();
  EXPECT_THAT(verify(m), ElementsAre("first (Add): alpha: refers to an attribute of a function, outside of one", "first (Add): body: holds no graph",
                                     "first (Add): value: holds no tensor"));
}

TEST(Verify, ChecksFunctions) {
  Model m = model_from_text("g () => () {} <domain: \"d\", opset_import: [\"\" : 24]> f (x) => (y) { a = Neg(x) y = Abs<k: int = @k>(a) }");
  EXPECT_THAT(verify(m), IsEmpty());
  auto& again = m.functions.emplace_back();
  again.domain = "d", again.name = "f";
  Graph& body = *m.functions[0].body;
  body.move_before(body.last(), body.first());
  EXPECT_THAT(verify(m), ElementsAre("function d::f: y (Abs): input 0 (a) is read before the node that produces it", "function d::f: is defined twice"));
}

TEST(Verify, IsFastEnoughToRunAfterEachPass) {
  Model m = model_from_text("g (float[2] x) => () <float[2] w = {1,2}> {}");
  Value* v = m.graph->inputs()[0];
  for (int i = 0; i < 20'000; ++i) v = m.graph->append({"", "Add"}, {v, m.graph->initializers()[0]})->output();
  m.graph->add_output(v);
  const auto start = std::chrono::steady_clock::now();
  EXPECT_THAT(verify(m), IsEmpty());
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(2));  // some 20 ms when optimised
}

}  // namespace
}  // namespace mobius::ir
