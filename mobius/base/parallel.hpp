// parallel_for: a loop over independent items on all cores.
//
//   parallel_for(chunks.size(), [&](std::size_t i) { write(chunks[i]); });
//
// Items are taken in order, so what is written first is read first. The first exception stops the loop and is rethrown here.
#pragma once
#include <cstddef>
#include <functional>

namespace mobius {

// Number of threads a loop uses: MOBIUS_THREADS, or set_thread_count, or the cores this process may run on.
std::size_t thread_count();
void set_thread_count(std::size_t n);  // 0 = automatic

void parallel_for(std::size_t n, const std::function<void(std::size_t)>& body);

}  // namespace mobius
