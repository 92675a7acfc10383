// What the program's output goes to: a terminal, whose lines can be redrawn, or a file or pipe.
#pragma once
#include <cstdio>

namespace mobius {

bool is_terminal(std::FILE* stream);
int terminal_width(std::FILE* stream);  // columns; 80 where unknown

}  // namespace mobius
