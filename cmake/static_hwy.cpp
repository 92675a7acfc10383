// What Highway's headers leave to its library, for programs that must not need libhwy.so: which of the compiled instruction sets this
// processor has. Only those are told that convert.cpp is compiled for and that the compiler's runtime knows how to ask for.
#include <hwy/targets.h>

#include <atomic>
#include <cstdint>

namespace hwy {

std::int64_t SupportedTargets() {
#if HWY_ARCH_X86 && defined(__GNUC__)
  static const std::int64_t found = [] {
    __builtin_cpu_init();
    std::int64_t targets = HWY_STATIC_TARGET;
    const auto has = [&](std::int64_t target, bool all) { targets |= all ? target : 0; };
    const bool sse4 = __builtin_cpu_supports("sse4.1") && __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("aes");
    // F16C and LZCNT came to processors before or with these.
    const bool avx2 =
        sse4 && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
    const bool avx3 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
                      __builtin_cpu_supports("avx512bw");
    has(HWY_SSSE3, __builtin_cpu_supports("ssse3"));
    has(HWY_SSE4, sse4);
    has(HWY_AVX2, avx2);
    has(HWY_AVX3, avx3);
    return targets;
  }();
  return found;
#else
  return HWY_STATIC_TARGET;
#endif
}

ChosenTarget& GetChosenTarget() {
  static ChosenTarget chosen;
  return chosen;
}

}  // namespace hwy
