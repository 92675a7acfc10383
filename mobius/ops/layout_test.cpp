#include "mobius/ops/layout.hpp"

#include <gtest/gtest.h>

#include "mobius/ir/model.hpp"
#include "mobius/ops/infer.hpp"

namespace mobius::ops {
namespace {

using ir::Shape;

const Shape tokens{"B", "S", 64};

TEST(Layout, CutAndJoinedAgainIsTheSame) {
  const Layout x(tokens);
  const auto heads = x.reshaped({"B", "S", 4, 16});
  EXPECT_NE(heads, x);
  EXPECT_EQ(heads->reshaped(tokens), x);
  EXPECT_EQ(heads->reshaped({"B*S", 4, 2, 8})->reshaped({"B", "S", 64}), x);
  EXPECT_EQ(heads->transposed({0, 2, 1, 3})->transposed({0, 2, 1, 3})->reshaped(tokens), x);
  EXPECT_NE(heads->transposed({0, 2, 1, 3})->reshaped({"B", "S", 64}), x);
}

TEST(Layout, HeadsAreNotTheirElements) {
  const Layout x(tokens);
  EXPECT_NE(x.reshaped({"B", "S", 4, 16}), x.reshaped({"B", "S", 16, 4}));
  EXPECT_NE(x.reshaped({"B", "S", 4, 16})->transposed({0, 1, 3, 2}), x.reshaped({"B", "S", 16, 4}));
}

TEST(Layout, AxesOfSizeOneCarryNothing) {
  const Layout x(tokens);
  EXPECT_EQ(x.with_axes({1}), x.reshaped({"B", 1, "S", 64}));
  EXPECT_EQ(x.with_axes({0, -1})->without_axes(std::vector<std::int64_t>{0, 4}), x);
  EXPECT_EQ(x.with_axes({2})->without_axes(std::nullopt), x);
  EXPECT_FALSE(x.without_axes(std::vector<std::int64_t>{1}));
}

TEST(Layout, RepeatsSideBySideOrOneAfterTheOther) {
  const Layout kv(Shape{"B", 2, "T", 16});
  const auto side_by_side = kv.with_axes({2})->expanded({"B", 2, 3, "T", 16})->reshaped({"B", 6, "T", 16});
  EXPECT_EQ(side_by_side->reshaped({"B", 2, 3, "T", 16}), kv.with_axes({2})->expanded({"B", 2, 3, "T", 16}));
  EXPECT_NE(side_by_side, kv.repeated(1, 3));
  EXPECT_EQ(kv.with_axes({1})->expanded({"B", 3, 2, "T", 16})->reshaped({"B", 6, "T", 16}), kv.repeated(1, 3));
  EXPECT_EQ(kv.repeated(1, 2)->repeated(1, 3), kv.repeated(1, 6));
  EXPECT_EQ(kv.repeated(1, 1), kv);
}

TEST(Layout, NothingIsClaimedOfSizesThatAreNotKnown) {
  const Layout x(Shape{ir::Dim(), "S", 64});
  EXPECT_EQ(x.transposed({1, 0, 2})->transposed({1, 0, 2}), x);
  EXPECT_FALSE(x.reshaped({ir::Dim(), "S", 4, 16}));
  EXPECT_FALSE(Layout(tokens).reshaped({"B", "T", 64}));
  EXPECT_FALSE(Layout(tokens).reshaped({"B", "S", 32}));
  EXPECT_FALSE(Layout(tokens).reshaped({"B", "S", 3, 16}));
  EXPECT_FALSE(Layout(tokens).expanded({"B", "T", 64}));
  EXPECT_FALSE(Layout(tokens).transposed({0, 1}));
}

// ── through graphs ───────────────────────────────────────────────────────────────────────────────────────────────────────

ir::Model model_of(const std::string& nodes) {
  auto model = ir::model_from_text(
      "g (float[B,S,64] x, int64[B,S] ids) => (y) <int64[4] heads = {0, 0, 4, 16}, int64[3] flat = {0, 0, 64}, int64[3] open = {0, 0, -1}, int64[1] one = {1},"
      " int64[1] two = {2}, int64[1] four = {4}, float half = {0.5}, int64[5] groups = {1, 1, 1, 2, 1}> { " +
      nodes + " }");
  TypeInference().infer(*model.graph);
  return model;
}

TEST(Layout, OfNodes) {
  const auto model = model_of(
      "a = Reshape(x, heads) b = Transpose<perm = [0, 2, 1, 3]>(a) c = Unsqueeze(b, two) d = Squeeze(c, two) e = Identity(d) f = Transpose<perm = [0, 2, 1, "
      "3]>(e)"
      " y = Reshape(f, open)");
  auto* y = model.graph->find_value("y");
  const History h(y);
  ASSERT_EQ(h.size(), 8u);
  EXPECT_EQ(h[7]->name, "x");
  EXPECT_EQ(h.layout(7), Layout(tokens));
  EXPECT_EQ(h.layout(6), Layout({"B", "S", 4, 16}).reshaped(tokens));
  EXPECT_EQ(same_value(y), model.graph->find_value("x"));
  EXPECT_EQ(same_value(model.graph->find_value("d")), model.graph->find_value("b"));
  EXPECT_EQ(same_value(model.graph->find_value("f")), model.graph->find_value("a"));
  EXPECT_EQ(same_value(model.graph->find_value("b")), nullptr);
}

TEST(Layout, OfSizesThatTheGraphComputes) {
  const auto model = model_of(
      "b = Shape<start = 0, end = 1>(ids) s = Shape<start = 1>(ids) n = Slice(heads, two, four) shape = Concat<axis = 0>(b, s, n)"
      " a = Reshape(x, shape) y = Reshape(a, open)");
  EXPECT_EQ(History(model.graph->find_value("a")).layout(1), Layout(tokens).reshaped({"B", "S", 4, 16}));
  EXPECT_EQ(same_value(model.graph->find_value("y")), model.graph->find_value("x"));
}

TEST(Layout, PassesScalingWhereAsked) {
  const auto model = model_of("a = Reshape(x, heads) b = Mul(a, half) c = Transpose<perm = [0, 2, 1, 3]>(b) y = Neg(c)");
  const auto scaled = [](const ir::Node& n) { return n.is("Mul") ? n.input(0) : nullptr; };
  EXPECT_EQ(History(model.graph->find_value("c")).size(), 2u);
  const History h(model.graph->find_value("c"), scaled);
  ASSERT_EQ(h.size(), 4u);
  EXPECT_EQ(h.layout(3), Layout(tokens).reshaped({"B", "S", 4, 16})->transposed({0, 2, 1, 3}));
  EXPECT_EQ(History(model.graph->find_value("y"), scaled).size(), 1u);
}

TEST(Layout, OfRepetitions) {
  const auto model = model_of("a = Reshape(x, heads) b = Concat<axis = 2>(a, a) c = Concat<axis = 2>(a, b) d = Unsqueeze(a, two) y = Tile(d, groups)");
  EXPECT_EQ(History(model.graph->find_value("y")).layout(2), Layout({"B", "S", 4, 16}).with_axes({2})->repeated(3, 2));
  EXPECT_EQ(History(model.graph->find_value("b")).layout(1), Layout({"B", "S", 4, 16}).repeated(2, 2));
  EXPECT_EQ(History(model.graph->find_value("c")).size(), 1u) << "parts are different values";
}

}  // namespace
}  // namespace mobius::ops
