// Tests of convert.hpp.
#include "mobius/base/convert.hpp"

#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "mobius/base/numeric.hpp"

namespace mobius {
namespace {

using Bits16 = std::vector<std::uint16_t>;

std::uint32_t bits_of(float v) { return std::bit_cast<std::uint32_t>(v); }

Bits16 all_values() {
  Bits16 result(65536);
  for (std::size_t i = 0; i < result.size(); ++i) result[i] = static_cast<std::uint16_t>(i);
  return result;
}

std::vector<float> many_floats() {
  std::vector<float> result;
  std::mt19937 random(7);
  for (int i = 0; i < 100000; ++i) result.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(random())));
  for (std::uint32_t i = 0; i < 65536; ++i) {
    // Both halves around every tie of both formats.
    for (const std::uint32_t low : {0x0000u, 0x7FFFu, 0x8000u, 0x8001u, 0x1000u, 0x0FFFu, 0x1001u}) result.push_back(std::bit_cast<float>((i << 16) | low));
  }
  for (int i = 0; i < 50000; ++i) {
    const float magnitude = std::ldexp(1.0f + static_cast<float>(random() % 8192) / 8192.0f, static_cast<int>(random() % 14) - 27);
    result.push_back(random() % 2 != 0 ? magnitude : -magnitude);  // subnormal in float16
  }
  return result;
}

// Runs the test body with each instruction set this machine has.
class ConvertTest : public ::testing::TestWithParam<std::int64_t> {
 protected:
  void SetUp() override { choose(GetParam()); }
  void TearDown() override { choose(0); }

 private:
  static void choose(std::int64_t target) {
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  }
};

INSTANTIATE_TEST_SUITE_P(Targets, ConvertTest, ::testing::ValuesIn(hwy::SupportedAndGeneratedTargets()),
                         [](const auto& target) { return std::string(hwy::TargetName(target.param)); });

TEST_P(ConvertTest, FromEvery16BitValue) {
  const Bits16 in = all_values();
  std::vector<float> floats(in.size());
  Bits16 out(in.size());

  convert_bfloat16_to_float(in.data(), floats.data(), in.size());
  for (std::size_t i = 0; i < in.size(); ++i) ASSERT_EQ(bits_of(floats[i]), bits_of(bfloat16_to_float(in[i]))) << i;
  convert_float16_to_float(in.data(), floats.data(), in.size());
  for (std::size_t i = 0; i < in.size(); ++i) ASSERT_EQ(bits_of(floats[i]), bits_of(float16_to_float(in[i]))) << i;
  convert_bfloat16_to_float16(in.data(), out.data(), in.size());
  for (std::size_t i = 0; i < in.size(); ++i) ASSERT_EQ(out[i], float_to_float16(bfloat16_to_float(in[i]))) << i;
  convert_float16_to_bfloat16(in.data(), out.data(), in.size());
  for (std::size_t i = 0; i < in.size(); ++i) ASSERT_EQ(out[i], float_to_bfloat16(float16_to_float(in[i]))) << i;
}

TEST_P(ConvertTest, FromManyFloats) {
  const std::vector<float> in = many_floats();
  Bits16 out(in.size());
  convert_float_to_bfloat16(in.data(), out.data(), in.size());
  for (std::size_t i = 0; i < in.size(); ++i) ASSERT_EQ(out[i], float_to_bfloat16(in[i])) << std::hex << bits_of(in[i]);
  convert_float_to_float16(in.data(), out.data(), in.size());
  for (std::size_t i = 0; i < in.size(); ++i) ASSERT_EQ(out[i], float_to_float16(in[i])) << std::hex << bits_of(in[i]);
}

TEST_P(ConvertTest, AnyLengthAndNothingBehindIt) {
  const std::vector<float> in = many_floats();
  for (std::size_t n = 0; n < 70; ++n) {
    Bits16 out(n + 1, 0xABCD);
    convert_float_to_float16(in.data() + 1, out.data(), n);
    for (std::size_t i = 0; i < n; ++i) ASSERT_EQ(out[i], float_to_float16(in[i + 1]));
    ASSERT_EQ(out[n], 0xABCD);
  }
}

}  // namespace
}  // namespace mobius
