// Conversions of single values, written with integer arithmetic on the bit patterns so that they are the same on every machine.
#include "mobius/base/numeric.hpp"

#include <array>
#include <cmath>
#include <limits>

namespace mobius {
namespace {

constexpr std::uint32_t float_sign = 0x80000000u;
constexpr std::uint32_t float_infinity = 0x7F800000u;

// value >> shift, rounded to nearest, ties to even; shift is 1..31.
std::uint32_t shift_right_rounded(std::uint32_t value, int shift) {
  const std::uint32_t half_less_one = (1u << (shift - 1)) - 1;
  return (value + half_less_one + ((value >> shift) & 1u)) >> shift;
}

// A format with sign, exponent and mantissa fields whose only special value has been dealt with by the caller.
float small_float(bool negative, int exponent_field, int mantissa, int mantissa_bits, int bias) {
  const int significand = exponent_field == 0 ? mantissa : mantissa | (1 << mantissa_bits);
  const int exponent = (exponent_field == 0 ? 1 : exponent_field) - bias - mantissa_bits;
  const float magnitude = std::ldexp(static_cast<float>(significand), exponent);
  return negative ? -magnitude : magnitude;
}

constexpr float not_a_number = std::numeric_limits<float>::quiet_NaN();

}  // namespace

std::uint16_t float_to_bfloat16(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  // Rounding could carry a NaN's payload into the exponent: keep its upper half and make it quiet instead.
  if ((bits & ~float_sign) > float_infinity) return static_cast<std::uint16_t>((bits >> 16) | 0x40u);
  return static_cast<std::uint16_t>((bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16);
}

float float16_to_float(std::uint16_t bits) {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000u) << 16;
  const std::uint32_t exponent = (bits >> 10) & 0x1Fu;
  const std::uint32_t mantissa = bits & 0x3FFu;
  if (exponent == 0x1F) {
    const std::uint32_t quiet = mantissa != 0 ? 0x400000u : 0u;  // as the hardware does
    return std::bit_cast<float>(sign | float_infinity | quiet | (mantissa << 13));
  }
  if (exponent == 0) {
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(magnitude));
  }
  return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
}

std::uint16_t float_to_float16(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 16) & 0x8000u;
  const std::uint32_t magnitude = bits & ~float_sign;
  if (magnitude > float_infinity) return static_cast<std::uint16_t>(sign | 0x7E00u | ((magnitude >> 13) & 0x3FFu));
  if (magnitude >= 0x477FF000u) return static_cast<std::uint16_t>(sign | 0x7C00u);  // 65520 and more round to infinity
  if (magnitude >= 0x38800000u) return static_cast<std::uint16_t>(sign | (shift_right_rounded(magnitude, 13) - (112u << 10)));
  if (magnitude < 0x33000000u) return static_cast<std::uint16_t>(sign);  // below half of the smallest subnormal
  const int exponent = static_cast<int>(magnitude >> 23);
  return static_cast<std::uint16_t>(sign | shift_right_rounded((magnitude & 0x7FFFFFu) | 0x800000u, 126 - exponent));
}

float float8e4m3fn_to_float(std::uint8_t bits) {
  if ((bits & 0x7F) == 0x7F) return not_a_number;
  return small_float((bits & 0x80) != 0, (bits >> 3) & 0xF, bits & 7, 3, 7);
}

float float8e5m2_to_float(std::uint8_t bits) { return float16_to_float(static_cast<std::uint16_t>(bits << 8)); }

float float8e4m3fnuz_to_float(std::uint8_t bits) {
  if (bits == 0x80) return not_a_number;
  return small_float((bits & 0x80) != 0, (bits >> 3) & 0xF, bits & 7, 3, 8);
}

float float8e5m2fnuz_to_float(std::uint8_t bits) {
  if (bits == 0x80) return not_a_number;
  return small_float((bits & 0x80) != 0, (bits >> 2) & 0x1F, bits & 3, 2, 16);
}

float float8e8m0_to_float(std::uint8_t bits) { return bits == 0xFF ? not_a_number : std::ldexp(1.0f, static_cast<int>(bits) - 127); }

float float4e2m1_to_float(std::uint8_t nibble) {
  constexpr std::array<float, 8> magnitudes = {0.0f, 0.5f, 1.0f, 1.5f, 2.0f, 3.0f, 4.0f, 6.0f};
  const float magnitude = magnitudes[nibble & 7u];
  return (nibble & 8) != 0 ? -magnitude : magnitude;
}

}  // namespace mobius
