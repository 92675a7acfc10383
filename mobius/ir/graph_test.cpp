#include "mobius/ir/graph.hpp"

#include <gtest/gtest.h>

#include "mobius/ir/model.hpp"

namespace mobius::ir {
namespace {

struct Chain {  // x -> Relu -> Neg -> y
  Graph g;
  Value* x = g.add_input("x", {DataType::float32, Shape{"batch", 4}});
  Node* relu = g.append({"", "Relu"}, {x});
  Node* neg = g.append({"", "Neg"}, {relu->output()});
  Chain() {
    g.rename(neg->output(), "y");
    g.add_output(neg->output());
  }
};

TEST(Graph, KnowsEdgesFromBothEnds) {
  Chain c;
  ASSERT_EQ(c.x->uses().size(), 1u);
  EXPECT_EQ(c.x->uses()[0].node, c.relu);
  EXPECT_EQ(c.relu->output()->producer(), c.relu);
  EXPECT_TRUE(c.neg->output()->is_graph_output());
  c.neg->set_input(0, c.x);
  EXPECT_EQ(c.x->uses().size(), 2u);
  EXPECT_FALSE(c.relu->output()->is_used());
}

TEST(Graph, ReplacingAnOutputKeepsTheInterfacesName) {
  Chain c;
  auto* abs = c.g.insert(c.neg, {"", "Abs"}, std::vector<Value*>{c.x});
  c.g.replace_all_uses(c.neg->output(), abs->output());
  c.g.erase(c.neg);
  EXPECT_EQ(c.g.outputs()[0], abs->output());
  EXPECT_EQ(abs->output()->name, "y");
  EXPECT_EQ(c.g.find_value("y"), abs->output());
}

TEST(Graph, OrderAnswersAlsoAfterManyInsertionsAtOnePlace) {
  Chain c;
  std::vector<Node*> inserted;
  for (int i = 0; i < 100; ++i) inserted.push_back(c.g.insert(c.neg, {"", "Relu"}, std::vector<Value*>{c.x}));
  for (std::size_t i = 1; i < inserted.size(); ++i) EXPECT_TRUE(c.g.precedes(inserted[i - 1], inserted[i]));
  EXPECT_TRUE(c.g.precedes(c.relu, inserted.front()));
  EXPECT_TRUE(c.g.precedes(inserted.back(), c.neg));
  c.g.move_before(inserted.back(), c.relu);
  EXPECT_TRUE(c.g.precedes(inserted.back(), c.relu));
  EXPECT_EQ(c.g.first(), inserted.back());
}

TEST(Graph, NamesStayUnique) {
  Graph g;
  auto* a = g.add_input("a", {});
  auto* b = g.add_input("a", {});
  EXPECT_NE(a->name, b->name);
  g.rename(b, "a");
  EXPECT_EQ(b->name, "a");
  EXPECT_NE(a->name, "a");
  EXPECT_EQ(g.find_value(a->name), a);
}

TEST(Graph, ErasedNodesAreUsedAgainWithoutTraces) {
  Chain c;
  auto* extra = c.g.append({"", "Add"}, {c.x, c.x}, {{"mark", std::int64_t{1}}});
  c.g.erase(extra);
  EXPECT_EQ(c.x->uses().size(), 1u);
  auto* again = c.g.append({"", "Abs"}, {c.x});
  EXPECT_TRUE(again->attributes.empty());
  EXPECT_EQ(again->outputs().size(), 1u);
  EXPECT_EQ(c.g.node_count(), 3u);
}

TEST(Graph, DroppedOutputsBecomeOmitted) {
  Graph g;
  auto* x = g.add_input("x", {});
  auto* n = g.append({"com.microsoft", "SkipSimplifiedLayerNormalization"}, {x}, {}, 4);
  g.add_output(n->output(3));
  n->drop_output(1);
  EXPECT_EQ(n->output(1), nullptr);
  EXPECT_EQ(n->outputs().size(), 4u);
  g.remove_output(0);
  n->drop_output(3);
  n->drop_output(2);
  EXPECT_EQ(n->outputs().size(), 1u);
}

TEST(Graph, ASubgraphsUsesOfOuterValuesEndWithIt) {
  Graph g;
  auto* x = g.add_input("x", {});
  {
    Graph inner;
    inner.append({"", "Relu"}, {x});
    EXPECT_EQ(x->uses().size(), 1u);
  }
  EXPECT_TRUE(x->uses().empty());
}

TEST(Attributes, CompareTensorsByContent) {
  const std::vector<std::int64_t> values{1, 2};
  EXPECT_TRUE(equal(make_tensor({2}, values), make_tensor({2}, values)));
  EXPECT_FALSE(equal(make_tensor({2}, values), make_tensor({1, 2}, values)));
  EXPECT_FALSE(equal(std::int64_t{1}, 1.0f));
}

}  // namespace
}  // namespace mobius::ir
