// Terminals of POSIX systems; elsewhere nothing is taken for one.
#include "mobius/base/terminal.hpp"

#if defined(__unix__) || defined(__APPLE__)
#include <fcntl.h>
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

void keep_standard_streams_apart() {
#if defined(__unix__) || defined(__APPLE__)
  // The lowest free number is taken, which is this one: those below are open by now.
  for (int stream = STDIN_FILENO; stream <= STDERR_FILENO; ++stream) {
    if (::fcntl(stream, F_GETFD) < 0 && ::open("/dev/null", O_RDONLY) < 0) return;
  }
#endif
}

}  // namespace mobius
