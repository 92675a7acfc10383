#include "mobius/components/experts.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "mobius/ops/interpreter.hpp"

namespace mobius {
namespace {

using ir::DataType;
using ops::Array;
using ::testing::ElementsAre;
using ::testing::Pointwise;

struct Graph {
  ir::Model model;
  nn::Builder b{*model.graph, DataType::float32};

  Tensor input(const char* name, ir::Shape shape) { return b.input(name, DataType::float32, std::move(shape)); }
  std::map<std::string, Array> run(const std::map<std::string, Array>& inputs) { return ops::interpret(*model.graph, inputs); }
};

Array floats(ir::Dims dims, std::vector<double> values) { return {DataType::float32, std::move(dims), std::move(values)}; }

// The experts and weights that a router gives for rows of scores.
struct Routed {
  std::vector<double> experts, weights;
};
template <class F>
Routed routed(std::int64_t experts, std::vector<double> scores, F&& route) {
  Graph g;
  const Routing r = route(g.input("scores", {"tokens", experts}));
  g.b.output("experts", r.experts);
  g.b.output("weights", r.weights);
  const auto tokens = static_cast<std::int64_t>(scores.size()) / experts;
  auto out = g.run({{"scores", floats({tokens, experts}, std::move(scores))}});
  return {out.at("experts").values, out.at("weights").values};
}

MATCHER(IsNear, "") { return std::abs(std::get<0>(arg) - std::get<1>(arg)) < 1e-6; }
auto near(std::vector<double> values) { return Pointwise(IsNear(), std::move(values)); }

TEST(Router, ChoosesTheHighestScores) {
  const auto r = routed(4, {0.1, 0.4, 0.2, 0.3, 0.7, 0.1, 0.2, 0.0}, [](Tensor s) { return choose(s, 2); });
  EXPECT_THAT(r.experts, ElementsAre(1, 3, 0, 2));
  EXPECT_THAT(r.weights, near({0.4, 0.3, 0.7, 0.2}));
}

TEST(Router, NormalisesSoftensAndScales) {
  const std::vector<double> scores{0.1, 0.4, 0.2, 0.3};
  EXPECT_THAT(routed(4, scores, [](Tensor s) { return scaled(normalised(choose(s, 2)), 3); }).weights, near({3 * 0.4 / 0.7, 3 * 0.3 / 0.7}));
  const double a = std::exp(0.4), b = std::exp(0.3);
  EXPECT_THAT(routed(4, scores, [](Tensor s) { return choose_then_soften(s, 2); }).weights, near({a / (a + b), b / (a + b)}));
}

TEST(Router, SharesAreOfAllOrOfTheChosen) {
  const std::vector<double> logits{0.1, 2, 0.7, -1};
  double all = 0;
  for (const double l : logits) all += std::exp(l);
  EXPECT_THAT(routed(4, logits, [](Tensor l) { return choose_by_softmax(l, 2); }).weights, near({std::exp(2.0) / all, std::exp(0.7) / all}));
  const auto chosen = std::exp(2.0) + std::exp(0.7);
  EXPECT_THAT(routed(4, logits, [](Tensor l) { return normalised(choose_by_softmax(l, 2)); }).weights, near({std::exp(2.0) / chosen, std::exp(0.7) / chosen}));
}

TEST(Router, APreferenceSteersTheChoiceAlone) {
  const auto r = routed(4, {0.1, 0.4, 0.2, 0.3}, [](Tensor s) { return choose_by(-s, s, 2); });
  EXPECT_THAT(r.experts, ElementsAre(0, 2));
  EXPECT_THAT(r.weights, near({0.1, 0.2}));
}

TEST(Router, GroupsAreWorthTheirBestExperts) {
  const std::vector<double> scores{0.9, 0.0, 0.5, 0.5};
  const auto best = [&](std::int64_t counted) {
    return routed(4, scores, [&](Tensor s) { return choose(within_groups(s, {.experts = 4, .groups = 2, .kept = 1, .counted = counted, .outside = -1}), 2); })
        .experts;
  };
  EXPECT_THAT(best(1), ElementsAre(0, 1));  // by the best one: 0.9 against 0.5
  EXPECT_THAT(best(2), ElementsAre(2, 3));  // by two: 0.9 against 1.0
}

// ── experts ──────────────────────────────────────────────────────────────────────────────────────────────────────────────

constexpr std::int64_t hidden = 3, width = 2;

double weight(std::int64_t expert, std::int64_t out, std::int64_t in) { return std::sin(static_cast<double>(1 + expert * 17 + out * 5 + in)); }

// Stacks [experts, in, out] of those numbers.
Parameter stack(const char* name, std::int64_t experts, std::int64_t in, std::int64_t out, std::int64_t shift) {
  std::vector<float> values;
  for (std::int64_t e = 0; e < experts; ++e)
    for (std::int64_t i = 0; i < in; ++i)
      for (std::int64_t o = 0; o < out; ++o) values.push_back(static_cast<float>(weight(e + shift, o, i)));
  return {name, ir::make_tensor({experts, in, out}, std::span<const float>(values))};
}

// One expert on one token: down(relu(gate(x)) · up(x)).
std::vector<double> expert(std::int64_t e, const double* x) {
  std::vector<double> h(width), y(hidden);
  for (std::int64_t o = 0; o < width; ++o) {
    double gate = 0, up = 0;
    for (std::int64_t i = 0; i < hidden; ++i) gate += weight(e, o, i) * x[i], up += weight(e + 100, o, i) * x[i];
    h[static_cast<std::size_t>(o)] = std::max(gate, 0.0) * up;
  }
  for (std::int64_t o = 0; o < hidden; ++o)
    for (std::int64_t i = 0; i < width; ++i) y[static_cast<std::size_t>(o)] += weight(e + 200, o, i) * h[static_cast<std::size_t>(i)];
  return y;
}

struct Mixture {
  Graph g;
  explicit Mixture(std::int64_t experts, std::int64_t k) {
    const auto x = g.input("x", {"tokens", hidden});
    const Routing routing{g.input("weights", {"tokens", k}), g.b.input("experts", DataType::int64, {"tokens", k})};
    const GatedExperts mixture(Scope(DataType::float32) / "experts", experts, std::string("relu"), {stack("gate", experts, hidden, width, 0)},
                               {stack("up", experts, hidden, width, 100)}, {stack("down", experts, width, hidden, 200)});
    g.b.output("y", mixture(x, routing));
  }
};

TEST(Experts, EachTokenGetsTheWeightedSumOfItsOwn) {
  // Experts 0 and 3 have no token, 1 has all of them.
  const std::vector<double> x{1, 2, 3, -1, 0.5, 2, 0.1, -2, 1}, weights{0.6, 0.4, 0.9, 0.1, 0.5, 0.5}, experts{1, 4, 2, 1, 1, 4};
  Mixture m(5, 2);
  const auto y = m.g.run({{"x", floats({3, hidden}, x)}, {"weights", floats({3, 2}, weights)}, {"experts", {DataType::int64, {3, 2}, experts}}}).at("y");
  std::vector<double> expected;
  for (std::size_t t = 0; t < 3; ++t)
    for (std::size_t o = 0; o < hidden; ++o) {
      double sum = 0;
      for (std::size_t j = 0; j < 2; ++j) sum += weights[2 * t + j] * expert(static_cast<std::int64_t>(experts[2 * t + j]), &x[hidden * t])[o];
      expected.push_back(sum);
    }
  EXPECT_THAT(y.values, near(expected));
}

TEST(Experts, TheGraphIsAsLongForAnyNumberOfThem) { EXPECT_EQ(Mixture(4, 2).g.model.graph->node_count(), Mixture(64, 8).g.model.graph->node_count()); }

TEST(Experts, AStackOfOnesInTheCheckpointIsARecipe) {
  const auto w = stack_experts(Scope(DataType::float16) / "mlp" / "experts", 3, "up_proj", 5, 4);
  EXPECT_EQ(w.name(), "mlp.experts.up_proj.weight");
  EXPECT_EQ(w.dims(), (ir::Dims{3, 4, 5}));
  EXPECT_EQ(w.dtype(), DataType::float16);
}

}  // namespace
}  // namespace mobius
