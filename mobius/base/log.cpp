// The process-wide log sink.
#include "mobius/base/log.hpp"

#include <cstdio>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

namespace mobius::logging {
namespace {

void write_to_stderr(Level level, std::string_view line) {
  if (level != Level::warning) return;
  // One call, so that lines of several threads do not mix.
  const std::string text = fmt::format("warning: {}\n", line);
  std::fwrite(text.data(), 1, text.size(), stderr);
}

struct State {
  std::mutex mutex;
  std::shared_ptr<const Sink> sink = std::make_shared<const Sink>(write_to_stderr);
};

State& state() {
  static State instance;
  return instance;
}

}  // namespace

Sink set_sink(Sink sink) {
  auto next = std::make_shared<const Sink>(sink ? std::move(sink) : Sink(write_to_stderr));
  const std::lock_guard lock(state().mutex);
  std::swap(state().sink, next);
  return *next;
}

void write(Level level, std::string_view line) {
  std::shared_ptr<const Sink> sink;
  {
    const std::lock_guard lock(state().mutex);
    sink = state().sink;
  }
  // Called without the lock: a sink may itself log, or wait for a lock (Python's) whose holder logs.
  (*sink)(level, line);
}

}  // namespace mobius::logging
