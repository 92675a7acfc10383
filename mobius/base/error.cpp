#include "mobius/base/error.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace mobius {

std::string_view to_string(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::invalid_argument: return "invalid argument";
    case ErrorKind::not_found: return "not found";
    case ErrorKind::unsupported: return "unsupported";
    case ErrorKind::corrupt_file: return "corrupt file";
    case ErrorKind::io: return "input/output";
    case ErrorKind::cancelled: return "cancelled";
    case ErrorKind::internal: return "internal";
  }
  return "unknown";
}

namespace {

// Messages quote names from files, which may hold anything: what a terminal would obey, or what would end the text, is written out.
std::string printable(std::string text) {
  const auto is_control = [](char c) { return (static_cast<unsigned char>(c) < ' ' && c != '\n') || c == 127; };
  if (std::ranges::none_of(text, is_control)) return text;
  std::string out;
  for (const char c : text) {
    if (is_control(c)) out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    else out += c;
  }
  return out;
}

}  // namespace

void fail_with(ErrorKind kind, fmt::string_view format, fmt::format_args args) { throw Error(kind, printable(fmt::vformat(format, args))); }

}  // namespace mobius
