// The narrow float formats of machine learning, bit for bit: float16, bfloat16, the float8 and float4 kinds.
// Conversions to them round to nearest, ties to even. One value at a time; for arrays see convert.hpp.
//
//   float16_to_float(0x3c00)      // 1.0F
//   float_to_bfloat16(1.0F)       // 0x3f80
#pragma once
#include <bit>
#include <cstdint>

namespace mobius {

inline float bfloat16_to_float(std::uint16_t bits) { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }
std::uint16_t float_to_bfloat16(float value);  // a NaN stays a NaN

float float16_to_float(std::uint16_t bits);
std::uint16_t float_to_float16(float value);  // beyond 65504 becomes infinity

float float8e4m3fn_to_float(std::uint8_t bits);
float float8e5m2_to_float(std::uint8_t bits);
float float8e4m3fnuz_to_float(std::uint8_t bits);
float float8e5m2fnuz_to_float(std::uint8_t bits);
float float8e8m0_to_float(std::uint8_t bits);
float float4e2m1_to_float(std::uint8_t nibble);

}  // namespace mobius
