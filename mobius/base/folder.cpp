// What is at a path, and in a folder.
#include "mobius/base/folder.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <system_error>

#include "mobius/base/error.hpp"

namespace mobius {
namespace {

std::vector<std::string> entries(const fs::path& folder, std::error_code& error) {
  std::vector<std::string> names;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) names.push_back(it->path().filename().string());
  std::ranges::sort(names);
  return names;
}

}  // namespace

std::vector<std::string> entries_of(const fs::path& folder) {
  std::error_code error;
  auto names = entries(folder, error);
  if (error) fail(ErrorKind::io, "{}: {}", folder.string(), error.message());
  return names;
}

std::vector<std::string> readable_entries_of(const fs::path& folder) {
  std::error_code ignored;
  return entries(folder, ignored);
}

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

bool is_mount_point(const fs::path& folder) {
  struct stat own {
  }, above{};
  return ::stat(folder.c_str(), &own) == 0 && ::stat((folder / "..").c_str(), &above) == 0 && own.st_dev != above.st_dev;
}

}  // namespace mobius
