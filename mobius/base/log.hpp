// Messages to the user of the library. Nothing is printed by default below `warning`; a sink decides where lines go.
//
//   logging::warning("{} is not a key this model type knows; ignored", key);
//   logging::Sink old = logging::set_sink([](logging::Level l, std::string_view line) { ... });
#pragma once
#include <fmt/core.h>

#include <functional>
#include <string_view>

namespace mobius::logging {

enum class Level { debug, info, warning };

using Sink = std::function<void(Level, std::string_view line)>;

// Replaces the process-wide sink and returns the one before. The default writes warnings to standard error. A sink may be called
// from several threads at once. An empty sink brings the default back.
Sink set_sink(Sink sink);

void write(Level level, std::string_view line);

template <class... Args>
void debug(fmt::format_string<Args...> f, Args&&... args) {
  write(Level::debug, fmt::vformat(f, fmt::make_format_args(args...)));
}
template <class... Args>
void info(fmt::format_string<Args...> f, Args&&... args) {
  write(Level::info, fmt::vformat(f, fmt::make_format_args(args...)));
}
template <class... Args>
void warning(fmt::format_string<Args...> f, Args&&... args) {
  write(Level::warning, fmt::vformat(f, fmt::make_format_args(args...)));
}

}  // namespace mobius::logging
