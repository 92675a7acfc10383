// The version of this program, as CMakeLists.txt states it.
#pragma once
#include <string_view>

namespace mobius {

std::string_view version();  // "0.1.0"

}  // namespace mobius
