#include "mobius/ir/shape.hpp"

#include <gtest/gtest.h>

namespace mobius::ir {
namespace {

const Dim batch = "batch", past = "past_sequence_len", seq = "sequence_len";

TEST(Dim, SumsHaveOneForm) {
  EXPECT_EQ((past + seq).to_string(), "past_sequence_len + sequence_len");
  EXPECT_EQ(seq + past, past + seq);
  EXPECT_EQ(past + seq - past, seq);
  EXPECT_EQ(seq - seq, Dim(0));
  EXPECT_EQ(Dim("2*sequence_len - 1"), seq * 2 - 1);
  EXPECT_EQ((batch * seq * 3 + 1).to_string(), "3*batch*sequence_len + 1");
  EXPECT_EQ((Dim(-1) * seq).to_string(), "-sequence_len");
}

TEST(Dim, WhatIsPrintedIsReadBack) {
  for (const auto& d : {past + seq, batch * seq * 4 - 7, Dim(-1) * seq, Dim(12), seq * seq}) EXPECT_EQ(Dim::parse(d.to_string()), d) << d.to_string();
}

TEST(Dim, OtherTextIsOneSymbol) {
  EXPECT_TRUE(Dim::parse("max(a, b)").is_symbolic());
  EXPECT_EQ(Dim::parse("max(a, b)").to_string(), "max(a, b)");
  EXPECT_EQ(Dim::parse("99999999999999999999").to_string(), "99999999999999999999");
  EXPECT_TRUE(Dim::parse("").is_unknown());
}

TEST(Dim, DivisionIsExactOrNothing) {
  EXPECT_EQ((seq * 64).divided_by(16), seq * 4);
  EXPECT_EQ((batch * seq * 8 + seq * 4).divided_by(seq * 4), batch * 2 + 1);
  EXPECT_EQ((seq + 1).divided_by(2), std::nullopt);
  EXPECT_EQ((past + seq).divided_by(past + seq), Dim(1));
  EXPECT_EQ(seq.divided_by(0), std::nullopt);
}

TEST(Dim, WhatDoesNotFitIsUnknown) {
  const Dim huge = std::int64_t{1} << 62;
  EXPECT_TRUE((huge + huge).is_unknown());
  EXPECT_TRUE((huge * 4).is_unknown());
  EXPECT_TRUE((huge * seq + huge * seq).is_unknown());
  EXPECT_TRUE((huge * seq * 4).is_unknown());
}

TEST(Dim, UnknownEqualsNothing) {
  EXPECT_NE(Dim(), Dim());
  EXPECT_TRUE((Dim() + 1).is_unknown());
}

TEST(Shape, Broadcasts) {
  EXPECT_EQ(broadcast({batch, 1, 64}, {seq, 1}), (Shape{batch, seq, 64}));
  EXPECT_EQ(broadcast({2, 3}, {4}), std::nullopt);
  EXPECT_EQ(broadcast({batch}, {64}), Shape{64});
  const auto different = broadcast({batch}, {seq});
  ASSERT_TRUE(different);
  EXPECT_TRUE((*different)[0].is_unknown());
}

// A table of 96 positions cut to the tokens at hand, beside the tokens: as many as tokens, or not to be broadcast.
TEST(Shape, BroadcastsTheSmallerOfASizeAndANumber) {
  const Dim n("n"), cut = smaller_of(96, n);
  EXPECT_EQ(cut, Dim("Min(96, n)"));
  EXPECT_EQ(to_string(*broadcast({n, 8}, {cut, 8})), "[n, 8]");
  EXPECT_EQ(to_string(*broadcast({cut, 8}, {"batch", n, 8})), "[batch, n, 8]");
  EXPECT_EQ(to_string(*broadcast({"m"}, {cut})), "[?]");
  EXPECT_EQ(to_string(*broadcast({n}, {smaller_of(0, n)})), "[?]");
  EXPECT_EQ(to_string(*broadcast({Dim("n*m")}, {smaller_of(7, Dim("n*m"))})), "[m*n]");
}

TEST(Shape, CountsElementsWithoutOverflow) {
  EXPECT_EQ(element_count(Shape{2, 3, 4}), 24);
  EXPECT_EQ(element_count(Shape{std::int64_t{1} << 40, std::int64_t{1} << 40}), std::nullopt);
  EXPECT_EQ(element_count(Shape{batch}), std::nullopt);
}

}  // namespace
}  // namespace mobius::ir
