#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "mobius/base/error.hpp"
#include "mobius/ep/context.hpp"
#include "mobius/ep/registry.hpp"

namespace mobius {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using enum ir::DataType;

template <class F>
std::string error_of(F&& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

TEST(EpRegistry, HoldsTheBuiltInEps) {
  auto names = ep_registry().names();
  names.resize(10);
  EXPECT_THAT(names, ElementsAre("default", "cpu", "cuda", "dml", "webgpu", "mlx", "trt-rtx", "onnx-standard", "openvino", "qnn"));
  EXPECT_TRUE(get_ep("cuda").gqa_dtypes.contains(bfloat16));
  EXPECT_FALSE(get_ep("cpu").gqa_dtypes.contains(float16));
  EXPECT_FALSE(get_ep("dml").supports_fused_rope);
}

TEST(EpRegistry, AnUnknownNameListsTheKnownOnes) {
  EXPECT_THAT(error_of([] { get_ep("rocm"); }), HasSubstr("Unknown execution provider 'rocm'. Supported: default, cpu, cuda"));
  EXPECT_EQ(ep_registry().get("rocm"), nullptr);
}

TEST(EpRegistry, RegistersOnceUnlessToldToOverwrite) {
  register_ep({.name = "test-ep", .gqa_dtypes = {float16}});
  EXPECT_TRUE(get_ep("test-ep").gqa_dtypes.contains(float16));
  EXPECT_THAT(error_of([] { register_ep({.name = "test-ep"}); }), HasSubstr("already registered"));
  register_ep({.name = "test-ep", .gqa_dtypes = {float32}}, true);
  EXPECT_FALSE(get_ep("test-ep").gqa_dtypes.contains(float16));
}

TEST(EpRegistry, FieldsMustAgree) {
  EXPECT_THAT(error_of([] { register_ep({.name = "a", .qkv_pack_dtypes = {float16}, .supports_fused_rope = false}); }), HasSubstr("qkv_pack_dtypes"));
  EXPECT_THAT(error_of([] { register_ep({.name = "b", .cap_kv_buffer_max_length = true}); }), HasSubstr("share_buffer"));
  const EpCapabilities contradicting{.name = "c", .provider_options = {{"capture", "1"}}, .graph_capture_option = "capture"};
  EXPECT_THAT(error_of([&] { register_ep(contradicting); }), HasSubstr("provider option capture is '1', but enable_graph_capture is false"));
  for (auto ep : builtin_eps()) {
    const std::string name = ep.name;
    EXPECT_EQ(error_of([&] { register_ep(std::move(ep), true); }), "no error") << name;
  }
}

TEST(ChooseDtype, TakesTheCheckpointsIfTheEpRunsIt) {
  EXPECT_EQ(choose_dtype(get_ep("cuda"), {}, bfloat16), bfloat16);
  EXPECT_EQ(choose_dtype(get_ep("default"), {}, bfloat16), float32);
  EXPECT_EQ(choose_dtype(get_ep("webgpu"), {}, bfloat16), float16);
  EXPECT_EQ(choose_dtype(get_ep("cpu"), float16, bfloat16), float16);
  EXPECT_THAT(error_of([] { choose_dtype(get_ep("cpu"), bfloat16, float32); }), HasSubstr("'cpu' does not run bf16; it runs f32, f16"));
}

TEST(BuildContext, NestsAndComesBackAfterAnException) {
  EXPECT_EQ(ep_capabilities().name, "default");
  EXPECT_EQ(get_build_dtype(), float32);
  const auto outer = build_context(get_ep("cuda"), float16);
  try {
    const auto inner = build_context(get_ep("dml"));
    EXPECT_EQ(ep_capabilities().name, "dml");
    throw 1;
  } catch (int) {
  }
  EXPECT_EQ(ep_capabilities().name, "cuda");
  EXPECT_EQ(get_build_dtype(), float16);
}

TEST(BuildContext, BelongsToItsThreadAndCanBeCarried) {
  const auto context = build_context(get_ep("cuda"), float16);
  const auto here = BuildContext::snapshot();
  std::thread([&] {
    EXPECT_EQ(ep_capabilities().name, "default");
    const auto resumed = BuildContext::resume(here);
    EXPECT_EQ(ep_capabilities().name, "cuda");
  }).join();
}

}  // namespace
}  // namespace mobius
