// What the program's output goes to: a terminal, whose lines can be redrawn, or a file or pipe.
//
//   if (is_terminal(stderr)) fmt::print(stderr, "\r{:<{}}", line, terminal_width(stderr));
#pragma once
#include <cstdio>

namespace mobius {

bool is_terminal(std::FILE* stream);
int terminal_width(std::FILE* stream);  // columns; 80 where unknown

// Where the program was started with a standard stream closed, the next file opened would take its place, and be written to by whoever
// prints. This gives each closed one a stand-in that can't be written. To be called before any file is opened.
void keep_standard_streams_apart();

}  // namespace mobius
