// The path of the running program on Linux, macOS and Windows.
#include "mobius/base/program.hpp"

#if defined(__APPLE__)
#include <mach-o/dyld.h>

#include <cstdint>
#include <string>
#elif defined(_WIN32)
#include <windows.h>
#endif

namespace mobius {

namespace fs = std::filesystem;

fs::path program_path() {
#if defined(__APPLE__)
  std::string buffer(4096, '\0');
  auto size = static_cast<std::uint32_t>(buffer.size());
  if (_NSGetExecutablePath(buffer.data(), &size) != 0) return {};
  std::error_code error;
  fs::path path = fs::canonical(buffer.c_str(), error);
  return error ? fs::path() : path;
#elif defined(_WIN32)
  wchar_t buffer[32768];
  const DWORD size = GetModuleFileNameW(nullptr, buffer, 32768);
  return size == 0 || size == 32768 ? fs::path() : fs::path(buffer, buffer + size);
#else
  std::error_code error;
  fs::path path = fs::read_symlink("/proc/self/exe", error);
  return error ? fs::path() : path;
#endif
}

}  // namespace mobius
