// Which switches of config.json change the graphs of decoders whose layers differ, and which are refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "mobius/base/error_of_test.hpp"
#include "mobius/models/family.hpp"

namespace mobius {
namespace {

using ::testing::HasSubstr;

// `keys` go over a small config of the type.
ir::Model build(std::string_view type, std::string_view keys = "{}") {
  Json config = Json::parse(R"({"vocab_size": 40, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 6, "num_attention_heads": 4,
                                "num_key_value_heads": 2, "head_dim": 8, "max_position_embeddings": 64})");
  config.set("model_type", type);
  const auto over = Json::parse(keys);
  for (const auto& [key, value] : over.as_object()) config.set(key, value);
  return std::move(require_family(type).build(ConfigReader(config), ir::DataType::float32)[0].model);
}

std::int64_t count(const ir::Model& model, std::string_view op) {
  std::int64_t n = 0;
  for (const auto* node : model.graph->nodes()) n += node->op.type == op;
  return n;
}

std::string shape_of(const ir::Model& model, const std::string& input) {
  const auto* value = model.graph->find_value(input);
  return value ? ir::to_string(value->type) : "none";
}

TEST(SmolLM3, LayersWithoutPositionsAndTheirWindows) {
  EXPECT_EQ(count(build("smollm3"), "RotaryEmbedding"), 10);  // the fourth of six has none
  EXPECT_EQ(count(build("smollm3", R"({"no_rope_layers": [0, 0, 1, 0, 0, 0]})"), "RotaryEmbedding"), 2);
  EXPECT_EQ(count(build("smollm3", R"({"sliding_window": 4})"), "Greater"), 0);
  EXPECT_EQ(count(build("smollm3", R"({"sliding_window": 4, "use_sliding_window": true})"), "Greater"), 1);
  EXPECT_THAT(error_of([] { build("smollm3", R"({"no_rope_layers": [1]})"); }), HasSubstr("no_rope_layers has 1 entries"));
}

TEST(Exaone4, PositionsAreWhereWindowsAre) {
  EXPECT_EQ(count(build("exaone4"), "RotaryEmbedding"), 10);
  const auto* everywhere = R"({"sliding_window": null, "layer_types": ["full_attention", "full_attention", "full_attention", "full_attention",
                              "full_attention", "full_attention"]})";
  EXPECT_EQ(count(build("exaone4", everywhere), "RotaryEmbedding"), 12);
  EXPECT_THAT(error_of([] { build("exaone4", R"({"sliding_window": null})"); }), HasSubstr("layer_types is missing"));
}

TEST(Mistral, ThatListsItsLayersHasWindowsInSome) {
  const auto* listed = R"({"num_hidden_layers": 2, "sliding_window": 4, "layer_types": ["full_attention", "sliding_attention"]})";
  const auto* older = R"({"num_hidden_layers": 2, "sliding_window": 4, "layer_types": ["attention", "sliding_attention"]})";
  const auto* everywhere = R"({"num_hidden_layers": 2, "sliding_window": 4})";
  auto ministral = ir::to_text(build("ministral", listed));
  EXPECT_EQ(ir::to_text(build("mistral", listed)), ministral);
  EXPECT_EQ(ir::to_text(build("mistral", older)), ministral);
  EXPECT_NE(ir::to_text(build("mistral", everywhere)), ministral);
}

TEST(Apertus, HasALongRopeUnlessToldOtherwise) {
  const auto* stated = R"({"rope_theta": 12000000, "rope_scaling": {"rope_type": "llama3", "factor": 8, "low_freq_factor": 1, "high_freq_factor": 4,
                           "original_max_position_embeddings": 8192}})";
  EXPECT_EQ(ir::to_text(build("apertus")), ir::to_text(build("apertus", stated)));
  EXPECT_EQ(ir::to_text(build("apertus")), ir::to_text(build("apertus", R"({"rope_theta": 5000, "rope_scaling": null})")));
}

TEST(Olmo3, ScalesRopeInFullAttentionAlone) {
  const auto tables = [](std::string_view keys) {
    std::set<std::string> names;
    const auto model = build("olmo3", keys);
    for (const auto* v : model.graph->initializers())
      if (v->name.starts_with("rotary_emb.cos")) names.insert(v->name);
    return names.size();
  };
  EXPECT_EQ(tables("{}"), 1u);
  EXPECT_EQ(tables(R"({"rope_scaling": {"rope_type": "linear", "factor": 4}})"), 2u);
}

TEST(Gemma3n, TheLastLayersShareCaches) {
  const auto* shared = R"({"num_kv_shared_layers": 2, "layer_types": ["sliding_attention", "full_attention", "sliding_attention", "full_attention",
                           "sliding_attention", "full_attention"]})";
  const auto model = build("gemma3n_text", shared);
  EXPECT_EQ(count(model, "Attention"), 6);
  EXPECT_EQ(shape_of(model, "past_key_values.3.key"), "float[batch,2,past_sequence_len,8]");
  EXPECT_EQ(shape_of(model, "past_key_values.4.key"), "none");
  EXPECT_THAT(error_of([] { build("gemma3n_text", R"({"num_kv_shared_layers": 2})"); }), HasSubstr("layers of each kind that are not shared"));
}

TEST(Gemma4, HeadsGoByTheKindOfLayer) {
  const auto by_default = build("gemma4_text", R"({"global_head_dim": 16})");
  EXPECT_EQ(shape_of(by_default, "past_key_values.4.value"), "float[batch,2,past_sequence_len,8]");
  EXPECT_EQ(shape_of(by_default, "past_key_values.5.value"), "float[batch,2,past_sequence_len,16]");
  const auto same_values = build("gemma4_text", R"({"attention_k_eq_v": true, "num_global_key_value_heads": 1})");
  EXPECT_EQ(shape_of(same_values, "past_key_values.5.value"), "float[batch,1,past_sequence_len,512]");
  EXPECT_EQ(same_values.graph->find_value("model.layers.5.self_attn.v_proj.weight"), nullptr);
  const auto listed = build("gemma4_text", R"({"per_layer_config": {"05": {"head_dim": 24}}})");
  EXPECT_EQ(shape_of(listed, "past_key_values.5.value"), "float[batch,2,past_sequence_len,24]");
  EXPECT_THAT(error_of([] { build("gemma4_text", R"({"per_layer_config": {"1": {"head_dim": 24}}})"); }), HasSubstr("layer 1 has other heads"));
  EXPECT_THAT(error_of([] { build("gemma4_text", R"({"per_layer_config": {"5": {"intermediate_size": 24}}})"); }), HasSubstr("'intermediate_size' differs"));
  EXPECT_THAT(error_of([] { build("gemma4_text", R"({"per_layer_config": {"6": {}}})"); }), HasSubstr("layers 0 ... 5"));
}

TEST(DenseDecoders, RefuseWhatTheyDontDo) {
  EXPECT_THAT(error_of([] { build("doge", R"({"is_moe": true})"); }), HasSubstr("is_moe = true is not supported"));
  EXPECT_THAT(error_of([] { build("gemma2", R"({"use_bidirectional_attention": true})"); }), HasSubstr("use_bidirectional_attention"));
  EXPECT_THAT(error_of([] { build("gemma4_text", R"({"use_bidirectional_attention": "all"})"); }), HasSubstr("use_bidirectional_attention"));
  EXPECT_THAT(error_of([] { build("diffllama", R"({"num_key_value_heads": 1})"); }), HasSubstr("an even number"));
}

}  // namespace
}  // namespace mobius
