// What a decoder carries from call to call, told to ONNX Runtime GenAI: caches in some layers, states in others; and what it can't carry.
#include "mobius/package/genai_caches.hpp"

#include "mobius/package/genai_config.hpp"
#include "mobius/package/genai_graph.hpp"
#include "mobius/package/genai_test.hpp"

namespace mobius::package {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

Json genai(const ModelPackage& package) { return genai_config(package, Companions(package), {}); }
std::string refusal(const std::vector<State>& states, Decoder decoder = {}) {
  return error_of([&] { genai(with_states(states, std::move(decoder))); }, ErrorKind::unsupported);
}

TEST(GenaiCaches, LayersAreThoseThatTheGraphHas) {
  const auto package =
      with_states({convolution(12), recurrence(7), {"past_key_values.x.ssm_state", "", {"batch", 1}}, {"past_key_values..ssm_state", "", {"batch", 1}}});
  const auto& inputs = package.components().front().model.graph->inputs();
  EXPECT_THAT(layers_of("past_key_values.%d.key", inputs), ElementsAre(0, 1));
  EXPECT_THAT(layers_of("past_key_values.%d.ssm_state", inputs), ElementsAre(7));
  EXPECT_THAT(layers_of("past_key_values.%d.conv_state", inputs), ElementsAre(12));
  EXPECT_THAT(layers_of("attention_mask", inputs), IsEmpty());
  EXPECT_EQ(with_layer("past_key_values.%d.key", 12), "past_key_values.12.key");
}

TEST(GenaiCaches, StatesOfConvolutionAndRecurrenceGoTogether) {
  const auto config = genai(with_states({convolution(1), recurrence(1), convolution(3), recurrence(3)}));
  const auto& decoder = config.at("model").at("decoder");
  EXPECT_EQ(decoder.at("inputs").at("past_conv_names"), Json("past_key_values.%d.conv_state"));
  EXPECT_EQ(decoder.at("inputs").at("past_recurrent_names"), Json("past_key_values.%d.ssm_state"));
  EXPECT_EQ(decoder.at("outputs").at("present_conv_names"), Json("present.%d.conv_state"));
  EXPECT_EQ(decoder.at("outputs").at("present_recurrent_names"), Json("present.%d.ssm_state"));
  EXPECT_EQ(decoder.at("num_hidden_layers"), Json(4));
  EXPECT_EQ(decoder.at("head_size"), Json(16));
  EXPECT_EQ(decoder.find("layer_types"), nullptr);
  EXPECT_EQ(config.at("search").at("past_present_share_buffer"), Json(false));

  const auto delta = genai(with_states({convolution(2), recurrence(2, "recurrent_state")})).at("model").at("decoder");
  EXPECT_EQ(delta.at("inputs").at("past_recurrent_names"), Json("past_key_values.%d.recurrent_state"));
}

TEST(GenaiCaches, ModelsOfStatesAloneHaveNoHeads) {
  const auto decoder = genai(with_states({{"past_states.0.conv_state", "present.0.conv_state", {"batch", 96, 3}},
                                          {"past_states.0.ssm_state", "present.0.ssm_state", {"batch", 96, 8}}},
                                         {.layers = 0}))
                           .at("model")
                           .at("decoder");
  EXPECT_EQ(decoder.at("inputs"), Json::parse(R"({"input_ids": "input_ids", "attention_mask": "attention_mask",
    "past_conv_names": "past_states.%d.conv_state", "past_recurrent_names": "past_states.%d.ssm_state"})"));
  EXPECT_EQ(decoder.at("num_hidden_layers"), Json(1));
  for (const auto& key : {"head_size", "num_attention_heads", "num_key_value_heads"}) EXPECT_EQ(decoder.find(key), nullptr) << key;
}

TEST(GenaiCaches, ConvolutionsAloneAreListedByLayer) {
  const auto config = genai(with_states({convolution(2)}));
  EXPECT_EQ(config.at("model").at("decoder").at("layer_types"), Json::parse(R"(["full_attention", "full_attention", "conv"])"));
  EXPECT_EQ(config.at("model").at("decoder").at("inputs").find("past_recurrent_names"), nullptr);
  EXPECT_EQ(config.at("search").at("past_present_share_buffer"), Json(true));
  auto unequal = with_states({convolution(2)});
  for (const auto& name : {"past_key_values.1.key", "past_key_values.1.value"})
    unequal.components().front().model.graph->find_value(name)->type.shape = ir::Shape{"batch", 1, "past", 16};
  EXPECT_THAT(error_of([&] { genai(unequal); }, ErrorKind::unsupported), HasSubstr("past_key_values.1.key is [batch, 1, past, 16], expected 2 heads of 16"));
  EXPECT_THAT(refusal({convolution(1), convolution(2)}), HasSubstr("layer 1 has both keys with values and a convolution's state"));
  EXPECT_THAT(refusal({convolution(3)}), HasSubstr("layer 2 has neither of keys with values and a convolution's state"));
}

TEST(GenaiCaches, RefusesStatesThatTheRuntimeDoesNotCarry) {
  const Decoder cuda{.ep = "cuda"};  // no pipeline there
  EXPECT_THAT(refusal({recurrence(2)}, cuda),
              AllOf(HasSubstr("carries past_key_values.2.ssm_state only with past_conv_names beside it"), HasSubstr("built for the execution provider cpu")));
  EXPECT_THAT(refusal({convolution(2), recurrence(2), recurrence(3)}, cuda), HasSubstr("lists the input 'past_key_values.3.conv_state'"));
  EXPECT_THAT(refusal({convolution(2), recurrence(2), convolution(3)}, cuda),
              HasSubstr("nothing to feed the graph's input 'past_key_values.3.conv_state' with"));
  EXPECT_THAT(refusal({convolution(2), recurrence(2), recurrence(2, "recurrent_state")}), HasSubstr("nothing to feed"));
  EXPECT_THAT(refusal({convolution(2), {"past_key_values.2.ssm_state", "", {"batch", 4, 16, 8}}}), HasSubstr("with present_recurrent_names beside it"));
  EXPECT_THAT(refusal({}, {.layers = 0}), HasSubstr("carries nothing"));
}

TEST(GenaiCaches, RefusesStatesOfOtherShapes) {
  const auto shaped = [](State state, ir::Shape shape) {
    state.shape = std::move(shape);
    return state;
  };
  EXPECT_THAT(refusal({shaped(convolution(2), {"batch", 96, "kernel"}), recurrence(2)}),
              HasSubstr("past_key_values.2.conv_state is [batch, 96, kernel]: ONNX Runtime GenAI carries a state of this kind only with 3 axes"));
  EXPECT_THAT(refusal({shaped(convolution(2), {"batch", 2, 96, 3}), recurrence(2)}), HasSubstr("only with 3 axes"));
  EXPECT_THAT(refusal({convolution(2), shaped(recurrence(2), {"batch", 2, 4, 16, 8})}), HasSubstr("only with 2 to 4 axes"));
  EXPECT_THAT(refusal({convolution(2), recurrence(2), convolution(3), shaped(recurrence(3), {"batch", 4, 16, 16})}),
              HasSubstr("past_key_values.3.ssm_state is float[batch,4,16,16], past_key_values.2.ssm_state is float[batch,4,16,8]"));
  auto half = convolution(3);
  half.dtype = ir::DataType::float16;
  EXPECT_THAT(refusal({convolution(2), half}), HasSubstr("past_key_values.3.conv_state is float16[batch,96,3]"));
}

TEST(GenaiCaches, RecurrentStatesHaveNeitherBeamsNorASharedBuffer) {
  const std::string beams = R"({"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0, "num_beams": 4})";
  EXPECT_EQ(genai(with_states({convolution(2)}, {.ids = beams})).at("search").at("num_beams"), Json(4));
  const auto package = with_states({convolution(2), recurrence(2)}, {.ids = beams});
  const Log log;
  Json config = genai(package);
  EXPECT_EQ(config.at("search").at("num_beams"), Json(1));
  EXPECT_THAT(log.lines, ElementsAre(HasSubstr("has no beams with recurrent states; num_beams is 1")));

  const auto contradiction = [&](const char* key, Json value) {
    Json changed = config, search = config.at("search");
    search.set(key, std::move(value));
    changed.set("search", search);
    return error_of([&] { check_decoder(changed, *package.components().front().model.graph); }, ErrorKind::unsupported);
  };
  EXPECT_THAT(contradiction("num_beams", 2), HasSubstr("num_beams is 2"));
  EXPECT_THAT(contradiction("past_present_share_buffer", true), HasSubstr("would write recurrent states while they are read"));
}

TEST(GenaiCaches, TellsThatRowsAreOneLengthWhereNoMaskSaysOtherwise) {
  auto package = package_of({});
  auto& g = *package.components().front().model.graph;
  const Log log;
  g.remove_input(g.find_value("attention_mask"));
  genai(package);
  EXPECT_THAT(log.lines, ElementsAre(HasSubstr("rows of a batch have to be equally long")));
}

TEST(GenaiCaches, LayerTypesAreCheckedAgainstTheGraph) {
  const auto package = with_states({convolution(2)});
  Json config = genai(package), model = config.at("model"), decoder = model.at("decoder");
  decoder.set("layer_types", Json::Array{"conv", "full_attention", "full_attention"});
  model.set("decoder", decoder);
  config.set("model", model);
  EXPECT_THAT(error_of([&] { check_decoder(config, *package.components().front().model.graph); }, ErrorKind::unsupported),
              HasSubstr("layer_types is [\"conv\""));
}

}  // namespace
}  // namespace mobius::package
