// A signal only sets a flag; the loops that take long look at it.
#include "cli/cancel.hpp"

#include <csignal>

#include "mobius/base/error.hpp"

namespace mobius::cli {
namespace {

volatile std::sig_atomic_t caught = 0;

void remember(int signal) {
  caught = signal;
  std::signal(signal, SIG_DFL);
}

}  // namespace

void catch_signals() {
  std::signal(SIGINT, remember);
  std::signal(SIGTERM, remember);
  // These would end the program before it could clean up; ignored, the failing write says what is wrong.
#ifdef SIGXFSZ
  std::signal(SIGXFSZ, SIG_IGN);
#endif
#ifdef SIGPIPE
  std::signal(SIGPIPE, SIG_IGN);
#endif
}

void stop_if_cancelled() {
  if (caught != 0) fail(ErrorKind::cancelled, "{}", caught == SIGINT ? "interrupted" : "terminated");
}

int cancelled_exit_code() { return caught == 0 ? 1 : 128 + static_cast<int>(caught); }

}  // namespace mobius::cli
