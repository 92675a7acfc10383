// What an option is called by whoever gave it, for messages.
//
//   fail(ErrorKind::invalid_argument, "{} exists; {} replaces it", path, option_name("force"));     // "force"; for the program's user: "--force"
//
// Options have one name in C++ and Python. The program says once, at its start, that its users know them as flags.
#pragma once
#include <string>
#include <string_view>

namespace mobius {

std::string option_name(std::string_view option);

// From here on, for the whole process: option_name("ignore_extra") is "--ignore-extra".
void call_options_flags();

}  // namespace mobius
