// Tests of how the steps of recipe.hpp compose: which ones vanish, meet or move.
#include <gtest/gtest.h>

#include "mobius/ir/recipe.hpp"

namespace mobius::ir {
namespace {

// Leaves without data: what is compared is which recipe comes out.
class Composition : public ::testing::Test {
 protected:
  static TensorPtr placeholder(const std::string& name, Dims dims, DataType dtype = DataType::bfloat16) {
    return std::make_shared<Placeholder>(std::vector<std::string>{name}, dtype, std::move(dims));
  }
  TensorPtr x = placeholder("x", {8, 6, 4});
  TensorPtr q = placeholder("q", {8, 4});
  TensorPtr k = placeholder("k", {2, 4});
  TensorPtr v = placeholder("v", {3, 4});
};

TEST_F(Composition, StepsThatDoNothingVanish) {
  EXPECT_EQ(cast(x, DataType::bfloat16), x);
  EXPECT_EQ(reshape(x, {8, 6, 4}), x);
  EXPECT_EQ(reshape(reshape(x, {48, 4}), {8, 6, 4}), x);
  EXPECT_EQ(transpose(x, {0, 1, 2}), x);
  EXPECT_EQ(transpose(transpose(x, {2, 0, 1}), {1, 2, 0}), x);
  EXPECT_EQ(slice(x, 1, 0, 6), x);
  EXPECT_EQ(take(x, 0, {0, 1, 2, 3, 4, 5, 6, 7}), x);
  EXPECT_EQ(take(take(x, 0, {1, 0, 2, 3, 4, 5, 6, 7}), 0, {1, 0, 2, 3, 4, 5, 6, 7}), x);
  EXPECT_EQ(pad_end(x, 0, 8), x);
  EXPECT_EQ(concat({x}, 0), x);
  EXPECT_EQ(concat({x, slice(x, 1, 0, 0)}, 1), x);
}

TEST_F(Composition, CastsThatLoseNothingCancel) {
  EXPECT_EQ(cast(cast(x, DataType::float32), DataType::bfloat16), x);
  EXPECT_EQ(cast(cast(x, DataType::float64), DataType::bfloat16), x);
  const TensorPtr rounded = cast(cast(x, DataType::float16), DataType::bfloat16);
  EXPECT_NE(rounded, x);
  EXPECT_EQ(rounded->sources()[0]->sources()[0], x);
}

TEST_F(Composition, TransposeOfOnesIsReshape) {
  const TensorPtr y = placeholder("y", {8, 1, 4});
  const TensorPtr t = transpose(y, {1, 0, 2});
  EXPECT_EQ(t->dims(), (Dims{1, 8, 4}));
  EXPECT_EQ(t->identity(), reshape(y, {1, 8, 4})->identity());
}

TEST_F(Composition, SlicesMeetTheirSource) {
  const TensorPtr s = slice(slice(x, 1, 1, 5), 1, 1, 3);
  EXPECT_EQ(s->sources()[0], x);
  EXPECT_EQ(s->identity(), slice(x, 1, 2, 4)->identity());

  const TensorPtr qkv = concat({q, k, v}, 0);
  EXPECT_EQ(slice(qkv, 0, 0, 8), q);
  EXPECT_EQ(slice(qkv, 0, 8, 10), k);
  EXPECT_EQ(slice(qkv, 0, 8, 13)->identity(), concat({k, v}, 0)->identity());
  EXPECT_EQ(slice(qkv, 0, 9, 10)->identity(), slice(k, 0, 1, 2)->identity());
  EXPECT_EQ(slice(qkv, 0, 5, 5)->dims(), (Dims{0, 4}));
  EXPECT_EQ(slice(qkv, 1, 0, 2)->sources()[0], qkv);
}

TEST_F(Composition, NeighbouringSlicesJoin) {
  EXPECT_EQ(concat({slice(x, 1, 0, 2), slice(x, 1, 2, 5), slice(x, 1, 5, 6)}, 1), x);
  EXPECT_EQ(concat({slice(x, 1, 1, 2), slice(x, 1, 2, 5)}, 1)->identity(), slice(x, 1, 1, 5)->identity());
  EXPECT_EQ(concat({slice(x, 1, 2, 4), slice(x, 1, 0, 2)}, 1)->sources().size(), 2u);
  EXPECT_EQ(concat({slice(x, 1, 0, 3), slice(x, 1, 3, 6)}, 0)->sources().size(), 2u);
  EXPECT_EQ(concat({concat({q, k}, 0), v}, 0)->sources().size(), 3u);
  EXPECT_EQ(concat({concat({q, slice(k, 0, 0, 1)}, 0), slice(k, 0, 1, 2)}, 0)->identity(), concat({q, k}, 0)->identity());
}

TEST_F(Composition, CastsMoveOutward) {
  const TensorPtr wide = cast(x, DataType::float32);
  EXPECT_EQ(concat({slice(wide, 0, 0, 3), slice(cast(x, DataType::float32), 0, 3, 8)}, 0)->identity(), wide->identity());
  EXPECT_EQ(transpose(transpose(wide, {1, 0, 2}), {1, 0, 2})->sources()[0], x);
  EXPECT_EQ(cast(slice(wide, 0, 0, 3), DataType::bfloat16)->identity(), slice(x, 0, 0, 3)->identity());
}

TEST_F(Composition, IdentitiesTellRecipesApart) {
  const std::vector<TensorPtr> all = {x,
                                      cast(x, DataType::float16),
                                      cast(x, DataType::float32),
                                      reshape(x, {192}),
                                      transpose(x, {1, 0, 2}),
                                      transpose(x, {2, 1, 0}),
                                      slice(x, 0, 0, 2),
                                      slice(x, 0, 1, 3),
                                      slice(x, 1, 0, 2),
                                      concat({x, x}, 0),
                                      concat({x, x}, 1),
                                      take(x, 0, {1, 0}),
                                      take(x, 0, {0, 0}),
                                      take(x, 1, {1, 0}),
                                      affine(x, 2, 0),
                                      pad_end(x, 0, 9),
                                      pad_end(x, 0, 9, 1),
                                      placeholder("y", {8, 6, 4})};
  for (std::size_t i = 0; i < all.size(); ++i) {
    for (std::size_t j = 0; j < all.size(); ++j) EXPECT_EQ(all[i]->identity() == all[j]->identity(), i == j) << i << " " << j;
  }
}

}  // namespace
}  // namespace mobius::ir
