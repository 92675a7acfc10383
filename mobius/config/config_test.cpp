#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "mobius/base/error_of_test.hpp"
#include "mobius/config/decoder.hpp"

namespace mobius {
namespace {

using ::testing::HasSubstr;

ConfigReader reader(std::string_view json) { return ConfigReader(Json::parse(json)); }

TEST(ConfigReader, ANullHasAMeaningOnlyWhereAReaderSaysSo) {
  const auto r = reader(R"({"a": null, "b": 7})");
  EXPECT_EQ(r.size("b", 3), 7);
  EXPECT_EQ(r.size("missing", 3), 3);
  EXPECT_EQ(r.optional_size("a"), std::nullopt);
  EXPECT_EQ(r.nullable_size("a", 4096), std::nullopt);
  EXPECT_EQ(r.nullable_size("missing", 4096), 4096);
  EXPECT_EQ(r.texts("a"), std::nullopt);
  EXPECT_EQ(error_of([&] { r.size("a", 3); }), "config.json: a is null, expected a positive integer");
  EXPECT_EQ(error_of([&] { r.count("a", 3); }), "config.json: a is null, expected 0 or a positive integer");
  EXPECT_EQ(error_of([&] { r.integer("a", 3); }), "config.json: a is null, expected an integer");
  EXPECT_EQ(error_of([&] { r.number("a", 3); }), "config.json: a is null, expected a number");
  EXPECT_EQ(error_of([&] { r.text("a", "x"); }), "config.json: a is null, expected a string");
}

TEST(ConfigReader, AWholeNumberIsAnIntegerHoweverItIsWritten) {
  const auto r = reader(R"({"whole": 8.0, "none": 0, "less": -8, "nan": NaN, "much": 1e12, "yes": true, "text": "8", "most": 2147483647})");
  EXPECT_EQ(r.size("whole", 1), 8);
  EXPECT_EQ(r.count("none", 1), 0);
  EXPECT_EQ(r.integer("less", 1), -8);
  EXPECT_EQ(r.size("most", 1), ConfigReader::max_size);
  EXPECT_EQ(error_of([&] { r.size("none", 1); }), "config.json: none is 0, expected a positive integer");
  EXPECT_EQ(error_of([&] { r.count("less", 1); }), "config.json: less is -8, expected 0 or a positive integer");
  EXPECT_EQ(error_of([&] { r.size("much", 1); }), "config.json: much is 1000000000000.0, expected at most 2147483647");
  EXPECT_EQ(error_of([&] { reader(R"({"eps": 1e39})").positive("eps", 1); }), "config.json: eps is 1e+39, expected a number that float32 holds");
  for (const auto* key : {"nan", "yes", "text"}) {
    EXPECT_THAT(error_of([&] { r.size(key, 1); }), HasSubstr("expected a positive integer")) << key;
    EXPECT_THAT(error_of([&] { r.integer(key, 1); }), HasSubstr("expected an integer")) << key;
  }
}

TEST(ConfigReader, ListsSayWhichEntryIsWrong) {
  const auto r = reader(R"({"places": [2, 0, 2], "half": [0.5], "below": [0, -1], "above": [0, 1, 4], "flags": [1, false, 0], "sizes": [3, 4],
                            "one": 3, "texts": ["a", 1], "numbers": [1, NaN], "null": null})");
  EXPECT_EQ(r.places("places", 4), (std::vector<bool>{true, false, true, false}));
  EXPECT_EQ(r.places("null", 2), (std::vector<bool>{false, false}));
  EXPECT_EQ(r.flags("flags"), (std::vector<bool>{true, false, false}));
  EXPECT_EQ(r.sizes("sizes", 2, 1), (std::vector<std::int64_t>{3, 4}));
  EXPECT_EQ(r.sizes("one", 2, 1), (std::vector<std::int64_t>{3, 3}));
  EXPECT_EQ(r.sizes("missing", 2, 1), (std::vector<std::int64_t>{1, 1}));
  EXPECT_EQ(error_of([&] { r.places("half", 4); }), "config.json: half[0] is 0.5, expected an index from 0 to 3");
  EXPECT_EQ(error_of([&] { r.places("below", 4); }), "config.json: below[1] is -1, expected an index from 0 to 3");
  EXPECT_EQ(error_of([&] { r.places("above", 4); }), "config.json: above[2] is 4, expected an index from 0 to 3");
  EXPECT_EQ(error_of([&] { r.places("one", 4); }), "config.json: one is 3, expected a list of integers");
  EXPECT_EQ(error_of([&] { r.flags("half"); }), "config.json: half[0] is 0.5, expected 0 or 1");
  EXPECT_EQ(error_of([&] { r.flags("places"); }), "config.json: places[0] is 2, expected 0 or 1");
  EXPECT_EQ(error_of([&] { r.sizes("below", 2, 1); }), "config.json: below[0] is 0, expected a positive integer");
  EXPECT_EQ(error_of([&] { r.texts("texts"); }), "config.json: texts[1] is 1, expected a string");
  EXPECT_THAT(error_of([&] { r.numbers("numbers"); }), HasSubstr("numbers[1] is"));
}

TEST(ConfigReader, ASwitchThatIsNullIsOff) {
  const auto r = reader(R"({"a": null})");
  EXPECT_FALSE(r.boolean("a", true));
  EXPECT_TRUE(r.boolean("missing", true));
}

TEST(ConfigReader, SaysWhatWasFoundAndExpected) {
  const auto r = reader(R"({"n": -1, "x": "wide", "f": 1.5, "big": 1e300, "dtype": "int8"})");
  EXPECT_THAT(error_of([&] { r.size("n", 1); }), HasSubstr("config.json: n is -1, expected a positive integer"));
  EXPECT_THAT(error_of([&] { r.size("x", 1); }), HasSubstr("expected a positive integer"));
  EXPECT_THAT(error_of([&] { r.size("f", 1); }), HasSubstr("1.5"));
  EXPECT_THAT(error_of([&] { r.size("big", 1); }), HasSubstr("expected at most 2147483647"));
  EXPECT_THAT(error_of([&] { r.size("none"); }), HasSubstr("none is missing"));
  EXPECT_THAT(error_of([&] { r.dtype(); }), HasSubstr("int8"));
}

TEST(ConfigReader, RefusesASwitchByName) {
  const auto r = reader(R"({"scale_attn": true, "tp": 1.0})");
  EXPECT_NO_THROW(r.only("tp", 1));
  EXPECT_THAT(error_of([&] { r.only("scale_attn", false); }), HasSubstr("scale_attn = true is not supported"));
}

TEST(ConfigReader, KnowsUnreadKeys) {
  const auto r = reader(R"({"a": 1, "b": 2})");
  (void)r.size("a", 1);
  EXPECT_EQ(r.unread_keys(), std::vector<std::string>{"b"});
}

// ── rope ─────────────────────────────────────────────────────────────────────────────────────────────────────────────────

RopeConfig rope(std::string_view json, RopeDefaults defaults = {}) {
  return read_rope(reader(json), {.head_dim = 64, .max_position_embeddings = 4096}, defaults);
}

TEST(Rope, ReadsBothSpellings) {
  const auto now = rope(R"({"rope_parameters": {"rope_type": "linear", "factor": 2.0, "rope_theta": 500000}})");
  const auto older = rope(R"({"rope_theta": 500000, "rope_scaling": {"type": "linear", "factor": 2.0}})");
  EXPECT_EQ(now, older);
  EXPECT_EQ(now.type, RopeType::linear);
  EXPECT_EQ(rope("{}", {.theta = 12}).theta, 12);
  EXPECT_EQ(rope(R"({"rope_scaling": null, "rope_theta": 77})").theta, 77);
}

TEST(Rope, SaysWhereAKeyIsWrong) {
  EXPECT_EQ(error_of([] { rope(R"({"rope_scaling": {"type": "linear", "factor": -2}})"); }),
            "config.json: rope_scaling: factor is -2, expected a number above 0");
  EXPECT_EQ(error_of([] { rope(R"({"rope_scaling": {}, "rope_parameters": {"rope_type": 5}})"); }),
            "config.json: rope_parameters: rope_type is 5, expected a string");
}

TEST(Rope, RefusesAnUnknownTypeByName) {
  EXPECT_THAT(error_of([] { rope(R"({"rope_scaling": {"type": "spiral"}})"); }), HasSubstr("unknown rope type 'spiral'; known: default, linear"));
}

TEST(Rope, RotatesAPart) {
  const RopeDefaults part{.partial_rotary_factor = 0.25};
  EXPECT_EQ(rope("{}", part).rotary_dim, 16);
  EXPECT_EQ(rope(R"({"partial_rotary_factor": 0.5})", part).rotary_dim, 32);
  EXPECT_EQ(rope(R"({"partial_rotary_factor": null})", part).rotary_dim, 64);
  EXPECT_EQ(rope(R"({"partial_rotary_factor": 1, "rope_parameters": {"partial_rotary_factor": 0.5}})", part).rotary_dim, 32);
  EXPECT_THAT(error_of([&] { rope(R"({"partial_rotary_factor": 1.5})", part); }), HasSubstr("rotates 96 elements"));
}

TEST(Rope, AnOddPartIsRoundedUpToPairsButKeepsItsFrequencies) {
  const RopeDefaults part{.partial_rotary_factor = 0.25};
  const auto of_head = [&](std::int64_t head_dim, std::string_view json) {
    return read_rope(reader(json), {.head_dim = head_dim, .max_position_embeddings = 4096}, part);
  };
  const auto r = of_head(20, R"({"rope_theta": 1000})");
  EXPECT_EQ(r.rotary_dim, 6);
  const auto f = inverse_frequencies(r);
  ASSERT_EQ(f.size(), 3u);
  EXPECT_EQ(f[0], 1);
  EXPECT_NEAR(f[1], std::pow(1000.0, -2.0 / 5), 1e-7);
  EXPECT_NEAR(f[2], std::pow(1000.0, -4.0 / 5), 1e-8);
  EXPECT_EQ(of_head(4, "{}").rotary_dim, 2);
  EXPECT_THAT(error_of([&] { of_head(3, R"({"partial_rotary_factor": 1})"); }), HasSubstr("rotates 3 elements"));
  for (const auto* kind : {"yarn", "dynamic"}) {
    const auto text = fmt::format(R"({{"rope_scaling": {{"type": "{}", "factor": 4}}}})", kind);
    EXPECT_THAT(error_of([&] { of_head(20, text); }), HasSubstr("on 5 elements is not supported"));
  }
}

TEST(Rope, TypesThatRotateWholeHeadsDontLookAtThePart) {
  EXPECT_EQ(rope(R"({"partial_rotary_factor": 0.5})").rotary_dim, 64);
  EXPECT_EQ(rope(R"({"rope_scaling": {"type": "linear", "factor": 2, "partial_rotary_factor": 1.0}})").rotary_dim, 64);
  EXPECT_THAT(error_of([] { rope(R"({"partial_rotary_factor": 0.5, "rope_scaling": {"type": "linear", "factor": 2}})"); }),
              HasSubstr("partial_rotary_factor = 0.5 is not supported"));
}

TEST(Rope, RefusesParametersWithoutFiniteFrequencies) {
  for (const auto* text : {R"("type": "yarn", "factor": 2, "beta_fast": -1)", R"("type": "longrope", "factor": 4, "original_max_position_embeddings": 1)",
                           R"("type": "longrope", "factor": 4, "original_max_position_embeddings": 64, "zero": true)", R"("type": "yarn", "factor": 1e-320)"}) {
    std::string factors = std::string(text).find("zero") != std::string::npos ? "0" : "1";
    for (int i = 1; i < 32; ++i) factors += ", 1";
    const auto json = fmt::format(R"({{"rope_scaling": {{{}, "short_factor": [{}], "long_factor": [{}]}}}})", text, factors, factors);
    EXPECT_THAT(error_of([&] { rope(json); }), HasSubstr("no finite numbers")) << text;
  }
  EXPECT_THAT(error_of([] { read_rope(reader(R"({"rope_scaling": {"type": "dynamic", "factor": 2}})"), {.head_dim = 2, .max_position_embeddings = 8}, {}); }),
              HasSubstr("no finite numbers"));
}

TEST(Rope, DefaultFrequenciesFallGeometrically) {
  const auto f = inverse_frequencies(rope("{}"));
  ASSERT_EQ(f.size(), 32u);
  EXPECT_FLOAT_EQ(f[0], 1.0f);
  EXPECT_NEAR(f[16], 0.01, 1e-8);
  EXPECT_NEAR(f[31] * std::pow(10000.0, 62.0 / 64), 1.0, 1e-6);
}

TEST(Rope, Llama3KeepsHighAndScalesLowFrequencies) {
  const auto r = rope(R"({"rope_theta": 500000, "rope_scaling": {"rope_type": "llama3", "factor": 8, "low_freq_factor": 1, "high_freq_factor": 4,
                          "original_max_position_embeddings": 8192}})");
  const auto plain = inverse_frequencies(rope(R"({"rope_theta": 500000})")), scaled = inverse_frequencies(r);
  EXPECT_FLOAT_EQ(scaled.front(), plain.front());
  EXPECT_FLOAT_EQ(scaled.back(), plain.back() / 8);
}

TEST(Rope, Llama3WithoutAnythingInBetween) {
  const auto r =
      rope(R"({"rope_scaling": {"rope_type": "llama3", "factor": 16, "low_freq_factor": 1, "high_freq_factor": 1, "original_max_position_embeddings": 512}})");
  const auto plain = inverse_frequencies(rope("{}")), scaled = inverse_frequencies(r);
  for (std::size_t i = 0; i < plain.size(); ++i)
    EXPECT_FLOAT_EQ(scaled[i], 2 * std::numbers::pi / static_cast<double>(plain[i]) > 512 ? plain[i] / 16 : plain[i]) << i;
  EXPECT_THAT(error_of([] {
                rope(R"({"rope_scaling": {"rope_type": "llama3", "factor": 16, "low_freq_factor": 2, "high_freq_factor": 1,
                                     "original_max_position_embeddings": 512}})");
              }),
              HasSubstr("high_freq_factor 1 must not be below low_freq_factor 2"));
}

TEST(Rope, YarnAttentionFactor) {
  const auto plain = rope(R"({"rope_scaling": {"type": "yarn", "factor": 4, "original_max_position_embeddings": 1024}})");
  EXPECT_NEAR(plain.attention_factor, 0.1 * std::log(4.0) + 1, 1e-12);
  const auto both = rope(R"({"rope_scaling": {"type": "yarn", "factor": 4, "original_max_position_embeddings": 1024, "mscale": 1, "mscale_all_dim": 1}})");
  EXPECT_EQ(both.attention_factor, 1);
}

TEST(Rope, YarnTruncatesUnlessToldOtherwise) {
  const auto truncates = [](std::string_view more) {
    return rope(fmt::format(R"({{"rope_scaling": {{"type": "yarn", "factor": 4, "original_max_position_embeddings": 1024{}}}}})", more)).truncate;
  };
  EXPECT_TRUE(truncates(""));
  EXPECT_TRUE(truncates(R"(, "truncate": true)"));
  EXPECT_FALSE(truncates(R"(, "truncate": false)"));
  EXPECT_FALSE(truncates(R"(, "truncate": null)"));
}

TEST(Rope, LongropeListsMustFit) {
  EXPECT_THAT(error_of([] { rope(R"({"rope_scaling": {"type": "longrope", "short_factor": [1, 2], "long_factor": [1, 2]}})"); }),
              HasSubstr("short_factor has 2 numbers, expected 32"));
}

TEST(Rope, ATopLevelOriginalLengthWins) {
  const auto text = R"({"original_max_position_embeddings": 512, "rope_scaling": {"type": "yarn", "factor": 4, "original_max_position_embeddings": 1024}})";
  EXPECT_EQ(rope(text).original_max_position_embeddings, 512);
}

// ── decoders ─────────────────────────────────────────────────────────────────────────────────────────────────────────────

TEST(Rope, KindsOfLayersHaveTheirOwn) {
  const auto of_kind = [](std::string_view json, std::string_view kind, std::string_view older_theta = {}) {
    return read_rope_of_kind(reader(json), kind, {.head_dim = 64, .max_position_embeddings = 4096}, {.theta = 77}, older_theta);
  };
  const auto* now = R"({"rope_parameters": {"full_attention": {"rope_type": "linear", "factor": 8, "rope_theta": 1000}, "sliding_attention": null}})";
  EXPECT_EQ(of_kind(now, "full_attention").type, RopeType::linear);
  EXPECT_EQ(of_kind(now, "full_attention").theta, 1000);
  EXPECT_EQ(of_kind(now, "sliding_attention").type, RopeType::standard);
  EXPECT_EQ(of_kind(now, "sliding_attention").theta, 77);
  const auto* older = R"({"rope_theta": 1000, "rope_local_base_freq": 500, "rope_scaling": {"rope_type": "linear", "factor": 8}})";
  EXPECT_EQ(of_kind(older, "full_attention", "rope_theta"), of_kind(now, "full_attention"));
  EXPECT_EQ(of_kind(older, "sliding_attention", "rope_local_base_freq").theta, 500);
  EXPECT_EQ(of_kind(older, "sliding_attention", "rope_local_base_freq").type, RopeType::standard);
  EXPECT_THAT(error_of([&] { of_kind(R"({"rope_parameters": {"rope_theta": 5}})", "full_attention"); }), HasSubstr("rope_parameters is flat"));
  const auto* yarn = R"({"rope_parameters": {"full_attention": {"rope_type": "yarn", "factor": 4, "truncate": false}}})";
  EXPECT_TRUE(of_kind(yarn, "full_attention").truncate);
}

TEST(Rope, ProportionalPairsTurnAsFastAsInAWholeHead) {
  const auto r = rope(R"({"rope_parameters": {"rope_type": "proportional", "partial_rotary_factor": 0.25, "factor": 2}})");
  EXPECT_EQ(r.rotary_dim, 64);
  const auto f = inverse_frequencies(r), whole = inverse_frequencies(rope("{}"));
  ASSERT_EQ(f.size(), 32u);
  EXPECT_FLOAT_EQ(f[7], whole[7] / 2);
  EXPECT_EQ(f[8], 0);
  EXPECT_EQ(f[31], 0);
}

TEST(Rope, AFixedAlphaTakesThePlaceOfDynamicScaling) {
  const auto r = rope(R"({"rope_scaling": {"type": "dynamic", "alpha": 1000.0, "factor": 1.0}})", {.fixed_alpha = true});
  EXPECT_EQ(r.type, RopeType::standard);
  EXPECT_NEAR(r.theta, 10000 * std::pow(1000.0, 64.0 / 62), 1e-3);
  EXPECT_EQ(rope(R"({"rope_scaling": {"type": "dynamic", "factor": 2}})", {.fixed_alpha = true}).type, RopeType::dynamic);
}

TEST(DecoderConfig, TakesTheTypesDefaults) {
  const auto c = read_decoder(reader(R"({"model_type": "t", "num_attention_heads": 8})"), {.hidden_size = 512, .rope = {.theta = 9}});
  EXPECT_EQ(c.head_dim, 64);
  EXPECT_EQ(c.num_key_value_heads, 8);
  EXPECT_EQ(c.rope.theta, 9);
  EXPECT_EQ(c.rope.rotary_dim, 64);
}

TEST(DecoderConfig, HeadsMustDivide) {
  EXPECT_THAT(error_of([] { read_decoder(reader(R"({"model_type": "t", "num_attention_heads": 8, "num_key_value_heads": 3})"), {}); }),
              HasSubstr("not a multiple of num_key_value_heads 3"));
  EXPECT_THAT(error_of([] { read_decoder(reader(R"({"model_type": "t", "num_hidden_layers": 999999})"), {}); }), HasSubstr("at most 4096"));
}

TEST(DecoderConfig, WindowsByLayer) {
  const auto r = reader(R"({"model_type": "t", "num_hidden_layers": 3, "layer_types": ["full_attention", "sliding_attention", "full_attention"]})");
  auto c = read_decoder(r, {});
  set_window_by_layer(c, r, 5, {false, false, false});
  EXPECT_EQ(c.window(0), std::nullopt);
  EXPECT_EQ(c.window(1), 5);
  const auto other = reader(R"({"model_type": "t", "num_hidden_layers": 1, "layer_types": ["chunked_attention"]})");
  auto d = read_decoder(other, {});
  EXPECT_THAT(error_of([&] { set_window_by_layer(d, other, 5, {false}); }), HasSubstr("'chunked_attention' is not supported"));
}

TEST(DecoderConfig, QwensWindowsStartAboveALayer) {
  const auto r = reader(R"({"model_type": "t", "num_hidden_layers": 4, "use_sliding_window": true, "sliding_window": 9, "max_window_layers": 3})");
  auto c = read_decoder(r, {});
  set_window_above(c, r);
  EXPECT_EQ(c.window(2), std::nullopt);
  EXPECT_EQ(c.window(3), 9);
}

TEST(Decoder, ATypesOwnNamesComeFirstAndCommonOnesAreUnderstood) {
  const DecoderDefaults defaults{.hidden_size = 8, .num_attention_heads = 2, .own_names = {{"hidden_size", "n_embd"}, {"num_hidden_layers", "n_layer"}}};
  EXPECT_EQ(read_decoder(reader(R"({"model_type": "x", "n_embd": 16, "hidden_size": 32})"), defaults).hidden_size, 16);
  EXPECT_EQ(read_decoder(reader(R"({"model_type": "x", "hidden_size": 32, "num_hidden_layers": 3})"), defaults).hidden_size, 32);
  EXPECT_EQ(read_decoder(reader(R"({"model_type": "x", "hidden_size": 32, "num_hidden_layers": 3})"), defaults).num_hidden_layers, 3);
  EXPECT_EQ(read_decoder(reader(R"({"model_type": "x"})"), defaults).hidden_size, 8);
  EXPECT_THAT(error_of([&] { read_decoder(reader(R"({"model_type": "x", "n_embd": -1})"), defaults); }), HasSubstr("n_embd is -1"));
  EXPECT_THAT(error_of([&] { read_decoder(reader(R"({"model_type": "x", "hidden_size": null})"), defaults); }), HasSubstr("hidden_size is null"));
}

TEST(Decoder, WithoutRopeItsKeysAreNotRead) {
  const auto json = R"({"model_type": "x", "hidden_size": 6, "num_attention_heads": 2, "rope_scaling": {"rope_type": "unheard of"}})";
  EXPECT_NO_THROW(read_decoder_without_rope(reader(json), {}));
  EXPECT_THAT(error_of([&] { read_decoder(reader(json), {}); }), HasSubstr("unheard of"));
}

}  // namespace
}  // namespace mobius
