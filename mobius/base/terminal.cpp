// Terminals of POSIX systems; elsewhere nothing is taken for one.
#include "mobius/base/terminal.hpp"

#if defined(__unix__) || defined(__APPLE__)
#include <sys/ioctl.h>
#include <unistd.h>
#endif

namespace mobius {

bool is_terminal([[maybe_unused]] std::FILE* stream) {
#if defined(__unix__) || defined(__APPLE__)
  return ::isatty(::fileno(stream)) == 1;
#else
  return false;
#endif
}

int terminal_width([[maybe_unused]] std::FILE* stream) {
#if defined(__unix__) || defined(__APPLE__)
  struct winsize size {};
  if (::ioctl(::fileno(stream), TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
#endif
  return 80;
}

}  // namespace mobius
