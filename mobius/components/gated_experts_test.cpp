// The kernel's form of experts against the grouped one: whatever the router, the same numbers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "mobius/components/experts.hpp"
#include "mobius/ep/context.hpp"
#include "mobius/ops/interpreter.hpp"

namespace mobius {
namespace {

using ir::DataType;
using ops::Array;
using ::testing::Each;
using ::testing::Lt;
using ::testing::Not;

constexpr std::int64_t experts = 6, chosen = 3, hidden = 3, width = 2, tokens = 5;

EpCapabilities with_kernel() { return {.name = "kernel", .fused_moe_dtypes = {DataType::float32}}; }

Array numbers(ir::Dims dims, double step) {
  std::vector<double> values(static_cast<std::size_t>(ir::element_count(dims)));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = 1.5 * std::sin(step * static_cast<double>(i + 1));
  return {DataType::float32, std::move(dims), std::move(values)};
}

Parameter parameter(std::string name, ir::Dims dims, double step, DataType dtype = DataType::float32) {
  return {std::move(name), ir::make_tensor_of(dtype, dims, numbers(dims, step).values)};
}

const Scope at = Scope(DataType::float32) / "experts";

GatedExperts gated_by(Gating gating, DataType dtype = DataType::float32) {
  return {at,
          experts,
          std::move(gating),
          {parameter("gate", {experts, hidden, width}, 0.37, dtype)},
          {parameter("up", {experts, hidden, width}, 0.71, dtype)},
          {parameter("down", {experts, width, hidden}, 0.53, dtype)}};
}
GatedExperts swiglu() { return gated_by(std::string("silu")); }

GatedExperts biased_and_limited() {
  return GatedExperts::taking_turns(at, experts, SwiGLU{.alpha = 1.702, .beta = 1, .limit = 0.8},
                                    {parameter("gate_up", {experts, hidden, 2 * width}, 0.37), parameter("gate_up_bias", {experts, 2 * width}, 0.9)},
                                    {parameter("down", {experts, width, hidden}, 0.53), parameter("down_bias", {experts, hidden}, 1.3)});
}

using Router = std::function<Routing(Tensor logits)>;

struct Result {
  bool is_fused;
  std::vector<double> values;
};

Result run(const EpCapabilities& ep, const GatedExperts& mixture, const Router& route, const Array& logits, DataType dtype = DataType::float32) {
  const auto context = build_context(ep, dtype);
  ir::Model model;
  nn::Builder b(*model.graph, dtype);
  const auto l = b.input("logits", DataType::float32, {"tokens", experts});
  const auto x = b.input("x", DataType::float32, {"tokens", hidden});
  b.output("y", mixture(dtype == DataType::float32 ? x : cast(x, dtype), route(l)));
  bool is_fused = false;
  for (const auto* n : model.graph->nodes()) is_fused |= n->is("MoE", ops::microsoft);
  return {is_fused, ops::interpret(*model.graph, {{"x", numbers({tokens, hidden}, 0.29)}, {"logits", logits}}).at("y").values};
}

std::vector<double> differences(const std::vector<double>& a, const std::vector<double>& b) {
  std::vector<double> d;
  for (std::size_t i = 0; i < a.size(); ++i) d.push_back(std::isnan(a[i]) || std::isnan(b[i]) ? 1 : std::abs(a[i] - b[i]));
  return d;
}

void expect_same(const GatedExperts& mixture, const Router& route, const Array& logits = numbers({tokens, experts}, 0.83)) {
  const auto grouped = run({.name = "none"}, mixture, route, logits), fused = run(with_kernel(), mixture, route, logits);
  EXPECT_FALSE(grouped.is_fused);
  EXPECT_TRUE(fused.is_fused);
  EXPECT_THAT(grouped.values, Not(Each(Lt(1e-3)))) << "nothing to compare";
  EXPECT_THAT(differences(grouped.values, fused.values), Each(Lt(1e-6)));
}

TEST(FusedExperts, TheKernelsOwnRouters) {
  expect_same(swiglu(), [](Tensor l) { return choose_by_softmax(l, chosen); });
  expect_same(swiglu(), [](Tensor l) { return normalised(choose_by_softmax(l, chosen)); });
  expect_same(swiglu(), [](Tensor l) { return choose_then_soften(l, chosen); });
  expect_same(swiglu(), [](Tensor l) { return scaled(normalised(scaled(choose_by_softmax(l, chosen), 3)), 2.5); });
}

TEST(FusedExperts, ARouterBecomesLogits) {
  // Sums that are not 1, groups and a correction, an ε that counts, a norm of another power.
  expect_same(swiglu(), [](Tensor l) { return choose(sigmoid(l), chosen); });
  expect_same(swiglu(), [](Tensor l) {
    const auto scores = sigmoid(l);
    const auto within =
        within_groups(scores + 0.25, {.experts = experts, .groups = 3, .kept = 2, .counted = 2, .outside = -std::numeric_limits<double>::infinity()});
    return scaled(normalised(choose_by(within, scores, chosen), 1e-20), 2.5);
  });
  expect_same(swiglu(), [](Tensor l) { return normalised(choose_by_softmax(l, chosen), 0.5); });
  expect_same(swiglu(), [](Tensor l) {
    const auto r = choose_by_softmax(l, chosen);
    return Routing{r.weights / sqrt(reduce_sum(pow(r.weights, 2.0), {-1})), r.experts};
  });
}

TEST(FusedExperts, LogitsThatTheKernelsDtypeCannotHoldBecomeOthers) {
  const auto narrow = [](Tensor l) { return choose_by_softmax(cast(l, DataType::float16), chosen); };
  expect_same(swiglu(), [&](Tensor l) { return scaled(narrow(l), 2); });
  EXPECT_FALSE(run(
                   with_kernel(), swiglu(), [&](Tensor l) { return scaled(narrow(l), -2); }, numbers({tokens, experts}, 0.83))
                   .is_fused);
}

TEST(FusedExperts, WeightsOfZero) {
  // The second and third choice count nothing, and stand where the first does; then no choice counts.
  const auto first_only = [](Tensor l) {
    const auto r = choose(sigmoid(l), chosen);
    const auto best = reduce_max(r.weights, {-1});
    return Routing{where(less(r.weights, best), r.weights * 0, r.weights), r.experts * 0 + reduce_max(r.experts, {-1})};
  };
  expect_same(swiglu(), first_only);
  const auto nothing = run(
      with_kernel(), swiglu(), [](Tensor l) { return scaled(choose(sigmoid(l), chosen), 0); }, numbers({tokens, experts}, 0.83));
  EXPECT_TRUE(nothing.is_fused);
  EXPECT_THAT(nothing.values, Each(0));
  const EpCapabilities narrow{.name = "narrow", .fused_moe_dtypes = {DataType::float16}};
  const auto nothing_in_f16 = run(
      narrow, gated_by(std::string("silu"), DataType::float16), [](Tensor l) { return scaled(choose(sigmoid(l), chosen), 0); },
      numbers({tokens, experts}, 0.83), DataType::float16);
  EXPECT_TRUE(nothing_in_f16.is_fused);
  EXPECT_THAT(nothing_in_f16.values, Each(0));
  // Sigmoids so small that they are nothing beside the best one.
  auto far = numbers({tokens, experts}, 0.83);
  for (std::size_t i = 0; i < far.values.size(); ++i) far.values[i] = i % experts == 2 ? 1 : -300;
  expect_same(
      swiglu(), [](Tensor l) { return choose(sigmoid(l), chosen); }, far);
}

TEST(FusedExperts, BiasesAndLimits) {
  expect_same(biased_and_limited(), [](Tensor l) { return choose_then_soften(l, chosen); });
  expect_same(biased_and_limited(), [](Tensor l) { return choose(sigmoid(l), chosen); });
  expect_same(gated_by(std::string("quick_gelu")), [](Tensor l) { return choose_by_softmax(l, chosen); });
}

TEST(FusedExperts, StayGroupedWhereTheKernelCannot) {
  const auto is_fused = [](const EpCapabilities& ep, const GatedExperts& mixture, const Router& route) {
    return run(ep, mixture, route, numbers({tokens, experts}, 0.83)).is_fused;
  };
  const Router plain = [](Tensor l) { return choose_by_softmax(l, chosen); };
  EXPECT_TRUE(is_fused(with_kernel(), swiglu(), plain));
  EXPECT_FALSE(is_fused({.name = "other dtype", .fused_moe_dtypes = {DataType::float16}}, swiglu(), plain));
  EXPECT_FALSE(is_fused({.name = "sizes", .fused_moe_dtypes = {DataType::float32}, .fused_moe_size_multiple = 2}, swiglu(), plain)) << "hidden is 3";
  EXPECT_FALSE(is_fused(with_kernel(), gated_by(std::string("relu")), plain)) << "no such gate";
  const Router each_twice = [](Tensor l) {
    const auto r = choose(sigmoid(l), experts);
    return Routing{concat<Tensor>({r.weights, r.weights}, 1), concat<Tensor>({r.experts, r.experts}, 1)};
  };
  EXPECT_FALSE(is_fused(with_kernel(), swiglu(), each_twice)) << "more places than experts";
  EXPECT_FALSE(is_fused(with_kernel(), swiglu(), [](Tensor l) { return choose(l, chosen); })) << "weights below zero";
  EXPECT_FALSE(is_fused(with_kernel(), swiglu(), [](Tensor l) { return scaled(choose(sigmoid(l), chosen), -1); })) << "turned below zero";
}

}  // namespace
}  // namespace mobius
