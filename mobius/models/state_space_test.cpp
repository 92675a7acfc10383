#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mobius/base/error_of_test.hpp"
#include "mobius/models/family.hpp"

namespace mobius {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

Component build(const std::string& config) {
  const ConfigReader r(Json::parse(config));
  return std::move(require_family(r.model_type()).build(r, ir::DataType::float16)[0]);
}

std::vector<std::string> ports(const std::vector<ir::Value*>& values) {
  std::vector<std::string> out;
  for (const auto* v : values) out.push_back(v->name + " " + ir::to_string(v->type));
  return out;
}

std::string refusal(const std::string& config) {
  return error_of([&] { build(config); });
}

using Ports = std::vector<std::string>;

TEST(Mamba, TheInterfaceIsTheContracts) {
  const auto c = build(R"({"model_type": "mamba", "num_hidden_layers": 1})");
  EXPECT_EQ(ports(c.model.graph->inputs()),
            (Ports{"input_ids int64[batch,sequence_len]", "past_states.0.conv_state float16[batch,1536,3]", "past_states.0.ssm_state float16[batch,1536,16]"}));
  EXPECT_EQ(ports(c.model.graph->outputs()),
            (Ports{"logits float16[batch,sequence_len,50280]", "present.0.conv_state float16[batch,1536,3]", "present.0.ssm_state float16[batch,1536,16]"}));
}

TEST(Mamba, AStatedInnerSizeWinsOverTheExpansion) {
  for (const auto* type : {"mamba", "falcon_mamba"}) {
    const auto c = build(fmt::format(R"({{"model_type": "{}", "num_hidden_layers": 1, "expand": 16, "intermediate_size": 1000}})", type));
    EXPECT_THAT(ports(c.model.graph->inputs()), Contains("past_states.0.conv_state float16[batch,1000,3]"));
  }
}

TEST(Mamba2, StatesAreByHead) {
  const auto c = build(R"({"model_type": "mamba2", "num_hidden_layers": 1})");
  EXPECT_EQ(ports(c.model.graph->inputs()), (Ports{"input_ids int64[batch,sequence_len]", "past_states.0.conv_state float16[batch,10240,3]",
                                                   "past_states.0.ssm_state float16[batch,128,128,64]"}));
}

TEST(HybridModels, CachesHaveTheNumberOfTheirLayer) {
  // Layer 0 is an MLP alone, which has no cache; layer 2 attends.
  const auto c = build(R"({"model_type": "nemotron_h", "layers_block_type": ["mlp", "linear_attention", "full_attention"]})");
  EXPECT_EQ(
      ports(c.model.graph->outputs()),
      (Ports{"logits float16[batch,sequence_len,131072]", "present.1.conv_state float16[batch,10240,3]", "present.1.ssm_state float16[batch,128,128,64]",
             "present.2.key float16[batch,8,past_sequence_len + sequence_len,128]", "present.2.value float16[batch,8,past_sequence_len + sequence_len,128]"}));
  // Both in one layer.
  const auto both = build(R"({"model_type": "falcon_h1", "num_hidden_layers": 1})");
  EXPECT_EQ(ports(both.model.graph->outputs()),
            (Ports{"logits float16[batch,sequence_len,128000]", "present.0.key float16[batch,8,past_sequence_len + sequence_len,128]",
                   "present.0.value float16[batch,8,past_sequence_len + sequence_len,128]", "present.0.conv_state float16[batch,1536,3]",
                   "present.0.ssm_state float16[batch,128,256,8]"}));
}

TEST(HybridModels, GraniteWithoutExpertsSaysNonePerToken) {
  const auto text = [](std::string_view experts) {
    return ir::to_text(build(fmt::format(R"({{"model_type": "granitemoehybrid", "num_hidden_layers": 1, {}}})", experts)).model);
  };
  EXPECT_THAT(text(R"("num_local_experts": 0, "num_experts_per_tok": 0)"), AllOf(HasSubstr("shared_mlp"), Not(HasSubstr("block_sparse_moe"))));
  EXPECT_THAT(text(R"("num_local_experts": 3)"), HasSubstr("block_sparse_moe.router.layer.weight"));
}

TEST(HybridModels, JambaKnowsBothNamesOfItsExperts) {
  const auto text = [](std::string_view key) {
    return ir::to_text(build(fmt::format(R"({{"model_type": "jamba", "num_hidden_layers": 2, "{}": 3}})", key)).model);
  };
  EXPECT_EQ(text("num_local_experts"), text("num_experts"));
}

TEST(HybridModels, ZambasHeadsHaveTheSizeThatIsStated) {
  const auto keys = [](std::string_view more) {
    return fmt::format(R"({{"model_type": "zamba2", "hidden_size": 64, "num_attention_heads": 4, "n_mamba_heads": 4, "layers_block_type": ["hybrid"]{}}})",
                       more);
  };
  EXPECT_THAT(ports(build(keys("")).model.graph->inputs()), Contains("past_key_values.0.key float16[batch,4,past_sequence_len,32]"));
  EXPECT_THAT(ports(build(keys(R"(, "attention_head_dim": 16)")).model.graph->inputs()),
              Contains("past_key_values.0.key float16[batch,4,past_sequence_len,16]"));
}

TEST(HybridModels, LayersOfOtherKindsAreRefusedByName) {
  EXPECT_THAT(refusal(R"({"model_type": "lfm2", "num_hidden_layers": 2, "layer_types": ["conv", "sliding_attention"]})"),
              HasSubstr("layer_types[1] = 'sliding_attention' is not supported; known: conv, full_attention"));
  EXPECT_THAT(refusal(R"({"model_type": "qwen3_5_text", "num_hidden_layers": 2, "layer_types": ["linear_attention"]})"),
              HasSubstr("layer_types has 1 entries, expected 2 (num_hidden_layers)"));
  EXPECT_THAT(refusal(R"({"model_type": "nemotron_h", "hybrid_override_pattern": "MX"})"), HasSubstr("hybrid_override_pattern is 'X'"));
}

TEST(HybridModels, SizesThatDoNotFitAreRefused) {
  EXPECT_THAT(refusal(R"({"model_type": "mamba2", "num_heads": 100})"), HasSubstr("100 state-space heads of 64 are not the 8192 channels of the mixer"));
  EXPECT_THAT(refusal(R"({"model_type": "bamba", "mamba_n_groups": 3})"), HasSubstr("128 state-space heads are not a multiple of 3 groups"));
  EXPECT_THAT(refusal(R"({"model_type": "mamba2", "time_step_limit": [0.5, 0.1]})"), HasSubstr("two numbers, the lower one first"));
  EXPECT_THAT(refusal(R"({"model_type": "jamba", "attn_layer_offset": 8})"), HasSubstr("a number below attn_layer_period, 8"));
  EXPECT_THAT(refusal(R"({"model_type": "qwen3_next", "linear_num_value_heads": 24})"), HasSubstr("linear_num_value_heads 24 is not a multiple"));
  EXPECT_THAT(refusal(R"({"model_type": "falcon_h1", "ssm_multipliers": [1, 2]})"), HasSubstr("ssm_multipliers is a list of 2, expected 5 numbers"));
}

}  // namespace
}  // namespace mobius
