// How far writing has come, on standard error: a bar that is redrawn on a terminal, a line now and then elsewhere.
//
//   Progress progress;
//   package.save(out, {.progress = [&](std::uint64_t done, std::uint64_t total) { progress.show(done, total); }});
//   progress.finish();
//
//   writing weights  [=============>              ]  1.17 of 2.47 GB   1.8 GB/s   1 s left
#pragma once
#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>

namespace mobius::cli {

class Progress {
 public:
  Progress();
  ~Progress() { finish(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void show(std::uint64_t done, std::uint64_t total);  // from any thread
  void finish();                                       // removes the bar

 private:
  using Clock = std::chrono::steady_clock;

  std::mutex mutex_;
  bool on_terminal_;
  bool drawn_ = false;
  Clock::time_point start_ = Clock::now();
  Clock::time_point next_;
};

// The line for a state. In `width` columns there is a bar in what is left, if that is not too little, and only as many numbers as fit; 0: any width.
std::string progress_line(std::uint64_t done, std::uint64_t total, double seconds, int width);

}  // namespace mobius::cli
