// Tests of json.hpp.
#include "mobius/base/json.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "mobius/base/error.hpp"

namespace mobius {
namespace {

using ::testing::HasSubstr;

std::string error_of(std::string_view text) {
  try {
    Json::parse(text);
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::corrupt_file);
    return e.what();
  }
  return "no error";
}

TEST(Json, ReadsEveryKind) {
  const Json v = Json::parse(R"( {"a": [1, -2.5, true, false, null, "x\u00e9\n"], "b": {}, "c": []} )");
  EXPECT_EQ(v.at("a").as_array()[0].as_int(), 1);
  EXPECT_EQ(v.at("a").as_array()[1].as_double(), -2.5);
  EXPECT_TRUE(v.at("a").as_array()[2].as_bool());
  EXPECT_TRUE(v.at("a").as_array()[4].is_null());
  EXPECT_EQ(v.at("a").as_array()[5].as_string(), "x\xC3\xA9\n");
  EXPECT_TRUE(v.at("b").is_object());
  EXPECT_EQ(v.find("nothing"), nullptr);
  EXPECT_EQ(v.at("c").find("nothing"), nullptr);
}

TEST(Json, KeepsIntegersExact) {
  EXPECT_EQ(Json::parse("9223372036854775807").as_int(), std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(Json::parse("-9223372036854775808").as_int(), std::numeric_limits<std::int64_t>::min());
  EXPECT_FALSE(Json::parse("9223372036854775808").is_int());
  EXPECT_EQ(Json::parse("9223372036854775808").as_double(), 0x1p63);
  EXPECT_EQ(Json::parse("1e20").kind(), "number");
  EXPECT_EQ(Json::parse("4.0").as_int(), 4);
  EXPECT_EQ(Json(std::uint64_t{1} << 63).as_double(), 0x1p63);
}

TEST(Json, AcceptsPythonsNumbers) {
  const Json v = Json::parse(R"({"a": NaN, "NaN": [Infinity, -Infinity, "Infinity", -1], "b": {"__float__": "-Infinity"}, "c": {"__float__": "x"}})");
  EXPECT_TRUE(std::isnan(v.at("a").as_double()));
  EXPECT_EQ(v.at("NaN").as_array()[0].as_double(), std::numeric_limits<double>::infinity());
  EXPECT_EQ(v.at("NaN").as_array()[1].as_double(), -std::numeric_limits<double>::infinity());
  EXPECT_EQ(v.at("NaN").as_array()[2].as_string(), "Infinity");
  EXPECT_EQ(v.at("NaN").as_array()[3].as_int(), -1);
  EXPECT_EQ(v.at("b").as_double(), -std::numeric_limits<double>::infinity());
  EXPECT_TRUE(v.at("c").is_object());
  EXPECT_TRUE(std::isnan(Json::parse("NaN").as_double()));
  EXPECT_THAT(error_of("{NaN: 1}"), HasSubstr("key"));
  for (const char* text : {"NaNs", "1NaN", "- Infinity", "\"a\"NaN", "Infinit", "[Infinity Infinity]", "-NaN"}) EXPECT_NE(error_of(text), "no error") << text;
}

TEST(Json, RepeatedKeysCanBeRefused) {
  const auto strict = [](std::string_view text) { return Json::parse(text, Json::RepeatedKeys::refused); };
  EXPECT_EQ(strict(R"({"a": 1, "b": {"a": 2}})").at("b").at("a").as_int(), 2);
  for (const auto* text : {R"({"a": 1, "b": 2, "a": 3})", R"([{"b": {"a": 1, "\u0061": 1}}])"}) {
    try {
      strict(text);
      FAIL() << text;
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::corrupt_file);
      EXPECT_STREQ(e.what(), "JSON: the key 'a' is given twice");
    }
  }
}

TEST(Json, ANulEndsNoText) {
  using namespace std::string_view_literals;
  EXPECT_EQ(error_of("{\"a\": 1}\0{\"a\": 2}"sv), "JSON: at byte 8: found a NUL");
  EXPECT_EQ(error_of("\0"sv), "JSON: at byte 0: found a NUL");
  EXPECT_NE(error_of("\"a\0b\""sv), "no error");
  EXPECT_EQ(Json::parse(R"("a\u0000b")").as_string(), "a\0b"sv);
}

TEST(Json, RepeatedKeysKeepTheLastValue) {
  const Json v = Json::parse(R"({"a": 1, "b": 2, "a": 3, "a": 4})");
  ASSERT_EQ(v.as_object().size(), 2u);
  EXPECT_EQ(v.as_object()[0].first, "a");
  EXPECT_EQ(v.as_object()[0].second.as_int(), 4);
}

TEST(Json, AcceptsByteOrderMark) { EXPECT_EQ(Json::parse("\xEF\xBB\xBF[1]").as_array().size(), 1u); }

TEST(Json, SaysWhereAndWhat) {
  EXPECT_THAT(error_of(R"({"a": 1,})"), HasSubstr("byte 8"));
  EXPECT_THAT(error_of(R"({"a": NaN, "b": ?})"), HasSubstr("byte 16"));
  EXPECT_THAT(error_of(R"([1, 2)"), HasSubstr("expected"));
  for (const char* text : {"", "  ", "[1] 2", "{\"a\"}", "\"\x01\"", "\"\xFF\"", "'a'", "01", "{\"a\":1", "\"abc", "nul", "\\", "\"\\", "]", "}}"}) {
    EXPECT_NE(error_of(text), "no error") << text;
  }
}

TEST(Json, RefusesDeepNesting) {
  const auto nested = [](std::size_t n) { return std::string(n, '[') + std::string(n, ']'); };
  EXPECT_EQ(Json::parse(nested(512)).as_array().size(), 1u);
  EXPECT_THAT(error_of(nested(513)), HasSubstr("512 at byte 512"));
  EXPECT_NE(error_of(std::string(1000000, '[')), "no error");
  EXPECT_NE(error_of(std::string(1000000, '{')), "no error");
  // Brackets in strings do not nest.
  EXPECT_TRUE(Json::parse('"' + std::string(1000, '[') + "\\\"[\"").is_string());
}

TEST(Json, WrongKindsSayWhatWasFound) {
  const Json v = Json::parse(R"({"a": "text", "b": 1.5})");
  try {
    v.at("a").as_int();
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::invalid_argument);
    EXPECT_STREQ(e.what(), "found string \"text\", expected an integer");
  }
  EXPECT_THROW(v.at("b").as_int(), Error);
  EXPECT_THROW(v.at("b").as_string(), Error);
  EXPECT_THROW(Json(1e300).as_int(), Error);
  try {
    v.at("c");
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::not_found);
    EXPECT_THAT(e.what(), HasSubstr("a, b"));
  }
}

// The expected texts are what Python's json.dumps(ensure_ascii=False) gives.
TEST(Json, WritesLikePython) {
  const Json v = Json::parse(R"({"a":[1,2.0,{"b":[]}],"c":{},"d":"\u00e9\"\\\u0001\u007f/","e":[NaN,-Infinity],"f":null,"g":true})");
  EXPECT_EQ(v.dump(), "{\"a\": [1, 2.0, {\"b\": []}], \"c\": {}, \"d\": \"\xC3\xA9\\\"\\\\\\u0001\x7F/\", \"e\": [NaN, -Infinity], \"f\": null, \"g\": true}");
  EXPECT_EQ(Json::parse(R"({"a":[1,{"b":2}],"c":{}})").dump(2), "{\n  \"a\": [\n    1,\n    {\n      \"b\": 2\n    }\n  ],\n  \"c\": {}\n}");
  EXPECT_EQ(Json::parse("[1,2]").dump(0), "[\n1,\n2\n]");
  const std::pair<double, const char*> doubles[] = {
      {1e16, "1e+16"}, {1e15, "1000000000000000.0"}, {1e-5, "1e-05"},      {0.0001, "0.0001"}, {-0.0, "-0.0"}, {0.1, "0.1"},
      {1e22, "1e+22"}, {5e-324, "5e-324"},           {1.5e300, "1.5e+300"}};
  for (const auto& [value, text] : doubles) EXPECT_EQ(Json(value).dump(), text);
}

TEST(Json, ReplacesInvalidUtf8) {
  EXPECT_EQ(Json("a\xFF"
                 "b\xC0\x80\xED\xA0\x80\xE2\x82")
                .dump(),
            "\"a\xEF\xBF\xBD"
            "b\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\"");
  EXPECT_EQ(Json("\xF0\x9F\x98\x80\xE2\x82\xAC").dump(), "\"\xF0\x9F\x98\x80\xE2\x82\xAC\"");
}

TEST(Json, NumbersReadBackEqual) {
  std::mt19937_64 random(3);
  for (int i = 0; i < 20000; ++i) {
    const auto v = std::bit_cast<double>(random());
    if (!std::isfinite(v)) continue;
    const Json back = Json::parse(Json(v).dump());
    ASSERT_FALSE(back.is_int());
    ASSERT_EQ(std::bit_cast<std::uint64_t>(back.as_double()), std::bit_cast<std::uint64_t>(v));
  }
}

TEST(Json, IsEdited) {
  Json v;
  v.set("a", 1);
  v.set("b", "x");
  v.set("a", Json::Array{Json(1), Json(nullptr)});
  v.erase("b");
  v.erase("nothing");
  EXPECT_EQ(v, Json::parse(R"({"a": [1, null]})"));
  Json list;
  list.push_back(true);
  list.push_back(2.5);
  EXPECT_EQ(list.dump(), "[true, 2.5]");
  EXPECT_THROW(list.set("a", 1), Error);
  EXPECT_THROW(v.push_back(1), Error);
}

TEST(Json, LargeObjectsAreReadInLinearTime) {
  std::string text = "{";
  for (int i = 0; i < 200000; ++i) text += (i == 0 ? "\"k" : ",\"k") + std::to_string(i) + "\":" + std::to_string(i);
  EXPECT_EQ(Json::parse(text + "}").as_object().size(), 200000u);
}

}  // namespace
}  // namespace mobius
