#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "mobius/base/error.hpp"
#include "mobius/models/family.hpp"

namespace mobius {
namespace {

using ::testing::HasSubstr;

TEST(Families, EachTypeBelongsToOneFamily) {
  std::set<std::string_view> seen;
  for (const auto& f : families()) {
    EXPECT_FALSE(f.types.empty()) << f.name;
    for (auto t : f.types) EXPECT_TRUE(seen.insert(t).second) << t;
  }
  EXPECT_TRUE(seen.contains("llama"));
}

TEST(Families, AnUnknownTypeNamesItsNeighbours) {
  try {
    require_family("lama");
    FAIL() << "unknown";
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::unsupported);
    EXPECT_THAT(e.what(), HasSubstr("unknown model_type 'lama'; the nearest known: llama"));
  }
}

TEST(Families, EachBuildsFromItsDefaultsAlone) {
  for (const auto& f : families())
    for (auto t : f.types) {
      // Two layers keep it quick; everything else is what the type publishes.
      Json config(Json::Object{{"model_type", t}, {"num_hidden_layers", 2}});
      if (t == "xlm") config.set("causal", true);                      // without it, it looks both ways, and is refused
      if (t == "gemma3n_text") config.set("num_kv_shared_layers", 0);  // more than two by default
      const ConfigReader r(std::move(config));
      const auto components = f.build(r, ir::DataType::float16);
      ASSERT_FALSE(components.empty()) << t;
      for (const auto& c : components) EXPECT_EQ(ir::verify(c.model), std::vector<std::string>{}) << t;
    }
}

TEST(Families, BuildingTwiceGivesTheSameGraph) {
  const ConfigReader r(Json(Json::Object{{"model_type", "qwen3"}, {"num_hidden_layers", 3}}));
  const auto build = [&] { return ir::to_text(require_family("qwen3").build(r, ir::DataType::float16)[0].model); };
  EXPECT_EQ(build(), build());
}

TEST(Ministral3, ATrainedLengthAtTheTopLevelWinsForPositionsAndQueries) {
  const auto build = [](const char* text) {
    return ir::to_text(require_family("ministral3").build(ConfigReader(Json::parse(text)), ir::DataType::float32)[0].model);
  };
  const auto top =
      build(R"({"model_type": "ministral3", "num_hidden_layers": 1, "max_position_embeddings": 64, "original_max_position_embeddings": 12, "rope_parameters": {
      "rope_type": "yarn", "factor": 4, "llama_4_scaling_beta": 0.5, "original_max_position_embeddings": 8}})");
  const auto within = build(R"({"model_type": "ministral3", "num_hidden_layers": 1, "max_position_embeddings": 64, "rope_parameters": {
      "rope_type": "yarn", "factor": 4, "llama_4_scaling_beta": 0.5, "original_max_position_embeddings": 12}})");
  EXPECT_EQ(top, within);
  // A rope that isn't scaled has no trained length but the queries' own.
  EXPECT_EQ(
      build(R"({"model_type": "ministral3", "num_hidden_layers": 1, "max_position_embeddings": 64, "original_max_position_embeddings": 12, "rope_parameters": {
      "llama_4_scaling_beta": 0.5, "original_max_position_embeddings": 8}})"),
      build(R"({"model_type": "ministral3", "num_hidden_layers": 1, "max_position_embeddings": 64, "rope_parameters": {
      "llama_4_scaling_beta": 0.5, "original_max_position_embeddings": 8}})"));
}

TEST(Llama, TheInterfaceIsTheContracts) {
  const ConfigReader r(Json(Json::Object{{"model_type", "llama"}, {"num_hidden_layers", 1}}));
  const auto c = std::move(require_family("llama").build(r, ir::DataType::float16)[0]);
  std::string interface;
  for (const auto* v : c.model.graph->inputs()) interface += v->name + " " + ir::to_string(v->type) + "; ";
  for (const auto* v : c.model.graph->outputs()) interface += v->name + " " + ir::to_string(v->type) + "; ";
  EXPECT_EQ(interface,
            "input_ids int64[batch,sequence_len]; attention_mask int64[batch,past_sequence_len + sequence_len]; position_ids int64[batch,sequence_len]; "
            "past_key_values.0.key float16[batch,32,past_sequence_len,128]; past_key_values.0.value float16[batch,32,past_sequence_len,128]; "
            "logits float16[batch,sequence_len,32000]; present.0.key float16[batch,32,past_sequence_len + sequence_len,128]; "
            "present.0.value float16[batch,32,past_sequence_len + sequence_len,128]; ");
}

}  // namespace
}  // namespace mobius
