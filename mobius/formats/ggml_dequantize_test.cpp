// Every block format against values computed by the PyPI package gguf (testdata/gguf/make_fixtures.py).
#include "mobius/formats/ggml_dequantize.hpp"

#include <gtest/gtest.h>

#include <cstring>

#include "mobius/base/error.hpp"
#include "mobius/formats/gguf.hpp"

namespace mobius::formats {
namespace {

const fs::path quants = fs::path(MOBIUS_TESTDATA) / "gguf" / "quants.gguf";

class Dequantize : public testing::TestWithParam<const char*> {};

TEST_P(Dequantize, GivesTheReferenceBits) {
  const auto gguf = GgufFile::open(quants);
  const auto quantized = gguf->tensor(GetParam()), values = gguf->tensor(std::string(GetParam()) + ".values");
  ASSERT_TRUE(quantized && values);
  EXPECT_EQ(quantized->dtype(), ir::DataType::float32);
  EXPECT_EQ(quantized->dims(), values->dims());
  const auto found = quantized->bytes(), expected = values->bytes();
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); i += 4) {
    ASSERT_EQ(std::memcmp(&found[i], &expected[i], 4), 0) << "element " << i / 4 << " of " << GetParam();
  }
}

TEST_P(Dequantize, ReadsAnyRange) {
  const auto gguf = GgufFile::open(quants);
  const auto quantized = gguf->tensor(GetParam());
  const auto all = gguf->tensor(std::string(GetParam()) + ".values")->bytes();
  for (std::size_t begin : {std::size_t{0}, std::size_t{4}, std::size_t{124}, std::size_t{128}, all.size() / 2}) {
    for (std::size_t length : {std::size_t{0}, std::size_t{4}, std::size_t{132}, all.size() / 2}) {
      std::vector<std::byte> part(length + 1);  // one byte off: floats at an odd address
      quantized->read(begin, std::span(part).subspan(1));
      EXPECT_EQ(std::memcmp(part.data() + 1, all.data() + begin, length), 0) << begin << " + " << length;
      quantized->read(begin, std::span(part).first(length));
      EXPECT_EQ(std::memcmp(part.data(), all.data() + begin, length), 0) << begin << " + " << length;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, Dequantize, testing::Values("Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K"),
                         [](const auto& test) { return std::string(test.param); });

TEST(GgmlTypes, EveryReadableTypeIsTested) {
  EXPECT_EQ(readable_ggml_types(), "F32, F16, BF16, F64, I8, I16, I32, I64, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q2_K, Q3_K, Q4_K, Q5_K, Q6_K");
}

TEST(GgmlTypes, RefusesOthersByName) {
  std::byte block[98]{};
  float out[256];
  try {
    dequantize(static_cast<GgmlType>(18), block, 1, out);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::unsupported);
    EXPECT_STREQ(e.what(), "IQ3_XXS is not a ggml type that can be dequantised");
  }
  EXPECT_EQ(ggml_type_name(31), "type 31");
  EXPECT_EQ(find_ggml_type(31), nullptr);
}

}  // namespace
}  // namespace mobius::formats
