// The loops of convert.hpp, compiled once per instruction set by Highway's foreach_target; the best one is picked at run time.
// Where the target has no half-precision instructions, the scalar functions of numeric.hpp do the work: every target gives the same bits.
#include "mobius/base/convert.hpp"

#include "mobius/base/numeric.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "mobius/base/convert.cpp"
#include <hwy/foreach_target.h>
// foreach_target.h has to come first.
#include <hwy/highway.h>

// Per target: does it convert float16 in hardware, rounding to nearest even? (x86: F16C comes with Highway's AVX2 target.)
#undef MOBIUS_HARDWARE_FLOAT16
#if (HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2) || (HWY_ARCH_ARM_A64 && HWY_TARGET == HWY_NEON)
#define MOBIUS_HARDWARE_FLOAT16 1
#else
#define MOBIUS_HARDWARE_FLOAT16 0
#endif

HWY_BEFORE_NAMESPACE();
namespace mobius::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Float = hn::ScalableTag<float>;
using Word = hn::Rebind<std::uint32_t, Float>;
using SignedWord = hn::Rebind<std::int32_t, Float>;
using Half = hn::Rebind<std::uint16_t, Float>;
using Float16 = hn::Rebind<hwy::float16_t, Float>;

// Applies `step` to whole vectors of `in`, and `single` to what is left over.
template <class In, class Out, class Step, class Single>
HWY_INLINE void for_all(const In* HWY_RESTRICT in, Out* HWY_RESTRICT out, std::size_t n, Step step, Single single) {
  const std::size_t lanes = hn::Lanes(Float());
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes) step(in + i, out + i);
  for (; i < n; ++i) out[i] = single(in[i]);
}

HWY_INLINE hn::Vec<Float> load_bfloat16(const std::uint16_t* in) {
  return hn::BitCast(Float(), hn::ShiftLeft<16>(hn::PromoteTo(Word(), hn::LoadU(Half(), in))));
}

// Adds half of the last kept place, less one for even results; a NaN keeps its upper half and becomes quiet.
HWY_INLINE void store_bfloat16(hn::Vec<Float> value, std::uint16_t* out) {
  const Word word;
  const auto bits = hn::BitCast(word, value);
  const auto upper = hn::ShiftRight<16>(bits);
  const auto rounded = hn::ShiftRight<16>(hn::Add(hn::Add(bits, hn::Set(word, 0x7FFFu)), hn::And(upper, hn::Set(word, 1u))));
  const auto quiet = hn::Or(upper, hn::Set(word, 0x40u));
  const auto result = hn::IfThenElse(hn::RebindMask(word, hn::IsNaN(value)), quiet, rounded);
  hn::StoreU(hn::DemoteTo(Half(), hn::BitCast(SignedWord(), result)), Half(), out);
}

void bfloat16_to_float_loop(const std::uint16_t* in, float* out, std::size_t n) {
  for_all(
      in, out, n, [](const std::uint16_t* i, float* o) HWY_ATTR { hn::StoreU(load_bfloat16(i), Float(), o); },
      [](std::uint16_t v) { return bfloat16_to_float(v); });
}

void float_to_bfloat16_loop(const float* in, std::uint16_t* out, std::size_t n) {
  for_all(
      in, out, n, [](const float* i, std::uint16_t* o) HWY_ATTR { store_bfloat16(hn::LoadU(Float(), i), o); }, [](float v) { return float_to_bfloat16(v); });
}

#if MOBIUS_HARDWARE_FLOAT16

HWY_INLINE hn::Vec<Float> load_float16(const std::uint16_t* in) { return hn::PromoteTo(Float(), hn::BitCast(Float16(), hn::LoadU(Half(), in))); }

HWY_INLINE void store_float16(hn::Vec<Float> value, std::uint16_t* out) { hn::StoreU(hn::BitCast(Half(), hn::DemoteTo(Float16(), value)), Half(), out); }

void float16_to_float_loop(const std::uint16_t* in, float* out, std::size_t n) {
  for_all(
      in, out, n, [](const std::uint16_t* i, float* o) HWY_ATTR { hn::StoreU(load_float16(i), Float(), o); },
      [](std::uint16_t v) { return float16_to_float(v); });
}

void float_to_float16_loop(const float* in, std::uint16_t* out, std::size_t n) {
  for_all(
      in, out, n, [](const float* i, std::uint16_t* o) HWY_ATTR { store_float16(hn::LoadU(Float(), i), o); }, [](float v) { return float_to_float16(v); });
}

void bfloat16_to_float16_loop(const std::uint16_t* in, std::uint16_t* out, std::size_t n) {
  for_all(
      in, out, n, [](const std::uint16_t* i, std::uint16_t* o) HWY_ATTR { store_float16(load_bfloat16(i), o); },
      [](std::uint16_t v) { return float_to_float16(bfloat16_to_float(v)); });
}

void float16_to_bfloat16_loop(const std::uint16_t* in, std::uint16_t* out, std::size_t n) {
  for_all(
      in, out, n, [](const std::uint16_t* i, std::uint16_t* o) HWY_ATTR { store_bfloat16(load_float16(i), o); },
      [](std::uint16_t v) { return float_to_bfloat16(float16_to_float(v)); });
}

#else

void float16_to_float_loop(const std::uint16_t* in, float* out, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) out[i] = float16_to_float(in[i]);
}

void float_to_float16_loop(const float* in, std::uint16_t* out, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) out[i] = float_to_float16(in[i]);
}

void bfloat16_to_float16_loop(const std::uint16_t* in, std::uint16_t* out, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) out[i] = float_to_float16(bfloat16_to_float(in[i]));
}

void float16_to_bfloat16_loop(const std::uint16_t* in, std::uint16_t* out, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) out[i] = float_to_bfloat16(float16_to_float(in[i]));
}

#endif

}  // namespace mobius::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mobius {

HWY_EXPORT(bfloat16_to_float_loop);
HWY_EXPORT(float16_to_float_loop);
HWY_EXPORT(float_to_bfloat16_loop);
HWY_EXPORT(float_to_float16_loop);
HWY_EXPORT(bfloat16_to_float16_loop);
HWY_EXPORT(float16_to_bfloat16_loop);

void convert_bfloat16_to_float(const std::uint16_t* in, float* out, std::size_t n) { HWY_DYNAMIC_DISPATCH(bfloat16_to_float_loop)(in, out, n); }
void convert_float16_to_float(const std::uint16_t* in, float* out, std::size_t n) { HWY_DYNAMIC_DISPATCH(float16_to_float_loop)(in, out, n); }
void convert_float_to_bfloat16(const float* in, std::uint16_t* out, std::size_t n) { HWY_DYNAMIC_DISPATCH(float_to_bfloat16_loop)(in, out, n); }
void convert_float_to_float16(const float* in, std::uint16_t* out, std::size_t n) { HWY_DYNAMIC_DISPATCH(float_to_float16_loop)(in, out, n); }
void convert_bfloat16_to_float16(const std::uint16_t* in, std::uint16_t* out, std::size_t n) { HWY_DYNAMIC_DISPATCH(bfloat16_to_float16_loop)(in, out, n); }
void convert_float16_to_bfloat16(const std::uint16_t* in, std::uint16_t* out, std::size_t n) { HWY_DYNAMIC_DISPATCH(float16_to_bfloat16_loop)(in, out, n); }

}  // namespace mobius
#endif
