// One function per block format of ggml; inner loops have constant trip counts so that compilers turn them into SIMD.
//
// Notation: d, m (or dmin) are the block's float16 scale and minimum, q the small integers, sc and mn the 6-bit (or 4-bit)
// scales of sub-blocks. Products and sums are rounded one by one, never fused: the reference does so.
#include "mobius/formats/ggml_dequantize.hpp"

#include <cstdint>
#include <cstring>

#include "mobius/base/error.hpp"
#include "mobius/base/numeric.hpp"

#if defined(__clang__)
#pragma clang fp contract(off)
#elif defined(__GNUC__)
#pragma GCC optimize("fp-contract=off")
#endif

namespace mobius::formats {
namespace {

using Bytes = const std::uint8_t*;

float half_at(Bytes p) {
  std::uint16_t bits;
  std::memcpy(&bits, p, 2);
  return float16_to_float(bits);
}

std::uint32_t word_at(Bytes p) {
  std::uint32_t word;
  std::memcpy(&word, p, 4);
  return word;
}

// d | q: 16 bytes of two nibbles; low nibbles are elements 0..15.      y = d·(q - 8)
void q4_0(Bytes p, float* __restrict y) {
  const float d = half_at(p);
  Bytes q = p + 2;
  for (int i = 0; i < 16; ++i) y[i] = d * static_cast<float>((q[i] & 15) - 8);
  for (int i = 0; i < 16; ++i) y[i + 16] = d * static_cast<float>((q[i] >> 4) - 8);
}

// d | m | q                                                              y = d·q + m
void q4_1(Bytes p, float* __restrict y) {
  const float d = half_at(p), m = half_at(p + 2);
  Bytes q = p + 4;
  for (int i = 0; i < 16; ++i) y[i] = d * static_cast<float>(q[i] & 15) + m;
  for (int i = 0; i < 16; ++i) y[i + 16] = d * static_cast<float>(q[i] >> 4) + m;
}

// d | 32 fifth bits | q                                                 y = d·(q - 16)
void q5_0(Bytes p, float* __restrict y) {
  const float d = half_at(p);
  const std::uint32_t high = word_at(p + 2);
  Bytes q = p + 6;
  for (int i = 0; i < 16; ++i) y[i] = d * static_cast<float>(static_cast<int>((q[i] & 15u) | ((high >> i & 1u) << 4)) - 16);
  for (int i = 0; i < 16; ++i) y[i + 16] = d * static_cast<float>(static_cast<int>((q[i] >> 4) | ((high >> (i + 16) & 1u) << 4)) - 16);
}

// d | m | 32 fifth bits | q                                             y = d·q + m
void q5_1(Bytes p, float* __restrict y) {
  const float d = half_at(p), m = half_at(p + 2);
  const std::uint32_t high = word_at(p + 4);
  Bytes q = p + 8;
  for (int i = 0; i < 16; ++i) y[i] = d * static_cast<float>(static_cast<int>((q[i] & 15u) | ((high >> i & 1u) << 4))) + m;
  for (int i = 0; i < 16; ++i) y[i + 16] = d * static_cast<float>(static_cast<int>((q[i] >> 4) | ((high >> (i + 16) & 1u) << 4))) + m;
}

// d | 32 signed bytes                                                   y = d·q
void q8_0(Bytes p, float* __restrict y) {
  const float d = half_at(p);
  Bytes q = p + 2;
  for (int i = 0; i < 32; ++i) y[i] = d * static_cast<float>(static_cast<std::int8_t>(q[i]));
}

// 16 sub-blocks of 16: scale and minimum are nibbles | 64 bytes of four 2-bit q | d | dmin       y = (d·sc)·q - dmin·mn
void q2_k(Bytes p, float* __restrict y) {
  Bytes scales = p, q = p + 16;
  const float d = half_at(p + 80), dmin = half_at(p + 82);
  for (int s = 0; s < 16; ++s) {
    const float dl = d * static_cast<float>(scales[s] & 15);
    const float ml = dmin * static_cast<float>(scales[s] >> 4);
    Bytes from = q + (s / 8) * 32 + (s % 2) * 16;
    const int shift = (s / 2 % 4) * 2;
    for (int i = 0; i < 16; ++i) y[s * 16 + i] = dl * static_cast<float>(from[i] >> shift & 3) - ml;
  }
}

// 32 bytes of third bits (a clear bit means - 4) | 64 bytes of four 2-bit q | 16 6-bit scales | d       y = (d·(sc - 32))·q
void q3_k(Bytes p, float* __restrict y) {
  Bytes high = p, q = p + 32, scales = p + 96;
  const float d = half_at(p + 108);
  for (int s = 0; s < 16; ++s) {
    const int low4 = s < 8 ? scales[s] & 15 : scales[s - 8] >> 4;
    const int high2 = scales[8 + s % 4] >> (s / 4 * 2) & 3;
    const float dl = d * static_cast<float>((low4 | high2 << 4) - 32);
    Bytes from = q + (s / 8) * 32 + (s % 2) * 16;
    Bytes bits = high + (s % 2) * 16;
    const int shift = (s / 2 % 4) * 2;
    const int bit = s / 2;
    for (int i = 0; i < 16; ++i) y[s * 16 + i] = dl * static_cast<float>((from[i] >> shift & 3) - ((~bits[i] >> bit & 1) << 2));
  }
}

// Eight 6-bit scales and eight 6-bit minima in 12 bytes: the first four of each are whole, the others are split.
struct SixBitScales {
  std::uint8_t scale[8], minimum[8];
};
SixBitScales six_bit_scales(Bytes p) {
  SixBitScales s;
  for (int i = 0; i < 4; ++i) {
    s.scale[i] = p[i] & 63;
    s.minimum[i] = p[i + 4] & 63;
    s.scale[i + 4] = static_cast<std::uint8_t>((p[i + 8] & 15) | (p[i] >> 6 << 4));
    s.minimum[i + 4] = static_cast<std::uint8_t>((p[i + 8] >> 4) | (p[i + 4] >> 6 << 4));
  }
  return s;
}

// d | dmin | scales | 128 bytes of two q; eight sub-blocks of 32         y = (d·sc)·q - dmin·mn
void q4_k(Bytes p, float* __restrict y) {
  const float d = half_at(p), dmin = half_at(p + 2);
  const SixBitScales s = six_bit_scales(p + 4);
  Bytes q = p + 16;
  for (int b = 0; b < 8; b += 2) {
    const float d0 = d * static_cast<float>(s.scale[b]), d1 = d * static_cast<float>(s.scale[b + 1]);
    const float m0 = dmin * static_cast<float>(s.minimum[b]), m1 = dmin * static_cast<float>(s.minimum[b + 1]);
    Bytes from = q + b * 16;
    for (int i = 0; i < 32; ++i) y[b * 32 + i] = d0 * static_cast<float>(from[i] & 15) - m0;
    for (int i = 0; i < 32; ++i) y[b * 32 + 32 + i] = d1 * static_cast<float>(from[i] >> 4) - m1;
  }
}

// d | dmin | scales | 32 bytes: bit b is the fifth bit of sub-block b | 128 bytes of two q      y = (d·sc)·q - dmin·mn
void q5_k(Bytes p, float* __restrict y) {
  const float d = half_at(p), dmin = half_at(p + 2);
  const SixBitScales s = six_bit_scales(p + 4);
  Bytes high = p + 16, q = p + 48;
  for (int b = 0; b < 8; ++b) {
    const float dl = d * static_cast<float>(s.scale[b]);
    const float ml = dmin * static_cast<float>(s.minimum[b]);
    Bytes from = q + b / 2 * 32;
    const int shift = b % 2 * 4;
    for (int i = 0; i < 32; ++i) y[b * 32 + i] = dl * static_cast<float>((from[i] >> shift & 15) | (high[i] >> b & 1) << 4) - ml;
  }
}

// 128 bytes of two low nibbles | 64 bytes of four high pairs | 16 signed scales | d            y = (d·sc)·(q - 32)
void q6_k(Bytes p, float* __restrict y) {
  Bytes low = p, high = p + 128, scales = p + 192;
  const float d = half_at(p + 208);
  for (int s = 0; s < 16; ++s) {
    const float dl = d * static_cast<float>(static_cast<std::int8_t>(scales[s]));
    const int half = s / 8, row = s / 2 % 4, column = s % 2 * 16;
    Bytes from = low + half * 64 + row % 2 * 32 + column;
    Bytes bits = high + half * 32 + column;
    const int shift = row / 2 * 4, bit = row * 2;
    for (int i = 0; i < 16; ++i) y[s * 16 + i] = dl * static_cast<float>(((from[i] >> shift & 15) | (bits[i] >> bit & 3) << 4) - 32);
  }
}

template <auto block, int bytes, int elements>
void each(Bytes p, std::size_t n, float* y) {
  for (std::size_t i = 0; i < n; ++i) block(p + i * bytes, y + i * elements);
}

}  // namespace

void dequantize(GgmlType type, const std::byte* blocks, std::size_t n, float* out) {
  const auto* p = reinterpret_cast<Bytes>(blocks);
  switch (type) {
    case GgmlType::q4_0: return each<q4_0, 18, 32>(p, n, out);
    case GgmlType::q4_1: return each<q4_1, 20, 32>(p, n, out);
    case GgmlType::q5_0: return each<q5_0, 22, 32>(p, n, out);
    case GgmlType::q5_1: return each<q5_1, 24, 32>(p, n, out);
    case GgmlType::q8_0: return each<q8_0, 34, 32>(p, n, out);
    case GgmlType::q2_k: return each<q2_k, 84, 256>(p, n, out);
    case GgmlType::q3_k: return each<q3_k, 110, 256>(p, n, out);
    case GgmlType::q4_k: return each<q4_k, 144, 256>(p, n, out);
    case GgmlType::q5_k: return each<q5_k, 176, 256>(p, n, out);
    case GgmlType::q6_k: return each<q6_k, 210, 256>(p, n, out);
    default: fail(ErrorKind::unsupported, "{} is not a ggml type that can be dequantised", ggml_type_name(static_cast<std::uint32_t>(type)));
  }
}

}  // namespace mobius::formats
