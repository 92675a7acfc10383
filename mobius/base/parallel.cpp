// Threads live for one call: loops here run for seconds, and a pool would have to survive fork and interpreter exit.
#include "mobius/base/parallel.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "mobius/base/file.hpp"
#include "mobius/base/log.hpp"

#ifdef __linux__
#include <sched.h>
#endif

namespace mobius {
namespace {

constexpr std::size_t max_threads = 1024;

std::atomic<std::size_t> chosen_threads = 0;

// Loops inside a loop's body run inline: the outer loop already fills the cores.
thread_local bool inside_loop = false;

std::size_t allowed_cores() {
#ifdef __linux__
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) == 0) return static_cast<std::size_t>(std::max(1, CPU_COUNT(&set)));
#endif
  return std::max(1u, std::thread::hardware_concurrency());
}

// The processor share a container was given (cgroup v2), in cores; nullopt when unlimited or unknown.
std::optional<std::size_t> container_cores() {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen("/sys/fs/cgroup/cpu.max", "re"), [](std::FILE* f) { return std::fclose(f); });
  double quota = 0;
  double period = 0;
  if (!file || std::fscanf(file.get(), "%lf %lf", &quota, &period) != 2 || quota <= 0 || period <= 0) return std::nullopt;
  return static_cast<std::size_t>(std::clamp(std::ceil(quota / period), 1.0, static_cast<double>(max_threads)));
}

std::size_t automatic_threads() {
  static const std::optional<std::size_t> share = container_cores();
  return std::min(allowed_cores(), share.value_or(max_threads));
}

std::optional<std::size_t> threads_from_environment() {
  const auto text = environment("MOBIUS_THREADS");
  if (!text || text->empty()) return std::nullopt;
  const bool digits = text->size() <= 6 && std::all_of(text->begin(), text->end(), [](char c) { return c >= '0' && c <= '9'; });
  if (!digits) {
    static std::once_flag once;
    std::call_once(once, [&] { logging::warning("MOBIUS_THREADS is '{}', expected a number; ignored", *text); });
    return std::nullopt;
  }
  const std::size_t n = std::stoul(*text);
  return n == 0 ? std::nullopt : std::optional(n);
}

// What the threads of one loop share.
class Loop {
 public:
  Loop(std::size_t n, const std::function<void(std::size_t)>& body) : n_(n), body_(body) {}

  void run() {
    const bool before = inside_loop;
    inside_loop = true;
    for (std::size_t i = next_++; i < n_ && !stopped_; i = next_++) {
      try {
        body_(i);
      } catch (...) {
        const std::lock_guard lock(mutex_);
        if (!error_) error_ = std::current_exception();
        stopped_ = true;
      }
    }
    inside_loop = before;
  }

  void rethrow() const {
    if (error_) std::rethrow_exception(error_);
  }

 private:
  std::size_t n_;
  const std::function<void(std::size_t)>& body_;
  std::atomic<std::size_t> next_ = 0;
  std::atomic<bool> stopped_ = false;
  std::mutex mutex_;
  std::exception_ptr error_;
};

}  // namespace

std::size_t thread_count() {
  if (const std::size_t chosen = chosen_threads; chosen != 0) return std::min(chosen, max_threads);
  return std::min(threads_from_environment().value_or(automatic_threads()), max_threads);
}

void set_thread_count(std::size_t n) { chosen_threads = n; }

void parallel_for(std::size_t n, const std::function<void(std::size_t)>& body) {
  const std::size_t threads = n <= 1 || inside_loop ? 1 : std::min(n, thread_count());
  if (threads <= 1) {
    for (std::size_t i = 0; i < n; ++i) body(i);
    return;
  }
  Loop loop(n, body);
  std::vector<std::jthread> helpers;
  helpers.reserve(threads - 1);
  try {
    while (helpers.size() + 1 < threads) helpers.emplace_back([&loop] { loop.run(); });
  } catch (const std::system_error&) {
    // The system gives no more threads: those we have do the work.
  }
  loop.run();
  helpers.clear();
  loop.rethrow();
}

}  // namespace mobius
