#include "mobius/rules/rules.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mobius/ep/registry.hpp"
#include "mobius/ir/model.hpp"

namespace mobius::rules {
namespace {

using ::testing::HasSubstr;

struct Result {
  rewrite::RuleReport report;
  std::string ops;
};

Result rewritten(const rewrite::RuleGroup& rule, std::string_view text, std::string_view ep = "default") {
  auto model = ir::model_from_text(text);
  auto report = rewrite::apply(rule, *model.graph, {get_ep(ep), ir::DataType::float32, "decoder"});
  model.opset_imports["com.microsoft"] = model.opset_imports["test"] = 1;
  EXPECT_EQ(ir::verify(model), std::vector<std::string>{});
  std::string ops;
  for (const auto* n : model.graph->nodes()) ops += (ops.empty() ? "" : " ") + std::string(n->op.type);
  return {std::move(report), ops};
}

constexpr auto linear =
    "g (float[B,S,8] x) => (float[B,S,4] y) <float[4,8] w = {1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1}> "
    "{ t = Transpose<perm = [1, 0]>(w) y = MatMul(x, t) }";

TEST(FusedMatMul, TakesATransposedWeight) { EXPECT_EQ(rewritten(fused_matmul(), linear).ops, "FusedMatMul"); }
TEST(FusedMatMul, NotWhereTheEpLacksIt) { EXPECT_EQ(rewritten(fused_matmul(), linear, "onnx-standard").ops, "Transpose MatMul"); }
TEST(FusedMatMul, NotAnotherPermutation) {
  const auto r = rewritten(fused_matmul(), "g (float[B,S,8] x, float[8,4] w) => (float[B,S,4] y) { t = Transpose<perm = [0, 1]>(w) y = MatMul(x, t) }");
  EXPECT_EQ(r.ops, "Transpose MatMul");
  EXPECT_THAT(r.report.nearest_miss, HasSubstr("attribute perm has another value"));
}

constexpr auto residual =
    "g (float[B,S,8] x, float[B,S,8] r, float[8] w) => (float[B,S,8] y, float[B,S,8] z) { s = Add(x, r) y = RMSNormalization<epsilon = 0.1>(s, w) z = Neg(s) }";

TEST(SkipNorm, TakesTheResidualAlong) {
  const auto r = rewritten(skip_norm(), residual);
  EXPECT_EQ(r.ops, "SkipSimplifiedLayerNormalization Neg");
  EXPECT_EQ(r.report.change_per_op.at("Add"), -1);
}
TEST(SkipNorm, NotWhereTheEpLacksIt) { EXPECT_EQ(rewritten(skip_norm(), residual, "trt-rtx").ops, "Add RMSNormalization Neg"); }
TEST(SkipNorm, NotABroadcastSum) {
  const auto r = rewritten(skip_norm(), "g (float[B,S,8] x, float[8] r, float[8] w) => (float[B,S,8] y) { s = Add(x, r) y = RMSNormalization(s, w) }");
  EXPECT_EQ(r.ops, "Add RMSNormalization");
  EXPECT_THAT(r.report.nearest_miss, HasSubstr("operands have shapes [B, S, 8] and [8]"));
}
TEST(SkipNorm, NotOverAnotherAxis) {
  const auto r =
      rewritten(skip_norm(), "g (float[B,S,8] x, float[B,S,8] r, float[S,8] w) => (float[B,S,8] y) { s = Add(x, r) y = RMSNormalization<axis = 1>(s, w) }");
  EXPECT_THAT(r.report.nearest_miss, HasSubstr("attribute axis is set"));
}
TEST(SkipNorm, ASumThatIsAnOutputStaysOne) {
  const auto r =
      rewritten(skip_norm(), "g (float[B,S,8] x, float[B,S,8] r, float[8] w) => (float[B,S,8] y, float[B,S,8] s) { s = Add(x, r) y = RMSNormalization(s, w) }");
  EXPECT_EQ(r.ops, "SkipSimplifiedLayerNormalization");
}

}  // namespace
}  // namespace mobius::rules
