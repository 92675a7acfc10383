#include <gtest/gtest.h>

#include "mobius/components/decode.hpp"
#include "mobius/ep/context.hpp"
#include "mobius/nn/layers.hpp"
#include "mobius/ops/interpreter.hpp"

namespace mobius {
namespace {

using ir::DataType;
using ops::Array;
using Values = std::vector<double>;

Array int64s(ir::Dims dims, Values values) { return {DataType::int64, std::move(dims), std::move(values)}; }
Array floats(ir::Dims dims, Values values) { return {DataType::float32, std::move(dims), std::move(values)}; }

struct Graph {
  ir::Model model;
  Builder b{*model.graph, DataType::float32};
  Tensor ids = b.input("input_ids", DataType::int64, {"batch", "sequence_len"});
  Tensor mask = b.input("attention_mask", DataType::int64, {"batch", "past_sequence_len + sequence_len"});
  Tensor x = b.input("x", DataType::float32, {"batch", "sequence_len", 1});
  Decode at{ids, mask, ids};

  Graph() { at.enter_layer(7); }
  std::map<std::string, Array> run(const std::string& state, const Array& past, const Values& tokens, const Values& attention_mask) const {
    const auto n = static_cast<std::int64_t>(tokens.size());
    return ops::interpret(*model.graph, {{"input_ids", int64s({1, n}, Values(tokens.size()))},
                                         {"attention_mask", int64s({1, static_cast<std::int64_t>(attention_mask.size())}, attention_mask)},
                                         {"x", floats({1, n, 1}, tokens)},
                                         {state, past}});
  }
};

// y_t = x_{t−2} + 10·x_{t−1} + 100·x_t
struct Convolution : Graph {
  Convolution() {
    const std::vector<float> taps{1, 10, 100};
    const nn::Parameter weight("w", ir::make_tensor({1, 1, 3}, std::span<const float>(taps)));
    b.output("y", at.causal_conv(x, weight, std::nullopt));
    at.output_caches();
  }
  std::pair<Values, Values> step(const Values& past, const Values& tokens, const Values& attention_mask) const {
    auto out = run("past_key_values.7.conv_state", floats({1, 1, 2}, past), tokens, attention_mask);
    return {out.at("y").values, out.at("present.7.conv_state").values};
  }
};

// The graph that reads sizes, and the one that a runtime captures, which does not.
class CausalConv : public ::testing::TestWithParam<bool> {
 protected:
  EpCapabilities ep{.requires_graph_capture_rewrite = GetParam()};
  BuildContext context{ep};
  Convolution c;
};
INSTANTIATE_TEST_SUITE_P(EachForm, CausalConv, ::testing::Bool());

TEST_P(CausalConv, ContinuesFromTheStepsBeforeIt) {
  EXPECT_EQ(c.step({0, 0}, {1, 2, 3}, {1, 1, 1}), (std::pair{Values{100, 210, 321}, Values{2, 3}}));
  EXPECT_EQ(c.step({2, 3}, {4}, {1, 1, 1, 1}), (std::pair{Values{432}, Values{3, 4}}));
}

TEST_P(CausalConv, PaddingOnTheLeftCountsAsZeros) {
  const auto [y, state] = c.step({0, 0}, {9, 9, 1, 2}, {0, 0, 1, 1});
  EXPECT_EQ(Values(y.begin() + 2, y.end()), (Values{100, 210}));
  EXPECT_EQ(state, (Values{1, 2}));
}

TEST_P(CausalConv, PaddingOnTheRightIsNotRemembered) {
  EXPECT_EQ(c.step({0, 0}, {1, 2, 9, 9}, {1, 1, 0, 0}).second, (Values{1, 2}));
  EXPECT_EQ(c.step({5, 6}, {1, 9, 9, 9}, {1, 1, 1, 0, 0, 0}).second, (Values{6, 1}));
  // A row without tokens of its own, while others go on.
  EXPECT_EQ(c.step({5, 6}, {9, 9}, {1, 1, 0, 0}).second, (Values{5, 6}));
}

TEST_P(CausalConv, OnlyTheFormThatIsNotCapturedReadsSizes) {
  std::size_t sizes = 0;
  for (const auto* node : c.model.graph->nodes()) sizes += node->is("Shape");
  EXPECT_EQ(sizes == 0, GetParam());
}

TEST(Recurrence, PaddingTakesNoStep) {
  // S ← e^x·S + x·x;  y = x·S, where there is padding neither.
  Graph g;
  const auto tokens = g.at.only_tokens(g.x);
  g.b.output("y", g.at.recur(g.x, g.x, tokens, tokens, {}, {.query_heads = 1, .heads = 1, .key_dim = 1, .value_dim = 1}));
  g.at.output_caches();
  const auto step = [&](double past, const Values& x, const Values& mask) {
    auto out = g.run("past_key_values.7.recurrent_state", floats({1, 1, 1, 1}, {past}), x, mask);
    return out.at("present.7.recurrent_state").values[0];
  };
  const auto alone = step(2, {1, -1}, {1, 1});
  EXPECT_EQ(step(2, {5, 5, 1, -1}, {0, 0, 1, 1}), alone);
  EXPECT_EQ(step(2, {1, -1, 5}, {1, 1, 0}), alone);
  EXPECT_EQ(step(2, {5}, {1, 1, 0}), 2);
}

TEST(StateOnlyModels, HaveNoMaskAndNameTheirStatesSo) {
  ir::Model model;
  Builder b(*model.graph, DataType::float32);
  const auto ids = b.input("input_ids", DataType::int64, {"batch", "sequence_len"});
  const auto x = b.input("x", DataType::float32, {"batch", "sequence_len", 4});
  Decode at(ids);
  at.enter_layer(3);
  EXPECT_EQ(at.only_tokens(x).value(), x.value());
  b.output("y", at.recur(x, x, x, {}, {}, {.query_heads = 1, .heads = 4, .key_dim = 4, .value_dim = 1, .state = "ssm_state", .flat = true}));
  at.output_caches();
  const auto* state = model.graph->find_value("past_states.3.ssm_state");
  ASSERT_NE(state, nullptr);
  EXPECT_EQ(ir::to_string(*state->shape()), "[batch, 4, 4]");
  EXPECT_EQ(ir::to_string(*model.graph->find_value("present.3.ssm_state")->shape()), "[batch, 4, 4]");
}

}  // namespace
}  // namespace mobius
