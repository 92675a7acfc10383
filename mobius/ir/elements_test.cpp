// Tests of elements.hpp: every pair of types against conversions by definition, in long double.
#include "mobius/ir/elements.hpp"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "mobius/base/error.hpp"
#include "mobius/base/numeric.hpp"

namespace mobius::ir {
namespace {

constexpr std::array writable = {DataType::float32, DataType::float64, DataType::float16, DataType::bfloat16, DataType::int8,
                                 DataType::int16,   DataType::int32,   DataType::int64,   DataType::uint8,    DataType::uint16,
                                 DataType::uint32,  DataType::uint64,  DataType::boolean};

std::uint64_t load(DataType type, const std::byte* in, std::size_t i) {
  const auto width = static_cast<std::size_t>(bit_width(type) / 8);
  std::uint64_t bits = 0;
  std::memcpy(&bits, in + i * width, width);
  return bits;
}

// The exact value (long double holds every 64-bit integer on the machines this is tested on).
long double value_of(DataType type, std::uint64_t bits) {
  switch (type) {
    case DataType::float32: return static_cast<long double>(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
    case DataType::float64: return static_cast<long double>(std::bit_cast<double>(bits));
    case DataType::float16: return static_cast<long double>(float16_to_float(static_cast<std::uint16_t>(bits)));
    case DataType::bfloat16: return static_cast<long double>(bfloat16_to_float(static_cast<std::uint16_t>(bits)));
    case DataType::int8: return static_cast<std::int8_t>(bits);
    case DataType::int16: return static_cast<std::int16_t>(bits);
    case DataType::int32: return static_cast<std::int32_t>(bits);
    case DataType::int64: return static_cast<long double>(static_cast<std::int64_t>(bits));
    case DataType::boolean: return bits != 0 ? 1 : 0;
    default: return static_cast<long double>(bits);
  }
}

// v rounded once, to nearest, ties to even, to `digits` binary digits, not below 2^lowest; 2^limit and more is infinity.
long double rounded(long double v, int digits, int lowest, int limit) {
  if (std::isnan(v) || std::isinf(v) || v == 0) return v;
  const int exponent = std::max(std::ilogb(v) - digits + 1, lowest);
  const long double r = std::ldexp(std::nearbyint(std::ldexp(v, -exponent)), exponent);
  return std::fabs(r) >= std::ldexp(1.0L, limit) ? std::copysign(std::numeric_limits<long double>::infinity(), v) : r;
}

long double rounded_to(DataType type, long double v) {
  switch (type) {
    case DataType::float32: return rounded(v, 24, -149, 128);
    case DataType::float64: return rounded(v, 53, -1074, 1024);
    case DataType::float16: return rounded(v, 11, -24, 16);
    default: return rounded(v, 8, -133, 128);
  }
}

bool is_signed(DataType type) { return type == DataType::int8 || type == DataType::int16 || type == DataType::int32 || type == DataType::int64; }

std::uint64_t saturated(DataType type, long double v) {
  const int bits = bit_width(type) - (is_signed(type) ? 1 : 0);
  const long double upper = std::ldexp(1.0L, bits) - 1;
  const long double lower = is_signed(type) ? -std::ldexp(1.0L, bits) : 0;
  if (std::isnan(v)) return 0;
  const long double clamped = std::trunc(std::fmin(std::fmax(v, lower), upper));
  return clamped < 0 ? static_cast<std::uint64_t>(static_cast<std::int64_t>(clamped)) : static_cast<std::uint64_t>(clamped);
}

void expect_converted(DataType from, std::uint64_t in, DataType to, std::uint64_t out) {
  const long double v = value_of(from, in);
  const std::uint64_t mask = bit_width(to) == 64 ? ~0ull : (1ull << bit_width(to)) - 1;
  SCOPED_TRACE(std::string(short_name(from)) + " " + std::to_string(in) + " to " + std::string(short_name(to)));
  if (to == DataType::boolean) {
    ASSERT_EQ(out, v != 0 ? 1u : 0u);
  } else if (is_floating_point(to)) {
    const long double want = rounded_to(to, v);
    const long double got = value_of(to, out);
    ASSERT_EQ(std::isnan(want), std::isnan(got));
    if (!std::isnan(want)) {
      ASSERT_EQ(got, want);
    }
    ASSERT_EQ(std::signbit(got), std::signbit(v));
  } else if (is_floating_point(from)) {
    ASSERT_EQ(out, saturated(to, v) & mask);
  } else {
    const auto wide = v < 0 ? static_cast<std::uint64_t>(static_cast<std::int64_t>(v)) : static_cast<std::uint64_t>(v);
    ASSERT_EQ(out, wide & mask);
  }
}

std::vector<std::uint64_t> patterns(DataType type) {
  std::vector<std::uint64_t> result;
  if (type == DataType::boolean) return {0, 1};
  const int bits = bit_width(type);
  if (bits <= 8) {
    for (std::uint64_t i = 0; i < 256; ++i) result.push_back(i);
    return result;
  }
  std::mt19937_64 random(5);
  for (int i = 0; i < 3000; ++i) result.push_back(random());
  for (int i = 0; i < bits; ++i) {  // around powers of two, and numbers of few digits: where ties are
    for (const std::uint64_t d : {~1ull, ~0ull, 0ull, 1ull, 2ull}) result.push_back((1ull << i) + d);
    for (int j = 0; j < i; ++j) {
      for (const std::uint64_t d : {~0ull, 0ull, 1ull}) result.push_back((1ull << i) + (1ull << j) + d);
    }
  }
  if (type == DataType::float64) {
    for (int i = 0; i < 6000; ++i) {
      // Within float16's and bfloat16's ties by less than a float can tell.
      const double tie = std::ldexp(1.0 + (2.0 * static_cast<double>(random() % 1024) + 1.0) / 2048.0, static_cast<int>(random() % 30) - 14);
      const std::uint64_t near = std::bit_cast<std::uint64_t>(tie) + random() % 3 - 1;
      result.push_back(near);
      result.push_back(std::bit_cast<std::uint64_t>(std::ldexp(std::bit_cast<double>(near), -12)));
    }
  }
  if (bits < 64) {
    for (std::uint64_t& p : result) p &= (1ull << bits) - 1;
  }
  return result;
}

TEST(Elements, EveryPairOfTypes) {
  for (const DataType from : writable) {
    const std::vector<std::uint64_t> values = patterns(from);
    const auto width = static_cast<std::size_t>(bit_width(from) / 8);
    // One byte off any alignment, once.
    for (const std::size_t shift : {0u, 1u}) {
      std::vector<std::byte> in(values.size() * width + shift);
      for (std::size_t i = 0; i < values.size(); ++i) std::memcpy(in.data() + shift + i * width, &values[i], width);
      for (const DataType to : writable) {
        ASSERT_TRUE(can_convert(from, to));
        std::vector<std::byte> out(static_cast<std::size_t>(byte_size(to, values.size())) + shift);
        convert_elements(from, in.data() + shift, 0, to, out.data() + shift, values.size());
        for (std::size_t i = 0; i < values.size(); ++i) {
          expect_converted(from, values[i], to, load(to, out.data() + shift, i));
          if (HasFatalFailure()) return;
        }
      }
    }
  }
}

TEST(Elements, NarrowTypesAreRead) {
  std::vector<std::byte> in(256);
  for (std::size_t i = 0; i < 256; ++i) in[i] = static_cast<std::byte>(i);
  const auto read = [&](DataType type, std::size_t first, std::size_t n) {
    std::vector<float> out(n);
    convert_elements(type, in.data(), first, DataType::float32, reinterpret_cast<std::byte*>(out.data()), n);
    return out;
  };
  EXPECT_EQ(read(DataType::float8e4m3fn, 0x38, 2), (std::vector<float>{1.0f, 1.125f}));
  EXPECT_EQ(read(DataType::float8e5m2, 0x3C, 2), (std::vector<float>{1.0f, 1.25f}));
  EXPECT_EQ(read(DataType::float8e8m0, 127, 2), (std::vector<float>{1.0f, 2.0f}));
  // 0x10 0x11 ... low nibble first; element 33 is the high one of byte 16.
  EXPECT_EQ(read(DataType::uint4, 33, 3), (std::vector<float>{1, 1, 1}));
  EXPECT_EQ(read(DataType::int4, 2 * 0x9F, 2), (std::vector<float>{-1, -7}));
  EXPECT_EQ(read(DataType::float4e2m1, 2 * 0x7F, 2), (std::vector<float>{-6, 6}));
  EXPECT_EQ(read(DataType::uint2, 4 * 0xE4, 4), (std::vector<float>{0, 1, 2, 3}));
  EXPECT_EQ(read(DataType::int2, 4 * 0xE4 + 1, 3), (std::vector<float>{1, -2, -1}));
}

TEST(Elements, RefusedTypes) {
  EXPECT_FALSE(can_convert(DataType::float32, DataType::float8e4m3fn));
  EXPECT_FALSE(can_convert(DataType::float32, DataType::int4));
  EXPECT_FALSE(can_convert(DataType::complex64, DataType::float32));
  EXPECT_FALSE(can_convert(DataType::float32, DataType::string));
  std::array<std::byte, 16> bytes{};
  EXPECT_THROW(convert_elements(DataType::float32, bytes.data(), 0, DataType::float8e5m2, bytes.data(), 1), Error);
}

TEST(Elements, BitsOfOneValue) {
  EXPECT_EQ(element_bits(DataType::float32, 1), 0x3F800000u);
  EXPECT_EQ(element_bits(DataType::bfloat16, -2), 0xC000u);
  EXPECT_EQ(element_bits(DataType::int64, -1), ~0ull);
  EXPECT_EQ(element_bits(DataType::uint8, 200), 200u);
  EXPECT_EQ(element_bits(DataType::float8e4m3fn, 1), 0x38u);
  EXPECT_EQ(element_bits(DataType::float8e4m3fn, -0.0), 0x80u);
  EXPECT_EQ(element_bits(DataType::int4, -8), 8u);
  EXPECT_EQ(element_bits(DataType::uint4, 15), 15u);
  EXPECT_THROW(element_bits(DataType::uint4, 16), Error);
  EXPECT_THROW(element_bits(DataType::float8e4m3fn, 1.01), Error);
  EXPECT_THROW(element_bits(DataType::string, 1), Error);
  EXPECT_THROW(element_bits(DataType::complex64, 1), Error);
}

}  // namespace
}  // namespace mobius::ir
