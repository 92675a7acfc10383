// Float conversion of 16 MB of input per call, in bytes read and written per second.
#include <benchmark/benchmark.h>

#include <vector>

#include "mobius/base/convert.hpp"

namespace {

template <class In, class Out>
void convert(benchmark::State& state, void (*function)(const In*, Out*, std::size_t)) {
  const std::size_t n = (16u << 20) / sizeof(In);
  // 1.0 in float32, about 1 in bfloat16 and float16: no subnormals, whose speed is another matter.
  std::vector<In> in(n, static_cast<In>(sizeof(In) == 4 ? 1 : 0x3c00));
  std::vector<Out> out(n);
  for (auto _ : state) {
    function(in.data(), out.data(), n);
    benchmark::DoNotOptimize(out.data());
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(n * (sizeof(In) + sizeof(Out))));
}

BENCHMARK_CAPTURE(convert, bfloat16_to_float, mobius::convert_bfloat16_to_float);
BENCHMARK_CAPTURE(convert, float16_to_float, mobius::convert_float16_to_float);
BENCHMARK_CAPTURE(convert, float_to_bfloat16, mobius::convert_float_to_bfloat16);
BENCHMARK_CAPTURE(convert, float_to_float16, mobius::convert_float_to_float16);
BENCHMARK_CAPTURE(convert, bfloat16_to_float16, mobius::convert_bfloat16_to_float16);
BENCHMARK_CAPTURE(convert, float16_to_bfloat16, mobius::convert_float16_to_bfloat16);

}  // namespace
