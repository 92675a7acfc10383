// Float conversion of whole arrays, with SIMD chosen at run time (Highway). Rounds to nearest, ties to even.
//
//   convert_bfloat16_to_float(bits.data(), floats.data(), bits.size());   // n elements each; the arrays do not overlap
#pragma once
#include <cstddef>
#include <cstdint>

namespace mobius {

void convert_bfloat16_to_float(const std::uint16_t* in, float* out, std::size_t n);
void convert_float16_to_float(const std::uint16_t* in, float* out, std::size_t n);
void convert_float_to_bfloat16(const float* in, std::uint16_t* out, std::size_t n);
void convert_float_to_float16(const float* in, std::uint16_t* out, std::size_t n);
void convert_bfloat16_to_float16(const std::uint16_t* in, std::uint16_t* out, std::size_t n);
void convert_float16_to_bfloat16(const std::uint16_t* in, std::uint16_t* out, std::size_t n);

}  // namespace mobius
