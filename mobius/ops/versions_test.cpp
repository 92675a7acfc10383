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
  EXPECT_FALSE(differs_between(*neg, 9, 24));
  EXPECT_TRUE(differs_between(*neg, 8, 24)) << "what was changed up to opset 9 is not known here";
  EXPECT_FALSE(differs_between(*neg, 8, 8));
}

TEST(Versions, NodesInAnOlderForm) {
  auto model = ir::model_from_text(R"(<ir_version: 8, opset_import: ["" : 17]> g (float[2,4] x, int64[1] axes) => (y) {
    a = ReduceMean<axes = [-1]>(x)  b = ReduceMean(x)  c, d = Split<axis = 1>(x)  e, f = Split<axis = 1, num_outputs = 2>(x)  y = ReduceSum(x, axes) })");
  std::vector<std::int64_t> since;
  for (const auto* n : model.graph->nodes()) {
    since.push_back(newer_form_since(*n));
    EXPECT_EQ(differs_between(*n, 17, 18), since.back() == 18) << n->op.type;
    EXPECT_FALSE(differs_between(*n, 18, 24)) << n->op.type;
  }
  EXPECT_EQ(since, (std::vector<std::int64_t>{18, 0, 18, 0, 0}));
}

TEST(Versions, NodesInTheFormsOfOpset9) {
  auto model = ir::model_from_text(R"(<ir_version: 4, opset_import: ["" : 9]> g (float[2,4] x, int64[1] k) => (y) {
    a = Slice<starts = [0], ends = [1]>(x)  b, bi = TopK<k = 2>(x)  c = Clip(x)  d = Pad<pads = [0, 0, 0, 1]>(x)  e = Dropout<ratio = 0.5>(x)
    f, g = Split<split = [1, 3], axis = 1>(x)  h = ReduceSum<axes = [0]>(x)  i = Squeeze<axes = [0]>(h)  j = Unsqueeze<axes = [0]>(x)  l = Softmax(x)
    m = Upsample(x)  n = Squeeze(x)  o = ReduceMax<axes = [0]>(x)  p = Dropout(x)  q, mask = Dropout(x)  y = Neg(x) })");
  std::vector<std::int64_t> since;
  for (const auto* n : model.graph->nodes()) since.push_back(newer_form_since(*n));
  EXPECT_EQ(since, (std::vector<std::int64_t>{10, 10, 11, 11, 12, 13, 13, 13, 13, 13, 0, 0, 18, 0, 12, 0}));
  for (const auto* n : model.graph->nodes()) EXPECT_EQ(differs_between(*n, 9, 24), newer_form_since(*n) > 0 || n->is("Upsample")) << n->op.type;
}

TEST(Versions, IrVersions) {
  EXPECT_EQ(ir_version_of(21), 10);
  EXPECT_EQ(ir_version_of(22), 10);
  EXPECT_EQ(ir_version_of(23), 11);
  EXPECT_EQ(ir_version_of(24), 11);
}

}  // namespace
}  // namespace mobius::ops
