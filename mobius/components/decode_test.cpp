#include "mobius/components/decode.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "mobius/ops/interpreter.hpp"

namespace mobius {
namespace {

using ir::DataType;
using ops::Array;

struct Graph {
  ir::Model model;
  Builder b{*model.graph, DataType::float32};
  Tensor ids = b.input("input_ids", DataType::int64, {"batch", "sequence_len"});
  Tensor mask = b.input("attention_mask", DataType::int64, {"batch", "past_sequence_len + sequence_len"});
  Tensor positions = b.input("position_ids", DataType::int64, {"batch", "sequence_len"});
  Decode at{ids, mask, positions};
};

Array int64s(ir::Dims dims, std::vector<double> values) { return {DataType::int64, std::move(dims), std::move(values)}; }

// Rows of the mask as text, one character per key: '1' visible.
std::vector<std::string> visible(std::optional<std::int64_t> window, const Array& attention_mask, std::int64_t new_tokens) {
  Graph g;
  g.b.output("mask", g.at.mask(window));
  const auto batch = attention_mask.dims[0];
  const auto ids = int64s({batch, new_tokens}, std::vector<double>(static_cast<std::size_t>(batch * new_tokens)));
  const auto out = ops::interpret(*g.model.graph, {{"input_ids", ids}, {"attention_mask", attention_mask}, {"position_ids", ids}}).at("mask");
  std::vector<std::string> rows;
  const auto keys = static_cast<std::size_t>(attention_mask.dims[1]);
  for (std::size_t i = 0; i < out.values.size(); ++i) {
    if (i % keys == 0) rows.emplace_back();
    rows.back() += out.values[i] != 0 ? '1' : '0';
  }
  return rows;
}

using Rows = std::vector<std::string>;

TEST(Mask, IsCausal) { EXPECT_EQ(visible({}, int64s({1, 3}, {1, 1, 1}), 3), (Rows{"100", "110", "111"})); }

TEST(Mask, LeavesOutPaddingOnEitherSide) {
  // A padding query sees the first token: no row is empty.
  EXPECT_EQ(visible({}, int64s({1, 4}, {0, 0, 1, 1}), 4), (Rows{"0010", "0010", "0010", "0011"}));
  EXPECT_EQ(visible({}, int64s({1, 4}, {1, 1, 0, 0}), 4), (Rows{"1000", "1100", "1100", "1100"}));
}

TEST(Mask, AWindowCountsTokensNotCacheSlots) {
  // Tokens at slots 0, 1, 4: with a window of 2 the query at slot 4 sees slot 1.
  EXPECT_EQ(visible(2, int64s({1, 5}, {1, 1, 0, 0, 1}), 1), (Rows{"01001"}));
  EXPECT_EQ(visible(2, int64s({1, 4}, {1, 1, 1, 1}), 4), (Rows{"1000", "1100", "0110", "0011"}));
}

TEST(Mask, AChunkEndsWhereTokensAreCountedOut) {
  Graph g;
  g.b.output("mask", g.at.chunk_mask(2));
  const auto see = [&](const Array& attention_mask, std::int64_t new_tokens) {
    const auto ids = int64s({1, new_tokens}, std::vector<double>(static_cast<std::size_t>(new_tokens)));
    const auto out = ops::interpret(*g.model.graph, {{"input_ids", ids}, {"attention_mask", attention_mask}, {"position_ids", ids}}).at("mask");
    std::string row;
    for (const double x : out.values) row += x != 0 ? '1' : '0';
    return row;
  };
  EXPECT_EQ(see(int64s({1, 4}, {1, 1, 1, 1}), 4), "1000110000100011");
  // Padding before and among the tokens: the fourth token, at slot 5, sees the third, at slot 4.
  EXPECT_EQ(see(int64s({1, 6}, {0, 1, 1, 0, 1, 1}), 1), "000011");
}

TEST(Mask, IsMadeOncePerWindow) {
  Graph g;
  g.at.mask({});
  const auto nodes = g.model.graph->node_count();
  g.at.mask({});
  EXPECT_EQ(g.model.graph->node_count(), nodes);
  g.at.mask(4);
  EXPECT_EQ(g.model.graph->node_count(), nodes + 4);
}

TEST(Rope, OneTablePerKind) {
  Graph g;
  const auto x = g.b.input("x", DataType::float32, {"batch", "sequence_len", 32});
  RopeConfig rope{.rotary_dim = 16, .max_position_embeddings = 10};
  g.at.rope(x, 2, rope);
  g.at.rope(x, 2, rope);
  EXPECT_EQ(g.model.graph->initializers().size(), 2u);
  rope.theta = 500000;
  const auto other = g.at.rope(x, 2, rope);
  EXPECT_EQ(g.model.graph->initializers().size(), 4u);
  EXPECT_EQ(*other.value()->shape(), *x.value()->shape());
}

TEST(Rope, ClockwiseUndoesIt) {
  Graph g;
  const auto x = g.b.input("x", DataType::float32, {"batch", "sequence_len", 4});
  RopeConfig rope{.rotary_dim = 4, .max_position_embeddings = 10};
  const auto turned = g.at.rope(x, 1, rope);
  rope.clockwise = true;
  g.b.output("y", g.at.rope(turned, 1, rope));
  const Array values{DataType::float32, {1, 2, 4}, {1, 2, 3, 4, 5, 6, 7, 8}};
  const auto y = ops::interpret(*g.model.graph, {{"x", values}, {"position_ids", int64s({1, 2}, {3, 9})}}).at("y");
  for (std::size_t i = 0; i < 8; ++i) EXPECT_NEAR(y.values[i], values.values[i], 1e-6);
}

TEST(Attend, AgainSeesTheSameKeysAndHasNoCache) {
  Graph g;
  const auto input = [&](const char* name) { return g.b.input(name, DataType::float32, {"batch", "sequence_len", 8}); };
  const auto q = input("q"), k = input("k"), v = input("v");
  const AttentionSpec spec{.num_heads = 2, .num_kv_heads = 2, .head_dim = 4};
  g.b.output("first", g.at.attend(q, k, v, spec));
  g.b.output("again", g.at.attend_again(q, 0, spec));
  g.at.output_caches();
  EXPECT_EQ(g.model.graph->inputs().size(), 8u);  // three of the graph, q, k, v, one past key and value
  const auto numbers = [](ir::Dims dims, double step) {
    Array a{DataType::float32, std::move(dims), {}};
    for (std::int64_t i = 0; i < ir::element_count(a.dims); ++i) a.values.push_back(std::sin(step * static_cast<double>(i + 1)));
    return a;
  };
  const auto out = ops::interpret(*g.model.graph, {{"input_ids", int64s({1, 2}, {0, 0})},
                                                   {"attention_mask", int64s({1, 5}, {1, 1, 1, 1, 1})},
                                                   {"position_ids", int64s({1, 2}, {3, 4})},
                                                   {"q", numbers({1, 2, 8}, 1)},
                                                   {"k", numbers({1, 2, 8}, 2)},
                                                   {"v", numbers({1, 2, 8}, 3)},
                                                   {"past_key_values.0.key", numbers({1, 2, 3, 4}, 4)},
                                                   {"past_key_values.0.value", numbers({1, 2, 3, 4}, 5)}});
  EXPECT_EQ(out.at("first").values, out.at("again").values);
  EXPECT_EQ(out.count("present.1.key"), 0u);
}

TEST(Rope, LongropePicksByTheLongestPosition) {
  Graph g;
  const auto x = g.b.input("x", DataType::float32, {"batch", "sequence_len", 2});
  const RopeConfig rope{.type = RopeType::longrope,
                        .rotary_dim = 2,
                        .max_position_embeddings = 8,
                        .original_max_position_embeddings = 4,
                        .short_factor = {1},
                        .long_factor = {1000000}};
  g.b.output("y", g.at.rope(x, 1, rope));
  const auto run = [&](double last) {
    const auto ids = int64s({1, 2}, {0, 0});
    const auto y = ops::interpret(
        *g.model.graph,
        {{"input_ids", ids}, {"attention_mask", ids}, {"position_ids", int64s({1, 2}, {1, last})}, {"x", {DataType::float32, {1, 2, 2}, {1, 0, 1, 0}}}});
    return y.at("y").values[0];  // cos of position 1
  };
  EXPECT_NEAR(run(3), std::cos(1.0), 1e-6);  // short factors
  EXPECT_NEAR(run(4), 1.0, 1e-6);            // long ones: almost no rotation
}

TEST(Attend, DeclaresCachesInOrder) {
  Graph g;
  const auto q = g.b.input("q", DataType::float32, {"batch", "sequence_len", 32}), k = g.b.input("k", DataType::float32, {"batch", "sequence_len", 16});
  const AttentionSpec spec{.num_heads = 4, .num_kv_heads = 2, .head_dim = 8, .scale = 1 / std::sqrt(8.0)};
  g.at.attend(q, k, k, spec);
  g.at.attend(q, k, k, spec);
  g.at.output_caches();
  EXPECT_TRUE(g.model.graph->find_value("past_key_values.1.value"));
  ASSERT_EQ(g.model.graph->outputs().size(), 4u);
  EXPECT_EQ(g.model.graph->outputs()[2]->name, "present.1.key");
  EXPECT_EQ(ir::to_string(*g.model.graph->outputs()[2]->shape()), "[batch, 2, past_sequence_len + sequence_len, 8]");
  for (const auto* n : g.model.graph->nodes()) EXPECT_FALSE(n->attribute("scale")) << "the default is not written";
}

}  // namespace
}  // namespace mobius
