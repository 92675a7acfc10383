// Which switches of config.json change the graphs of decoders with experts, and which are refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mobius/base/error_of_test.hpp"
#include "mobius/models/family.hpp"

namespace mobius {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// `keys` go over a small config of the type.
ir::Model build(std::string_view type, std::string_view keys = "{}") {
  Json config = Json::parse(R"({"vocab_size": 40, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
                                "max_position_embeddings": 64})");
  config.set("model_type", type);
  const auto over = Json::parse(keys);
  for (const auto& [key, value] : over.as_object()) config.set(key, value);
  return std::move(require_family(type).build(ConfigReader(config), ir::DataType::float32)[0].model);
}

// How many each TopK takes, in order.
std::vector<double> chosen(const ir::Model& model) {
  std::vector<double> out;
  for (const auto* node : model.graph->nodes())
    if (node->op.type == "TopK") out.push_back(ir::as_doubles(*node->input(1)->data()).value().front());
  return out;
}

std::string shape_of(const ir::Model& model, const std::string& input) { return ir::to_string(model.graph->find_value(input)->type); }

TEST(HunYuanMoe, EachLayerMayChooseItsOwnNumberOfExperts) {
  EXPECT_THAT(chosen(build("hunyuan_v1_moe", R"({"num_experts": 4, "moe_topk": 2})")), ElementsAre(2, 2));
  EXPECT_THAT(chosen(build("hunyuan_v1_moe", R"({"num_experts": [4, 4, 9], "moe_topk": [1, 3, 9]})")), ElementsAre(1, 3));
  const auto refused = [](std::string_view keys) { return error_of([&] { build("hunyuan_v1_moe", keys); }); };
  EXPECT_THAT(refused(R"({"num_experts": 4, "moe_topk": [1]})"), HasSubstr("moe_topk is a list of 1, expected at least 2 entries"));
  EXPECT_THAT(refused(R"({"num_experts": 4, "moe_topk": [1, 5]})"), HasSubstr("5 experts per token, but there are 4"));
  EXPECT_THAT(refused(R"({"num_experts": [4, 5]})"), HasSubstr("num_experts = [4, 5] is not supported"));
}

TEST(Glm4Moe, HeadsFollowFromTheOtherSizes) {
  EXPECT_THAT(shape_of(build("glm4_moe", R"({"num_key_value_heads": 2})"), "past_key_values.0.key"), HasSubstr("[batch,2,past_sequence_len,8]"));
  EXPECT_THAT(shape_of(build("glm4_moe", R"({"num_key_value_heads": 2, "head_dim": 12})"), "past_key_values.0.key"),
              HasSubstr("[batch,2,past_sequence_len,12]"));
}

TEST(LatentAttention, TheSizeOfQueryHeadsFollowsFromTheirParts) {
  const auto* keys = R"({"num_key_value_heads": 4, "qk_nope_head_dim": 6, "qk_rope_head_dim": 4, "qk_head_dim": 99})";
  EXPECT_THAT(shape_of(build("youtu", keys), "past_key_values.0.key"), HasSubstr("[batch,4,past_sequence_len,10]"));
  EXPECT_THAT(error_of([&] { build("longcat_flash", keys); }), HasSubstr("qk_head_dim = 99 is not supported"));
}

TEST(LongCat, CountsItsLayersAndExperts) {
  const auto* halves = R"({"num_hidden_layers": 3})";
  EXPECT_THAT(error_of([&] { build("longcat_flash", halves); }), HasSubstr("num_hidden_layers is 3, expected an even number"));
  const auto* many = R"({"n_routed_experts": 2, "zero_expert_num": 3, "moe_topk": 6})";
  EXPECT_THAT(error_of([&] { build("longcat_flash", many); }), HasSubstr("moe_topk is 6, expected at most 5"));
  EXPECT_THAT(chosen(build("longcat_flash", R"({"n_routed_experts": 2, "zero_expert_num": 3, "moe_topk": 5})")), ElementsAre(5));
}

}  // namespace
}  // namespace mobius
