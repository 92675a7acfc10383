#include "mobius/package/build_from_module.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mobius/base/error.hpp"
#include "mobius/ep/context.hpp"

namespace mobius {
namespace {

using ::testing::HasSubstr;

ArchitectureConfig small(ir::DataType dtype = ir::DataType::float32) {
  auto config = read_decoder(ConfigReader(Json::parse(R"({"model_type": "llama", "vocab_size": 160, "hidden_size": 64, "intermediate_size": 112,
      "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 96})")),
                             {});
  config.dtype = dtype;
  return config;
}

std::size_t count(const ModelPackage& package, std::string_view type) {
  std::size_t n = 0;
  for (const auto* node : package.components().front().model.graph->nodes()) n += node->op.type == type;
  return n;
}

TEST(BuildFromModule, BuildsForEachProvider) {
  const auto config = small(ir::DataType::float16);
  EXPECT_EQ(count(build_from_module(models::CausalLMModel(config), config), "Attention"), 2u);
  const auto cuda = build_from_module(models::CausalLMModel(config), config, {.execution_provider = "cuda"});
  EXPECT_EQ(count(cuda, "GroupQueryAttention"), 2u);
  EXPECT_FALSE(cuda.has_weights);
  EXPECT_EQ(cuda.components().front().model.metadata.at("mobius.ep"), "cuda");
}

TEST(BuildFromModule, TheModuleSeesTheProvider) {
  const auto config = small(ir::DataType::float16);
  const models::CausalLMModel model(config);
  std::string seen;
  build_from_module(
      [&](Tensor ids, Decode& at) {
        seen = ep_capabilities().name + (get_build_dtype() == ir::DataType::float16 ? " f16" : "");
        return model(ids, at);
      },
      config, {.execution_provider = "dml"});
  EXPECT_EQ(seen, "dml f16");
  EXPECT_EQ(ep_capabilities().name, "default");
}

TEST(BuildFromModule, RefusesWhatTheProviderDoesNotRun) {
  const auto config = small(ir::DataType::bfloat16);
  try {
    build_from_module(models::CausalLMModel(config), config, {.execution_provider = "cpu"});
    FAIL() << "bf16 on cpu";
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), HasSubstr("'cpu' does not run bf16"));
  }
}

TEST(BuildFromModule, TakesWeightsFromACheckpoint) {
  const auto config = small();
  const auto folder = fs::path(MOBIUS_TESTDATA) / "golden" / "llama";
  const auto package = build_from_module(models::CausalLMModel(config), config, {.execution_provider = "cpu", .weights = folder});
  EXPECT_TRUE(package.has_weights);
  EXPECT_NO_THROW(package.plan());
}

}  // namespace
}  // namespace mobius
