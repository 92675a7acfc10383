// Drawing progress, at most ten times a second.
#include "cli/progress.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <vector>

#include "cli/format.hpp"
#include "mobius/base/terminal.hpp"

namespace mobius::cli {
namespace {

using namespace std::chrono_literals;

constexpr auto redraw_every = 100ms;
constexpr auto line_every = 10s;  // where lines stay
constexpr int smallest_bar = 8;

}  // namespace

Progress::Progress() : on_terminal_(is_terminal(stderr)), next_(start_ + (on_terminal_ ? Clock::duration(redraw_every) : line_every)) {}

void Progress::show(std::uint64_t done, std::uint64_t total) {
  const auto now = Clock::now();
  const std::lock_guard lock(mutex_);
  if (now < next_) return;
  next_ = now + (on_terminal_ ? Clock::duration(redraw_every) : line_every);
  const double seconds = std::chrono::duration<double>(now - start_).count();
  const std::string line = progress_line(done, total, seconds, on_terminal_ ? std::max(1, terminal_width(stderr) - 1) : 0);
  // "\x1b[K" clears what a longer line before has left.
  const std::string text = on_terminal_ ? "\r" + line + "\x1b[K" : line + "\n";
  std::fwrite(text.data(), 1, text.size(), stderr);
  drawn_ = on_terminal_;
}

void Progress::finish() {
  const std::lock_guard lock(mutex_);
  if (drawn_) std::fputs("\r\x1b[K", stderr);
  drawn_ = false;
}

std::string progress_line(std::uint64_t done, std::uint64_t total, double seconds, int width) {
  const double share = total == 0 ? 1 : std::min(1.0, static_cast<double>(done) / static_cast<double>(total));
  const double rate = seconds > 0 ? static_cast<double>(done) / seconds : 0;
  std::vector<std::string> numbers = {fmt::format("{} of {}", human_size(done), human_size(total))};
  if (rate > 0) {
    const double left = static_cast<double>(total - std::min(done, total)) / rate;
    numbers.push_back(human_size(static_cast<std::uint64_t>(rate)) + "/s");
    numbers.push_back(human_time(left) + " left");
  }
  const std::string head = "writing weights";
  const auto all = fmt::format("{}", fmt::join(numbers, "  "));
  const int bar = width - static_cast<int>(head.size() + all.size()) - 6;
  if (bar >= smallest_bar) {
    const auto full = static_cast<std::size_t>(share * bar);
    return fmt::format("{}  [{}{}]  {}", head, std::string(full, '='), std::string(static_cast<std::size_t>(bar) - full, ' '), all);
  }
  std::string line = fmt::format("{}  {:3.0f} %", head, 100 * share);
  for (const auto& number : numbers) {
    if (width == 0 || line.size() + 2 + number.size() <= static_cast<std::size_t>(width)) line += "  " + number;
  }
  return width == 0 || line.size() <= static_cast<std::size_t>(width) ? line : fmt::format("{:.0f} %", 100 * share);
}

}  // namespace mobius::cli
