// Recurrent states that no convolution's state goes with: a pipeline for ONNX Runtime GenAI, and its small model.
#include "mobius/package/genai_pipeline.hpp"

#include "mobius/formats/onnx_reader.hpp"
#include "mobius/ir/model.hpp"
#include "mobius/package/genai_config.hpp"
#include "mobius/package/genai_graph.hpp"
#include "mobius/package/genai_test.hpp"
#include "mobius/package/runtime_files.hpp"

namespace mobius::package {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

Json genai(const ModelPackage& package) { return genai_config(package, Companions(package), {}); }

const ir::Graph& graph_of(const ModelPackage& package) { return *package.components().front().model.graph; }

TEST(GenaiPipeline, StatesPassThroughASmallModel) {
  const auto config = genai(with_states({recurrence(2, "recurrent_state"), recurrence(3, "recurrent_state"), convolution(3)}));
  const auto& decoder = config.at("model").at("decoder");
  EXPECT_EQ(config.at("model").at("type"), Json("decoder-pipeline"));
  EXPECT_EQ(decoder.at("inputs").at("past_recurrent_names"), Json(""));
  EXPECT_EQ(decoder.at("inputs").find("past_conv_names"), nullptr);
  EXPECT_EQ(decoder.at("outputs").find("present_recurrent_names"), nullptr);
  EXPECT_EQ(decoder.at("num_hidden_layers"), Json(4));
  EXPECT_EQ(decoder.at("pipeline").as_array().size(), 1u);
  const auto& stages = decoder.at("pipeline").as_array().front();
  EXPECT_EQ(stages.at("states"), Json::parse(R"({"filename": "model_states.onnx",
    "inputs": ["input_ids", "present.3.conv_state", "present.2.recurrent_state", "present.3.recurrent_state"],
    "outputs": ["past_key_values.3.conv_state", "past_key_values.2.recurrent_state", "past_key_values.3.recurrent_state"]})"));
  EXPECT_EQ(stages.at("decoder").at("filename"), Json("model.onnx"));
  EXPECT_EQ(config.at("search").at("past_present_share_buffer"), Json(false));
}

TEST(GenaiPipeline, TheSmallModelHasZerosAtFirst) {
  const auto package = with_states({recurrence(2), recurrence(5)});
  const auto files = runtime_files(package, {.runtime = "ort-genai"});
  const auto file = std::ranges::find(files, "model_states.onnx", &PackageFile::name);
  ASSERT_NE(file, files.end());
  const auto& bytes = std::get<std::string>(file->content);
  const auto model = formats::parse_onnx(std::as_bytes(std::span(bytes)));
  EXPECT_THAT(ir::verify(model), IsEmpty());
  ASSERT_EQ(model.graph->inputs().size(), 3u);
  const auto* given = model.graph->inputs()[2];
  EXPECT_EQ(given->name, "present.5.ssm_state");
  ASSERT_NE(given->data(), nullptr);  // the default
  EXPECT_EQ(given->data()->dims(), ir::Dims({1, 1, 1, 1}));
  EXPECT_EQ(model.graph->outputs()[1]->name, "past_key_values.5.ssm_state");
  EXPECT_EQ(ir::to_string(model.graph->outputs()[1]->type), "float[batch,4,16,8]");
}

TEST(GenaiPipeline, IsForStatesThatTheRuntimeHasNoKindFor) {
  for (const auto& package : {with_states({}), with_states({convolution(2)}), with_states({convolution(2), recurrence(2)})}) {
    const auto decoder = genai(package).at("model").at("decoder");
    EXPECT_EQ(decoder.find("pipeline"), nullptr);
    EXPECT_EQ(pipeline_file(decoder, package.components().front().model), std::nullopt);
  }
}

TEST(GenaiPipeline, IsCheckedAgainstTheGraph) {
  const auto package = with_states({recurrence(2)});
  const auto config = genai(package);
  const auto contradiction = [&](std::string_view stage, std::string_view key, const Json& value) {
    Json changed = config, model = config.at("model"), decoder = model.at("decoder"), stages = decoder.at("pipeline").as_array().front();
    Json part = stages.at(stage);
    part.set(key, value);
    stages.set(stage, part);
    decoder.set("pipeline", Json::Array{stages});
    model.set("decoder", decoder);
    changed.set("model", model);
    return error_of([&] { check_decoder(changed, graph_of(package)); }, ErrorKind::unsupported);
  };
  EXPECT_THAT(contradiction("decoder", "inputs", Json::Array{"input_ids"}), HasSubstr("pipeline's decoder has other inputs or outputs"));
  EXPECT_THAT(contradiction("states", "outputs", Json::Array{}), HasSubstr("nothing to feed the graph's input 'past_key_values.2.ssm_state' with"));
  EXPECT_THAT(contradiction("states", "inputs", Json::Array{"input_ids", "present.7.ssm_state"}), HasSubstr("lists the output 'present.7.ssm_state'"));
}

TEST(GenaiPipeline, StatesNeedSizes) {
  auto state = recurrence(2);
  state.shape = {"batch", "heads", 16, 8};
  EXPECT_THAT(error_of([&] { genai(with_states({state})); }, ErrorKind::unsupported), HasSubstr("of fixed sizes but for the batch"));
  state = recurrence(2);
  state.present = "";
  EXPECT_THAT(error_of([&] { genai(with_states({state})); }, ErrorKind::unsupported), HasSubstr("doesn't give them for the next call"));
}

}  // namespace
}  // namespace mobius::package
