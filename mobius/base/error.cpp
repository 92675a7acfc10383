#include "mobius/base/error.hpp"

#include <fmt/format.h>

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

void fail_with(ErrorKind kind, fmt::string_view format, fmt::format_args args) { throw Error(kind, fmt::vformat(format, args)); }

}  // namespace mobius
