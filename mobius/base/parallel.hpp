// parallel_for: a loop over independent items on all cores.
//
//   parallel_for(chunks.size(), [&](std::size_t i) { write(chunks[i]); });
//
// Items are taken in order, so what is written first is read first. The first exception stops the loop and is rethrown here.
#pragma once
#include <cstddef>
#include <functional>

namespace mobius {

// Number of threads a loop uses: what set_thread_count said, or MOBIUS_THREADS, or the cores this process may run on (its
// affinity and its container's processor share).
std::size_t thread_count();
void set_thread_count(std::size_t n);  // 0 = automatic

// A loop inside another's body runs on the thread it was called on.
void parallel_for(std::size_t n, const std::function<void(std::size_t)>& body);

}  // namespace mobius
