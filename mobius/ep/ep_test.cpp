#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "mobius/base/error_of_test.hpp"
#include "mobius/base/file.hpp"
#include "mobius/ep/context.hpp"
#include "mobius/ep/fields.hpp"
#include "mobius/ep/registry.hpp"

namespace mobius {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using enum ir::DataType;

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
  EXPECT_THAT(error_of([] { register_ep({.name = "a", .supports_fused_moe = false, .fused_moe_dtypes = {float16}}); }), HasSubstr("fused_moe_dtypes"));
  EXPECT_THAT(error_of([] { register_ep({.name = "a", .fused_moe_size_multiple = 0}); }), HasSubstr("fused_moe_size_multiple"));
  EXPECT_THAT(error_of([] { register_ep({.name = "b", .cap_kv_buffer_max_length = true}); }), HasSubstr("share_buffer"));
  const EpCapabilities contradicting{.name = "c", .provider_options = {{"capture", "1"}}, .graph_capture_option = "capture"};
  EXPECT_THAT(error_of([&] { register_ep(contradicting); }), HasSubstr("provider option capture is '1', but enable_graph_capture is false"));
  EXPECT_THAT(error_of([] { register_ep({.name = "d", .max_opset = 20}); }), HasSubstr("max_opset is 20, expected 21 to 28"));
  EXPECT_THAT(error_of([] { register_ep({.name = "e", .max_opset = 29}); }), HasSubstr("max_opset is 29, expected 21 to 28"));
  EXPECT_THAT(error_of([] { register_ep({.name = "f", .max_ir = 9}); }), HasSubstr("max_ir is 9, expected 10 or more"));
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

// ── fields as JSON ───────────────────────────────────────────────────────────────────────────────────────────────────────

TEST(EpFields, AreThoseOfTheStruct) {
  // Members are declared as "type name = default;".
  const auto header = read_text_file(fs::path(MOBIUS_TESTDATA).parent_path() / "mobius/ep/capabilities.hpp");
  const auto begin = header.find("struct EpCapabilities {"), end = header.find("\n};", begin);
  std::vector<std::string> declared, listed;
  for (auto at = header.find('\n', begin); at < end; at = header.find('\n', at + 1)) {
    const auto line = header.substr(at + 1, header.find('\n', at + 1) - at - 1);
    const auto equals = line.find(" = ");
    if (line.find(';') == std::string::npos || equals > line.find(';') || line.starts_with("  //") || line.find("operator==") != std::string::npos) continue;
    declared.push_back(line.substr(line.rfind(' ', equals - 1) + 1, equals - line.rfind(' ', equals - 1) - 1));
  }
  for (const auto& field : ep_fields()) listed.emplace_back(field.name);
  EXPECT_EQ(listed, declared);
}

TEST(EpFields, EveryEpSurvivesJson) {
  for (const auto& ep : builtin_eps()) EXPECT_EQ(ep_from_json(Json::parse(to_json(ep).dump()), ep.name), ep) << ep.name;
}

TEST(EpFields, WhatIsLeftOutHasItsDefault) {
  const auto ep = ep_from_json(Json::parse(R"({"name": "my-ep", "gqa_dtypes": ["f16", "bfloat16"], "max_buffer_size": 1024, "supports_range": false,
                                               "provider_options": {"device": "0"}, "fallback_dtype": "FLOAT16"})"),
                               "my-ep.json");
  EXPECT_EQ(ep, (EpCapabilities{.name = "my-ep",
                                .fallback_dtype = float16,
                                .gqa_dtypes = {float16, bfloat16},
                                .supports_range = false,
                                .provider_options = {{"device", "0"}},
                                .max_buffer_size = 1024}));
}

TEST(EpFields, MistakesAreTold) {
  const auto error = [](const char* text) { return error_of([&] { ep_from_json(Json::parse(text), "my-ep.json"); }); };
  EXPECT_THAT(error("[]"), HasSubstr("my-ep.json: found array, expected an object"));
  EXPECT_THAT(error("{}"), HasSubstr("my-ep.json: the field 'name' is missing"));
  EXPECT_THAT(error(R"({"name": "x", "gqa_dtype": []})"),
              AllOf(HasSubstr("my-ep.json: unknown field 'gqa_dtype'; known are name, "), HasSubstr("gqa_dtypes"), HasSubstr("max_ir")));
  EXPECT_THAT(error(R"({"name": "x", "gqa_dtypes": "f16"})"), HasSubstr("my-ep.json: gqa_dtypes is string, expected a list of dtypes"));
  EXPECT_THAT(error(R"({"name": "x", "gqa_dtypes": ["f16", "f33"]})"), HasSubstr("my-ep.json: gqa_dtypes[1] is 'f33', expected a dtype: f32, f16, bf16, f64"));
  EXPECT_THAT(error(R"({"name": "x", "fallback_dtype": "int8"})"), HasSubstr("fallback_dtype is 'int8', expected a dtype"));
  EXPECT_THAT(error(R"({"name": "x", "supports_range": 1})"), HasSubstr("supports_range is integer, expected true or false"));
  EXPECT_THAT(error(R"({"name": "x", "max_opset": "24"})"), HasSubstr("max_opset is string, expected a whole number"));
  EXPECT_THAT(error(R"({"name": "x", "max_opset": -1})"), HasSubstr("max_opset is -1, expected 0 or more"));
  EXPECT_THAT(error(R"({"name": "x", "provider_options": {"a": 1}})"), HasSubstr("provider_options is object, expected an object of texts"));
  EXPECT_THAT(error_of([] { register_ep({.name = "zero", .gqa_head_size_multiple = 0}); }), HasSubstr("gqa_head_size_multiple is 0, expected 1 or more"));
}

}  // namespace
}  // namespace mobius
