// Units.
#include "cli/format.hpp"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>

namespace mobius::cli {
namespace {

// Three significant digits and the unit that makes the number less than a thousand.
std::string scaled(std::uint64_t number, const std::array<std::string_view, 5>& units) {
  auto value = static_cast<double>(number);
  std::size_t unit = 0;
  while (value >= 999.5 && unit + 1 < units.size()) {
    value /= 1000;
    ++unit;
  }
  const int decimals = unit == 0 || value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
  return fmt::format("{:.{}f}{}{}", value, decimals, units[unit].empty() ? "" : " ", units[unit]);
}

}  // namespace

std::string with_separators(std::uint64_t number) {
  std::string digits = std::to_string(number);
  for (std::size_t at = digits.size(); at > 3;) digits.insert(at -= 3, ",");
  return digits;
}

std::string human_size(std::uint64_t bytes) { return scaled(bytes, {"bytes", "kB", "MB", "GB", "TB"}); }
std::string human_count(std::uint64_t number) { return scaled(number, {"", "K", "M", "B", "T"}); }

std::string human_time(double seconds) {
  const auto s = static_cast<std::uint64_t>(std::llround(std::min(std::max(seconds, 0.0), 1e9)));
  if (s < 60) return fmt::format("{} s", s);
  if (s < 3600) return fmt::format("{}:{:02}", s / 60, s % 60);
  return fmt::format("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60);
}

std::string exact_time(double seconds) {
  const auto three_digits = [](double value) { return fmt::format("{:.{}f}", value, value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2); };
  if (seconds < 0.9995) return three_digits(1000 * std::max(seconds, 0.0)) + " ms";
  return seconds < 59.95 ? three_digits(seconds) + " s" : human_time(seconds);
}

namespace {

// The length of the UTF-8 character that the text begins with; 0 when it is none. Overlong forms and surrogates are none.
std::size_t utf8_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
  const auto continues = [&](std::size_t i) { return (byte(i) & 0xc0u) == 0x80u; };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  if (first >= 0xc2 && first <= 0xdf) return continues(1) ? 2 : 0;
  if (first >= 0xe0 && first <= 0xef) {
    const bool fits = (first != 0xe0 || byte(1) >= 0xa0) && (first != 0xed || byte(1) <= 0x9f);
    return fits && continues(1) && continues(2) ? 3 : 0;
  }
  if (first >= 0xf0 && first <= 0xf4) {
    const bool fits = (first != 0xf0 || byte(1) >= 0x90) && (first != 0xf4 || byte(1) <= 0x8f);
    return fits && continues(1) && continues(2) && continues(3) ? 4 : 0;
  }
  return 0;
}

}  // namespace

std::string printable(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    const auto first = static_cast<unsigned char>(text.front());
    const bool is_control = (length == 1 && first != '\n' && (first < 0x20 || first == 0x7f)) || (length == 2 && first == 0xc2 && (text[1] & 0x60) == 0);
    if (length == 0 || is_control) out += fmt::format("\\x{:02x}", first);
    else out += text.substr(0, length);
    text.remove_prefix(length == 0 || is_control ? 1 : length);
  }
  return out;
}

std::optional<std::uint64_t> parse_size(std::string_view text) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || number == 0) return std::nullopt;
  std::string unit;
  for (const char c : text.substr(static_cast<std::size_t>(end - text.data()))) {
    if (c != ' ' || !unit.empty()) unit += c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  }
  static constexpr std::array<std::pair<std::string_view, std::uint64_t>, 14> units = {{{"", 1},
                                                                                        {"b", 1},
                                                                                        {"k", 1000},
                                                                                        {"kb", 1000},
                                                                                        {"m", 1000'000},
                                                                                        {"mb", 1000'000},
                                                                                        {"g", 1000'000'000},
                                                                                        {"gb", 1000'000'000},
                                                                                        {"t", 1000'000'000'000},
                                                                                        {"tb", 1000'000'000'000},
                                                                                        {"kib", 1ull << 10},
                                                                                        {"mib", 1ull << 20},
                                                                                        {"gib", 1ull << 30},
                                                                                        {"tib", 1ull << 40}}};
  for (const auto& [name, factor] : units) {
    std::uint64_t bytes = 0;
    if (name == unit) return __builtin_mul_overflow(number, factor, &bytes) ? std::nullopt : std::optional(bytes);
  }
  return std::nullopt;
}

}  // namespace mobius::cli
