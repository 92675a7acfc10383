// The file this program runs from, as the operating system tells it.
#pragma once
#include <filesystem>

namespace mobius {

std::filesystem::path program_path();  // absolute; empty where unknown

}  // namespace mobius
