// Ctrl-C and termination: the work in progress is undone, then the program ends. A second signal ends it at once.
#pragma once

namespace mobius::cli {

void catch_signals();
void stop_if_cancelled();   // throws Error cancelled after a signal
int cancelled_exit_code();  // 130 (SIGINT) or 143 (SIGTERM); 1 when there was no signal

}  // namespace mobius::cli
