// Tests of numeric.hpp.
#include "mobius/base/numeric.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace mobius {
namespace {

// The value of a format's bits by its definition: (-1)^s · 2^e · 1.m, subnormals, and nothing special.
double plain_value(unsigned bits, int exponent_bits, int mantissa_bits, int bias) {
  const unsigned mantissa = bits & ((1u << mantissa_bits) - 1u);
  const int exponent = static_cast<int>((bits >> mantissa_bits) & ((1u << exponent_bits) - 1u));
  const double fraction = std::ldexp(static_cast<double>(mantissa), -mantissa_bits);
  const double magnitude = exponent == 0 ? std::ldexp(fraction, 1 - bias) : std::ldexp(1.0 + fraction, exponent - bias);
  return ((bits >> (exponent_bits + mantissa_bits)) & 1u) != 0 ? -magnitude : magnitude;
}

std::uint32_t bits_of(float v) { return std::bit_cast<std::uint32_t>(v); }

// A 16-bit format whose bits, without sign, are in the order of their values; infinity is the first that is not a number.
struct Format {
  int exponent_bits, mantissa_bits, bias;
  unsigned infinity() const { return ((1u << exponent_bits) - 1u) << mantissa_bits; }
  double value(unsigned bits) const { return plain_value(bits, exponent_bits, mantissa_bits, bias); }
};
constexpr Format half{5, 10, 15};
constexpr Format brain{8, 7, 127};

// The nearest of all values by search; infinity stands for the next power of two.
std::uint16_t nearest(const Format& f, float v) {
  const unsigned sign = std::signbit(v) ? 0x8000u : 0u;
  const double magnitude = std::fabs(static_cast<double>(v));
  unsigned low = 0;
  unsigned high = f.infinity();  // value(infinity) is what it would be without the special meaning
  while (high - low > 1) {
    const unsigned middle = (low + high) / 2;
    (f.value(middle) <= magnitude ? low : high) = middle;
  }
  const double below = magnitude - f.value(low);
  const double above = f.value(high) - magnitude;
  const bool up = above < below || (above == below && low % 2 == 1);
  return static_cast<std::uint16_t>(sign | (up ? high : low));
}

std::vector<float> interesting_floats() {
  std::vector<float> result;
  const auto around = [&](double v) {
    const auto f = static_cast<float>(v);
    for (const float x : {f, std::nextafter(f, 0.0f), std::nextafter(f, 1e38f)}) {
      result.push_back(x);
      result.push_back(-x);
    }
  };
  for (const Format& f : {half, brain}) {
    for (unsigned bits = 0; bits < f.infinity(); bits += bits < 3000 ? 1 : 37) {
      around(f.value(bits));
      around((f.value(bits) + f.value(bits + 1)) / 2);  // ties
    }
    around(f.value(f.infinity() - 1));
    around((f.value(f.infinity() - 1) + f.value(f.infinity())) / 2);
  }
  result.push_back(std::numeric_limits<float>::max());
  result.push_back(std::numeric_limits<float>::denorm_min());
  std::mt19937 random(1);
  for (int i = 0; i < 200000; ++i) {
    const auto v = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
    if (std::isfinite(v)) result.push_back(v);
  }
  return result;
}

TEST(Numeric, EveryFloat16HasItsValue) {
  for (unsigned bits = 0; bits < 65536; ++bits) {
    const float v = float16_to_float(static_cast<std::uint16_t>(bits));
    const unsigned magnitude = bits & 0x7FFFu;
    if (magnitude > half.infinity()) {
      ASSERT_TRUE(std::isnan(v)) << bits;
    } else if (magnitude == half.infinity()) {
      ASSERT_TRUE(std::isinf(v)) << bits;
    } else {
      ASSERT_EQ(static_cast<double>(v), half.value(bits)) << bits;
    }
    ASSERT_EQ(std::signbit(v), bits >= 0x8000u) << bits;
    ASSERT_EQ(float_to_float16(v), magnitude > half.infinity() ? bits | 0x200u : bits);
  }
}

TEST(Numeric, EveryBfloat16HasItsValue) {
  for (unsigned bits = 0; bits < 65536; ++bits) {
    const float v = bfloat16_to_float(static_cast<std::uint16_t>(bits));
    const unsigned magnitude = bits & 0x7FFFu;
    if (magnitude < brain.infinity()) {
      ASSERT_EQ(static_cast<double>(v), brain.value(bits)) << bits;
    }
    ASSERT_EQ(bits_of(v), bits << 16);
    ASSERT_EQ(float_to_bfloat16(v), magnitude > brain.infinity() ? bits | 0x40u : bits);
  }
}

TEST(Numeric, RoundsToNearestTiesToEven) {
  for (const float v : interesting_floats()) {
    ASSERT_EQ(float_to_float16(v), nearest(half, v)) << v;
    ASSERT_EQ(float_to_bfloat16(v), nearest(brain, v)) << v;
  }
}

TEST(Numeric, KeepsInfinitiesAndNans) {
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(float_to_float16(infinity), 0x7C00);
  EXPECT_EQ(float_to_float16(-infinity), 0xFC00);
  EXPECT_EQ(float_to_bfloat16(-infinity), 0xFF80);
  for (const std::uint32_t bits : {0x7F800001u, 0x7FFFFFFFu, 0xFF800001u, 0xFFC00000u}) {
    const auto v = std::bit_cast<float>(bits);
    EXPECT_TRUE(std::isnan(float16_to_float(float_to_float16(v))));
    EXPECT_TRUE(std::isnan(bfloat16_to_float(float_to_bfloat16(v))));
  }
}

TEST(Numeric, EveryFloat8HasItsValue) {
  for (unsigned bits = 0; bits < 256; ++bits) {
    const auto code = static_cast<std::uint8_t>(bits);
    const unsigned magnitude = bits & 0x7Fu;
    const auto check = [&](float got, double want, bool is_nan) {
      if (is_nan) EXPECT_TRUE(std::isnan(got)) << bits;
      else EXPECT_EQ(static_cast<double>(got), want) << bits;
    };
    check(float8e4m3fn_to_float(code), plain_value(bits, 4, 3, 7), magnitude == 0x7F);
    check(float8e4m3fnuz_to_float(code), plain_value(bits, 4, 3, 8), bits == 0x80);
    check(float8e5m2fnuz_to_float(code), plain_value(bits, 5, 2, 16), bits == 0x80);
    check(float8e8m0_to_float(code), std::ldexp(1.0, static_cast<int>(bits) - 127), bits == 0xFF);
    if (magnitude == 0x7C) EXPECT_TRUE(std::isinf(float8e5m2_to_float(code)));
    else check(float8e5m2_to_float(code), plain_value(bits, 5, 2, 15), magnitude > 0x7C);
  }
  EXPECT_EQ(float8e4m3fn_to_float(0x7E), 448.0f);
  EXPECT_EQ(float8e5m2_to_float(0x7B), 57344.0f);
}

TEST(Numeric, EveryFloat4HasItsValue) {
  for (unsigned bits = 0; bits < 16; ++bits) {
    const float v = float4e2m1_to_float(static_cast<std::uint8_t>(bits));
    EXPECT_EQ(static_cast<double>(v), plain_value(bits, 2, 1, 1)) << bits;
    EXPECT_EQ(std::signbit(v), bits >= 8);
  }
}

}  // namespace
}  // namespace mobius
