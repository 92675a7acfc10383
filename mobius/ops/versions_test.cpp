#include "mobius/ops/versions.hpp"

#include <gtest/gtest.h>

#include "mobius/ir/model.hpp"

namespace mobius::ops {
namespace {

std::int64_t least(const std::string& body, std::string_view input = "float[B,4] x") {
  auto model = ir::model_from_text("<ir_version: 13, opset_import: [\"\" : 28]> g (" + std::string(input) + ") => (y) { " + body + " }");
  return least_opset(*model.graph->first());
}

TEST(Versions, OperatorsOperandsAndAttributes) {
  EXPECT_EQ(least("y = Add(x, x)"), 1);
  EXPECT_EQ(least("y = Gelu(x)"), 20);
  EXPECT_EQ(least("y = Attention(x, x, x)"), 23);
  EXPECT_EQ(least("y = Attention(x, x, x, \"\", \"\", \"\", x)"), 24);
  EXPECT_EQ(least("y = Attention<left_window_size = 3>(x, x, x)"), 25);
  EXPECT_EQ(least("y = Cast<to = 10>(x)"), 1);
  EXPECT_EQ(least("y = Cast<to = 10, round_mode = \"up\">(x)"), 24);
  EXPECT_EQ(least("y = my.Attention(x)"), 1);
}

TEST(Versions, ElementTypes) {
  EXPECT_EQ(least("y = Sin(x)"), 1);
  EXPECT_EQ(least("y = Sin(x)", "bfloat16[B] x"), 22);
  EXPECT_EQ(least("y = Mul(x, x)", "bfloat16[B] x"), 1);
  EXPECT_EQ(least("y = Reshape(x, x)", "float4e2m1[B] x"), 23);
  EXPECT_EQ(least_ir_version(ir::DataType::float4e2m1), 11);
  EXPECT_EQ(least_ir_version(ir::DataType::float32), 1);
}

TEST(Versions, NodesThatAnOpsetChanged) {
  auto model = ir::model_from_text("<ir_version: 10, opset_import: [\"\" : 19]> g (float[B,4] x) => (y) { a = Neg(x) y = GridSample(a, x) }");
  const auto *neg = model.graph->first(), *sample = model.graph->last();
  EXPECT_FALSE(differs_between(*neg, 19, 24));
  EXPECT_TRUE(differs_between(*sample, 19, 24));
  EXPECT_FALSE(differs_between(*sample, 20, 24));
  EXPECT_FALSE(differs_between(*neg, 13, 24));
  EXPECT_TRUE(differs_between(*neg, 12, 24)) << "what was changed up to opset 13 is not known here";
  EXPECT_FALSE(differs_between(*neg, 12, 12));
}

TEST(Versions, NodesInAnOlderForm) {
  auto model = ir::model_from_text(R"(<ir_version: 8, opset_import: ["" : 17]> g (float[2,4] x, int64[1] axes) => (y) {
    a = ReduceMean<axes = [-1]>(x)  b = ReduceMean(x)  c, d = Split<axis = 1>(x)  e, f = Split<axis = 1, num_outputs = 2>(x)  y = ReduceSum(x, axes) })");
  std::vector<bool> older;
  for (const auto* n : model.graph->nodes()) {
    older.push_back(has_older_form(*n));
    EXPECT_EQ(differs_between(*n, 17, 18), older.back()) << n->op.type;
    EXPECT_FALSE(differs_between(*n, 18, 24)) << n->op.type;
  }
  EXPECT_EQ(older, (std::vector{true, false, true, false, false}));
}

TEST(Versions, IrVersions) {
  EXPECT_EQ(ir_version_of(21), 10);
  EXPECT_EQ(ir_version_of(22), 10);
  EXPECT_EQ(ir_version_of(23), 11);
  EXPECT_EQ(ir_version_of(24), 11);
}

}  // namespace
}  // namespace mobius::ops
