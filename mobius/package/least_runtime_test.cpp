#include "mobius/package/least_runtime.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace mobius::package {
namespace {

std::string least(int ir_version, int opset, std::string_view nodes) {
  return least_onnxruntime(
      ir::model_from_text(fmt::format("<ir_version: {}, opset_import: [\"\": {}, \"com.microsoft\": 1]> g (float[B,4,S,8] q, float[B,2,S,8] k, float[B,2,S,8] "
                                      "v, float[B,1,S,S] mask, float[B,4,S,S] own,"
                                      " float[B,S,8] x, int32[B] lengths, int32 total, float[4] sink) => (y) {{ {} }}",
                                      ir_version, opset, nodes)));
}

TEST(LeastRuntime, FollowsFromBothVersions) {
  EXPECT_EQ(least(10, 21, "y = Neg(x)"), "1.19");
  EXPECT_EQ(least(11, 21, "y = Neg(x)"), "1.23");
  EXPECT_EQ(least(11, 24, "y = Neg(x)"), "1.24");
  EXPECT_EQ(least(11, 99, "y = Neg(x)"), "unknown");
}
TEST(LeastRuntime, FollowsFromFormsOfAttention) {
  EXPECT_EQ(least(11, 23, "y = Attention(q, k, v, mask)"), "1.23");
  EXPECT_EQ(least(11, 24, "y = Attention<q_num_heads = 4, kv_num_heads = 2>(x, x, x, mask)"), "1.24");
  EXPECT_EQ(least(11, 24, "y = Attention<q_num_heads = 4, kv_num_heads = 2>(x, x, x, own)"), "1.25");
  EXPECT_EQ(least(11, 24, "y = Attention(q, k, v, own)"), "1.25");
  EXPECT_EQ(least(11, 24, "y = Attention(q, q, q, own)"), "1.24");
  EXPECT_EQ(least(11, 23, "y = Attention<softcap = 30.0>(q, k, v, mask)"), "1.27");
}
TEST(LeastRuntime, FollowsFromFormsOfGroupQueryAttention) {
  const auto gqa = [](std::string_view attributes, std::string_view operands = "") {
    return least(
        10, 21,
        fmt::format("y = com.microsoft.GroupQueryAttention<num_heads = 4, kv_num_heads = 2{}>(x, x, x, \"\", \"\", lengths, total{})", attributes, operands));
  };
  EXPECT_EQ(gqa(""), "1.20");
  EXPECT_EQ(gqa("", ", \"\", \"\", \"\", own"), "1.22");
  EXPECT_EQ(gqa("", ", \"\", \"\", \"\", \"\", sink"), "1.24");
  EXPECT_EQ(gqa(", local_window_size = 4"), "1.24");
}
TEST(LeastRuntime, FollowsFromExperts) {
  EXPECT_EQ(least(10, 21, "y = com.microsoft.MoE<k = 1>(x, x, q, \"\", k)"), "1.23");
  const auto of_half = [](int divides) {
    auto model = ir::model_from_text(
        fmt::format("<ir_version: 10, opset_import: [\"\": 21, \"com.microsoft\": 1]> g (float16[S,8] x, float16[S,4] r, float16[4,16,8] a, float16[4,8,8] b)"
                    " => (float16[S,8] y) {{ y = com.microsoft.MoE<k = 1, normalize_routing_weights = {}>(x, r, a, \"\", b) }}",
                    divides));
    return least_onnxruntime(model);
  };
  EXPECT_EQ(of_half(1), "1.23");
  EXPECT_EQ(of_half(0), "1.32");
}
TEST(LeastRuntime, LooksIntoSubgraphs) {
  EXPECT_EQ(
      least(
          11, 24,
          "c = Cast<to = 9>(total) y = If(c) <then_branch = a () => (t) { t = Attention<softcap = 1.0>(q, k, v) }, else_branch = b () => (e) { e = Neg(q) }>"),
      "1.27");
}

}  // namespace
}  // namespace mobius::package
