#include "mobius/components/layer_norm_decoder.hpp"

#include <gtest/gtest.h>

#include "mobius/ops/interpreter.hpp"

namespace mobius {
namespace {

using ir::DataType;
using ops::Array;

// Which rows of the fused matrix a projection has; its rows hold their own number.
std::vector<double> rows_of(const Linear& part, std::int64_t rows) {
  const ir::TensorData* leaf = part.weight().data().get();
  while (!dynamic_cast<const ir::Placeholder*>(leaf)) leaf = leaf->sources()[0].get();
  std::vector<float> numbers(static_cast<std::size_t>(rows));
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<float>(i);
  dynamic_cast<const ir::Placeholder&>(*leaf).bind(ir::make_tensor({rows, 1}, numbers));
  return *ir::as_doubles(*part.weight().data());
}

DecoderConfig heads(std::int64_t queries, std::int64_t keys) {
  DecoderConfig c;
  c.hidden_size = 1;
  c.num_attention_heads = queries;
  c.num_key_value_heads = keys;
  c.head_dim = 2;
  return c;
}

using Rows = std::vector<double>;

TEST(FusedQKV, HasTheHeadsOfEachGroupTogether) {
  const Scope at(DataType::float32, "qkv");
  const auto grouped = fused_qkv(at, heads(4, 2));  // q q k v | q q k v
  EXPECT_EQ(rows_of(grouped.q, 16), (Rows{0, 1, 2, 3, 8, 9, 10, 11}));
  EXPECT_EQ(rows_of(grouped.k, 16), (Rows{4, 5, 12, 13}));
  EXPECT_EQ(rows_of(grouped.v, 16), (Rows{6, 7, 14, 15}));
  const auto per_head = fused_qkv(at, heads(2, 2));  // q k v | q k v
  EXPECT_EQ(rows_of(per_head.q, 12), (Rows{0, 1, 6, 7}));
  EXPECT_EQ(rows_of(per_head.v, 12), (Rows{4, 5, 10, 11}));
  const auto one_key = fused_qkv(at, heads(2, 1));  // q q k v
  EXPECT_EQ(rows_of(one_key.q, 8), (Rows{0, 1, 2, 3}));
  EXPECT_EQ(rows_of(one_key.k, 8), (Rows{4, 5}));
  EXPECT_EQ(rows_of(joined_qkv(at, heads(2, 2)).k, 12), (Rows{4, 5, 6, 7}));
}

TEST(Alibi, SlopesAreThoseOfThePaper) {
  EXPECT_EQ(alibi_slopes(8), (Rows{1. / 2, 1. / 4, 1. / 8, 1. / 16, 1. / 32, 1. / 64, 1. / 128, 1. / 256}));
  // Three heads: those of two, and the first of four.
  EXPECT_EQ(alibi_slopes(3), (Rows{1. / 16, 1. / 256, 1. / 4}));
}

TEST(Alibi, DistancesCountTokens) {
  ir::Model model;
  Builder b(*model.graph, DataType::float32);
  const auto ids = b.input("input_ids", DataType::int64, {"batch", "sequence_len"});
  const auto attention_mask = b.input("attention_mask", DataType::int64, {"batch", "past_sequence_len + sequence_len"});
  Decode at(ids, attention_mask, ids);
  const auto bias = alibi(at, {0.5, 0.25});
  const auto mask = at.mask({}, bias);
  EXPECT_EQ(mask.value(), at.mask({}, bias).value());
  b.output("mask", mask);
  // Tokens at slots 0, 1 and 4; the query is the last one.
  const Array one{DataType::int64, {1, 1}, {0}}, row{DataType::int64, {1, 5}, {1, 1, 0, 0, 1}};
  const auto out = ops::interpret(*model.graph, {{"input_ids", one}, {"attention_mask", row}}).at("mask");
  EXPECT_EQ(out.dims, (ir::Dims{1, 2, 1, 5}));
  for (std::size_t head = 0; head < 2; ++head) {
    const auto* scores = &out.values[head * 5];
    const auto slope = head == 0 ? 0.5 : 0.25;
    EXPECT_EQ(scores[0], -2 * slope);
    EXPECT_EQ(scores[1], -1 * slope);
    EXPECT_LT(scores[2], -1e38);
    EXPECT_LT(scores[3], -1e38);
    EXPECT_EQ(scores[4], 0);
  }
}

}  // namespace
}  // namespace mobius
