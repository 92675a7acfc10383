// genai_config.json: what is taken from the graph, the EP and the config, and what is refused.
#include "mobius/package/genai_config.hpp"

#include "mobius/ep/registry.hpp"
#include "mobius/package/genai_caches.hpp"
#include "mobius/package/genai_graph.hpp"
#include "mobius/package/genai_test.hpp"

namespace mobius::package {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

Json genai(const ModelPackage& package, std::int64_t context_length = 0) {
  return genai_config(package, Companions(package), {.context_length = context_length});
}
Json genai(const Decoder& decoder, std::int64_t context_length = 0) { return genai(package_of(decoder), context_length); }

std::string refusal(const Decoder& decoder, ErrorKind kind = ErrorKind::unsupported, std::int64_t context_length = 0) {
  return error_of([&] { genai(decoder, context_length); }, kind);
}

Json options_of(const Decoder& decoder) { return genai(decoder).at("model").at("decoder").at("session_options").at("provider_options"); }

TEST(GenaiConfig, SaysOfTheGraphWhatItIs) {
  const auto config = genai({.more_inputs = {"position_ids"}});
  EXPECT_EQ(config.at("model"), Json::parse(R"({
    "type": "llama", "vocab_size": 160, "context_length": 8192,
    "decoder": {
      "session_options": {"log_id": "onnxruntime-genai", "provider_options": []},
      "filename": "model.onnx",
      "inputs": {"input_ids": "input_ids", "attention_mask": "attention_mask", "position_ids": "position_ids",
                 "past_key_names": "past_key_values.%d.key", "past_value_names": "past_key_values.%d.value"},
      "outputs": {"logits": "logits", "present_key_names": "present.%d.key", "present_value_names": "present.%d.value"},
      "hidden_size": 64, "num_hidden_layers": 2, "head_size": 16, "num_attention_heads": 4, "num_key_value_heads": 2},
    "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0})"));
  EXPECT_EQ(config.as_object().size(), 2u);
}

TEST(GenaiConfig, ListsOnlyInputsThatTheGraphHas) { EXPECT_EQ(genai(Decoder{}).at("model").at("decoder").at("inputs").find("position_ids"), nullptr); }

TEST(GenaiConfig, FindsNumbersUnderOtherNamesOrInTheGraph) {
  EXPECT_EQ(genai({.config = R"({"n_embd": 32, "n_positions": 1024})"}).at("model").at("decoder").at("hidden_size"), Json(32));
  EXPECT_EQ(genai({.config = R"({"n_positions": 1024})"}).at("model").at("decoder").at("hidden_size"), Json(48));
  const auto nested = genai({.config = R"({"text_config": {"hidden_size": 24, "max_position_embeddings": 77}})"}).at("model");
  EXPECT_EQ(nested.at("decoder").at("hidden_size"), Json(24));
  EXPECT_EQ(nested.at("context_length"), Json(77));
  EXPECT_EQ(genai({.fused = false, .heads = 6}).at("model").at("decoder").at("num_attention_heads"), Json(6));
}

TEST(GenaiConfig, TheTypeIsOneThatTheRuntimeKnows) {
  const auto type_of = [](const std::string& type) { return genai({.type = type}).at("model").at("type").as_string(); };
  EXPECT_EQ(type_of("qwen3"), "qwen3");
  EXPECT_EQ(type_of("code_llama"), "llama");
  EXPECT_EQ(type_of("gpt_oss"), "gptoss");
  EXPECT_EQ(type_of("gpt2"), "decoder");
  EXPECT_EQ(type_of("seed_oss"), "decoder");
}

TEST(GenaiConfig, ProviderOptionsAreTheEps) {
  EXPECT_EQ(options_of({.ep = "default", .fused = false}), Json(Json::Array{}));
  EXPECT_EQ(options_of({.ep = "onnx-standard", .fused = false}), Json(Json::Array{}));
  EXPECT_EQ(options_of({.ep = "cuda"}), Json::parse(R"([{"cuda": {"enable_cuda_graph": "0", "enable_skip_layer_norm_strict_mode": "1"}}])"));
  EXPECT_EQ(options_of({.ep = "openvino", .fused = false}), Json::parse(R"([{"OpenVINO": {"device_type": "NPU"}}])"));
  EXPECT_EQ(options_of({.ep = "mlx"}), Json::parse(R"([{"mlx": {}}])"));
  register_ep({.name = "genai-test", .provider_options = {{"a", "b"}}, .genai_provider = "VitisAI"}, true);
  EXPECT_EQ(options_of({.ep = "genai-test"}), Json::parse(R"([{"VitisAI": {"a": "b"}}])"));
}

TEST(GenaiConfig, GraphsAreCapturedWhereTheCacheStaysInPlace) {
  EXPECT_EQ(options_of({.ep = "trt-rtx"}), Json::parse(R"([{"NvTensorRtRtx": {"enable_cuda_graph": "1"}}])"));
  EXPECT_EQ(options_of({.ep = "trt-rtx", .fused = false}), Json::parse(R"([{"NvTensorRtRtx": {"enable_cuda_graph": "0"}}])"));
  EXPECT_EQ(options_of({.ep = "webgpu"}), Json::parse(R"([{"webgpu": {"enableGraphCapture": "0"}}])"));
  EXPECT_EQ(options_of({.ep = "dml"}), Json::parse(R"([{"dml": {"enable_graph_capture": "0"}}])"));
}

TEST(GenaiConfig, SizesOnTheHostAreNotCaptured) {
  auto ep = get_ep("webgpu");
  ep.name = "genai-capturing";
  ep.enable_graph_capture = true;
  ep.provider_options["enableGraphCapture"] = "1";
  register_ep(ep, true);
  EXPECT_EQ(options_of({.ep = "genai-capturing"}), Json::parse(R"([{"webgpu": {"enableGraphCapture": "1"}}])"));
  auto any = package_of({.ep = "genai-capturing"});
  any.components().front().model.metadata["mobius.padding"] = "any";
  const auto config = genai(any);
  EXPECT_EQ(config.at("model").at("decoder").at("session_options").at("provider_options").dump(), R"([{"webgpu": {"enableGraphCapture": "0"}}])");
}

TEST(GenaiConfig, TheBufferIsSharedWhereKernelAndEpDo) {
  const auto shares = [](const Decoder& d) { return genai(d).at("search").at("past_present_share_buffer").as_bool(); };
  EXPECT_TRUE(shares({}));
  EXPECT_FALSE(shares({.fused = false}));
  EXPECT_FALSE(shares({.ep = "openvino"}));
}

TEST(GenaiConfig, ACacheThatOthersReadKeepsTheBufferApart) {
  for (const auto& name : {"past_key_values.1.value", "present.0.key"}) {
    auto package = package_of({});
    auto& g = *package.components().front().model.graph;
    g.add_output(g.append({"", "Shape"}, {g.find_value(name)})->output());
    EXPECT_FALSE(can_share_cache_buffer(g)) << name;
  }
}

TEST(GenaiConfig, ALayerThatIsNotFusedKeepsTheBufferApart) {
  auto package = package_of({});
  auto& g = *package.components().front().model.graph;
  EXPECT_TRUE(can_share_cache_buffer(g));
  auto* copied = g.append({"", "Identity"}, {g.find_value("past_key_values.1.key")})->output();
  for (auto* node : g.nodes()) {
    if (node->op.type == "GroupQueryAttention" && node->input(3)->name == "past_key_values.1.key") node->set_input(3, copied);
  }
  EXPECT_FALSE(can_share_cache_buffer(g));
  EXPECT_EQ(genai(package).at("search").at("past_present_share_buffer"), Json(false));
}

TEST(GenaiConfig, TheContextIsTheModelsOrSmaller) {
  EXPECT_EQ(genai(Decoder{}).at("search").at("max_length"), Json(8192));
  const auto config = genai(Decoder{}, 100);
  EXPECT_EQ(config.at("model").at("context_length"), Json(100));
  EXPECT_EQ(config.at("search").at("max_length"), Json(100));
  EXPECT_THAT(refusal({}, ErrorKind::invalid_argument, 9000), HasSubstr("context_length is 9000, but the model has 8192 positions"));
  EXPECT_THAT(refusal({}, ErrorKind::invalid_argument, -1), HasSubstr("context_length is -1"));
  EXPECT_THAT(refusal({.config = "{}"}, ErrorKind::not_found), AllOf(HasSubstr("max_position_embeddings"), HasSubstr("context_length")));
  EXPECT_EQ(genai({.config = "{}"}, 100).at("model").at("context_length"), Json(100));
}

TEST(GenaiConfig, ABufferAllocatedAtOnceIsCappedWhereTheEpAsks) {
  using Lengths = std::pair<std::int64_t, std::int64_t>;
  const auto lengths = [](const Decoder& d) {
    const auto config = genai(d);
    return Lengths(config.at("model").at("context_length").as_int(), config.at("search").at("max_length").as_int());
  };
  EXPECT_EQ(lengths({.ep = "webgpu"}), Lengths(8192, 4096));
  EXPECT_EQ(lengths({.ep = "webgpu", .fused = false}), Lengths(8192, 8192));
  EXPECT_EQ(lengths({.ep = "cuda"}), Lengths(8192, 8192));
}

TEST(GenaiConfig, TellsWhenTheBufferIsLarge) {
  const Log log;
  genai(Decoder{});
  EXPECT_THAT(log.lines, IsEmpty());
  genai({.config = R"({"hidden_size": 64, "max_position_embeddings": 4000000})"});
  EXPECT_THAT(log.lines, ElementsAre(AllOf(HasSubstr("2.0 GB of cache"), HasSubstr("context_length"))));
}

TEST(GenaiConfig, RefusesWhatTheRuntimeCannotRun) {
  EXPECT_THAT(refusal({.key_size = 24}), HasSubstr("past_key_values.0.value is [batch, 2, past, 16], expected 2 heads of 24"));
  EXPECT_THAT(refusal({.more_inputs = {"past_states.0.lstm_state"}}), HasSubstr("nothing to feed the graph's input 'past_states.0.lstm_state' with"));
  EXPECT_THAT(refusal({.layers = 0}), HasSubstr("carries nothing"));
  auto other = package_of({});
  other.components().front().name = "vision_encoder";
  EXPECT_THAT(error_of([&] { genai(other); }, ErrorKind::unsupported), HasSubstr("component 'vision_encoder' can't be described"));
  auto left = package_of({});
  left.components().front().model.metadata["mobius.padding"] = "left";
  EXPECT_THAT(error_of([&] { genai(left); }, ErrorKind::unsupported), HasSubstr("pads batches on the right"));
  auto nowhere = package_of({});
  nowhere.components().front().model.metadata.erase("mobius.ep");
  EXPECT_THAT(error_of([&] { genai(nowhere); }, ErrorKind::invalid_argument), HasSubstr("mobius.ep"));
}

TEST(GenaiConfig, LayersMayDifferButNotKeysFromValues) {
  auto package = package_of({});
  auto& g = *package.components().front().model.graph;
  g.find_value("past_key_values.1.key")->type.shape = ir::Shape{"batch", 1, "past", 24};
  EXPECT_THAT(error_of([&] { genai(package); }, ErrorKind::unsupported), HasSubstr("past_key_values.1.value is [batch, 2, past, 16], expected 1 heads of 24"));
  g.find_value("past_key_values.1.value")->type.shape = ir::Shape{"batch", 1, "past", 24};
  const auto decoder = genai(package).at("model").at("decoder");
  EXPECT_EQ(decoder.at("num_key_value_heads"), Json(2));
  EXPECT_EQ(decoder.at("head_size"), Json(16));
  g.find_value("past_key_values.1.key")->type.shape = ir::Shape{"batch", "heads", "past", 24};
  EXPECT_THAT(error_of([&] { genai(package); }, ErrorKind::unsupported), HasSubstr("past_key_values.1.key is [batch, heads, past, 24]"));
}

// A config that is right, with one thing changed.
std::string contradiction(const std::function<void(Json& config)>& change) {
  const auto package = package_of({});
  Json config = genai(package);
  change(config);
  return error_of([&] { check_decoder(config, *package.components().front().model.graph); }, ErrorKind::unsupported);
}

std::string contradiction_of(std::string_view part, std::string_view key, Json value) {
  return contradiction([&](Json& config) {
    Json model = config.at("model"), decoder = model.at("decoder"), search = config.at("search");
    (part == "model" ? model : part == "search" ? search : decoder).set(key, std::move(value));
    if (part == "decoder") model.set("decoder", decoder);
    config.set("model", model);
    config.set("search", search);
  });
}

TEST(GenaiConfig, IsCheckedAgainstTheGraph) {
  EXPECT_EQ(contradiction([](Json&) {}), "no error");
  EXPECT_THAT(contradiction_of("decoder", "num_key_value_heads", 4), HasSubstr("past_key_values.0.key is [batch, 2, past, 16], expected 4 heads of 16"));
  EXPECT_THAT(contradiction_of("decoder", "head_size", 8), HasSubstr("expected 2 heads of 8"));
  EXPECT_THAT(contradiction_of("decoder", "num_attention_heads", 8), HasSubstr("has 4 heads, genai_config.json says 8"));
  EXPECT_THAT(contradiction_of("decoder", "num_hidden_layers", 3), HasSubstr("num_hidden_layers is 3, but the graph's caches are of 2 layers"));
  Json inputs = genai(Decoder{}).at("model").at("decoder").at("inputs");
  inputs.set("position_ids", "position_ids");
  EXPECT_THAT(contradiction_of("decoder", "inputs", inputs), HasSubstr("lists the input 'position_ids', which the graph doesn't have"));
  Json outputs = genai(Decoder{}).at("model").at("decoder").at("outputs");
  outputs.set("logits", "scores");
  EXPECT_THAT(contradiction_of("decoder", "outputs", outputs), HasSubstr("lists the output 'scores'"));
  EXPECT_THAT(contradiction_of("model", "vocab_size", 100), HasSubstr("vocab_size is 100, but logits have 160"));
  EXPECT_THAT(contradiction_of("model", "eos_token_id", 160), HasSubstr("eos_token_id is 160, expected a token of the 160"));
  EXPECT_THAT(contradiction_of("model", "eos_token_id", Json::Array{}), HasSubstr("eos_token_id is null"));
  EXPECT_THAT(contradiction_of("model", "pad_token_id", Json::Array{0}), HasSubstr("pad_token_id is [0]"));
  EXPECT_THAT(contradiction_of("model", "bos_token_id", -1), HasSubstr("bos_token_id is -1"));
}

TEST(GenaiConfig, ASharedBufferNeedsTheFusedKernel) {
  const auto package = package_of({.fused = false});
  Json config = genai(package), search = config.at("search");
  search.set("past_present_share_buffer", true);
  config.set("search", search);
  EXPECT_THAT(error_of([&] { check_decoder(config, *package.components().front().model.graph); }, ErrorKind::unsupported), HasSubstr("GroupQueryAttention"));
}

}  // namespace
}  // namespace mobius::package
