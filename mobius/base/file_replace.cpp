// Atomic replacement of files and folders, and the temporary siblings that stand in for them meanwhile.
#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "mobius/base/error.hpp"
#include "mobius/base/file.hpp"
#include "mobius/base/log.hpp"

namespace mobius {
namespace {

constexpr std::string_view suffix = ".tmp";

// Absolute and without "." or a trailing slash, so that it has a name and a parent.
fs::path with_name(const fs::path& target) {
  fs::path path = fs::absolute(target).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();
  if (!path.has_filename()) fail(ErrorKind::invalid_argument, "{}: cannot be replaced", target.string());
  return path;
}

// Of a long name its beginning, in whole characters: the sibling's name has to be one that file systems take (255 bytes).
std::string prefix_of(const fs::path& target) {
  std::string name = target.filename().string();
  if (constexpr std::size_t longest = 200; name.size() > longest) {
    auto end = longest;
    while (end > 0 && (static_cast<unsigned char>(name[end]) & 0xC0) == 0x80) --end;
    name.resize(end);
  }
  return "." + name + ".";
}

bool exists_or_dangles(const fs::path& path) {
  std::error_code ignored;
  const auto type = fs::symlink_status(path, ignored).type();
  return type != fs::file_type::not_found && type != fs::file_type::none;  // none: not even a possible name
}

// The process that made a sibling named `name`, or nullopt for names that are not of the pattern.
std::optional<pid_t> owner_of(std::string_view name, std::string_view prefix) {
  if (!name.starts_with(prefix) || !name.ends_with(suffix) || name.size() < prefix.size() + suffix.size()) return std::nullopt;
  const std::string_view middle = name.substr(prefix.size(), name.size() - prefix.size() - suffix.size());
  const auto is_number = [](std::string_view s) {
    return !s.empty() && s.size() <= 9 && std::all_of(s.begin(), s.end(), [](char c) { return c >= '0' && c <= '9'; });
  };
  const std::size_t dot = middle.find('.');
  if (dot != std::string_view::npos && !is_number(middle.substr(dot + 1))) return std::nullopt;
  const std::string_view pid = middle.substr(0, dot);
  if (!is_number(pid)) return std::nullopt;
  return static_cast<pid_t>(std::stol(std::string(pid)));
}

bool is_alive(pid_t pid) { return pid <= 0 || ::kill(pid, 0) == 0 || errno != ESRCH; }

// The new output is in place already; what could not be removed is worth a word, not a failure.
void remove_quietly(const fs::path& path) {
  std::error_code error;
  fs::remove_all(path, error);
  if (error) logging::warning("{}: cannot remove: {}", path.string(), error.message());
}

bool exchange([[maybe_unused]] const fs::path& a, [[maybe_unused]] const fs::path& b) {
#ifdef RENAME_EXCHANGE
  return ::renameat2(AT_FDCWD, a.c_str(), AT_FDCWD, b.c_str(), RENAME_EXCHANGE) == 0;
#else
  errno = ENOSYS;
  return false;
#endif
}

[[noreturn]] void fail_replacing(const fs::path& target, const std::error_code& error) {
  fail(ErrorKind::io, "{}: cannot be replaced: {}", target.string(), error.message());
}

// For file systems that cannot exchange: there is a moment in which only the old one, set aside, exists.
void replace_by_moving_aside(const fs::path& replacement, const fs::path& target) {
  const fs::path aside = temporary_sibling(target);
  std::error_code error;
  fs::rename(target, aside, error);
  if (error) fail_replacing(target, error);
  fs::rename(replacement, target, error);
  if (error) {
    std::error_code ignored;
    fs::rename(aside, target, ignored);
    fail_replacing(target, error);
  }
  remove_quietly(aside);
}

}  // namespace

void replace_path(const fs::path& replacement, const fs::path& target) {
  const fs::path from = with_name(replacement);
  const fs::path to = with_name(target);
  if (!exists_or_dangles(from)) fail(ErrorKind::not_found, "{}: does not exist, expected the replacement of {}", from.string(), to.string());
  if (!exists_or_dangles(to)) {
    std::error_code error;
    fs::rename(from, to, error);
    if (error) fail_replacing(to, error);
    return;
  }
  // A device or a pipe is no place for a file: what is there is not ours to take away.
  if (fs::is_other(fs::status(to))) fail(ErrorKind::invalid_argument, "{}: is neither a file nor a folder, and is not replaced", to.string());
  if (exchange(from, to)) return remove_quietly(from);
  if (errno != EINVAL && errno != ENOSYS && errno != EOPNOTSUPP) fail_replacing(to, std::error_code(errno, std::generic_category()));
  replace_by_moving_aside(from, to);
}

fs::path temporary_sibling(const fs::path& target) {
  const fs::path path = with_name(target);
  const fs::path folder = path.parent_path();
  if (::access(folder.c_str(), W_OK | X_OK) != 0) {
    fail(ErrorKind::io, "{}: cannot write to this folder: {}", folder.string(), std::generic_category().message(errno));
  }
  const std::string stem = prefix_of(path) + std::to_string(::getpid());
  fs::path candidate = folder / (stem + std::string(suffix));
  for (int n = 1; exists_or_dangles(candidate); ++n) candidate = folder / fmt::format("{}.{}{}", stem, n, suffix);
  return candidate;
}

void remove_stale_siblings(const fs::path& target) {
  const fs::path path = with_name(target);
  const std::string prefix = prefix_of(path);
  std::error_code error;
  std::vector<fs::path> stale;
  for (fs::directory_iterator it(path.parent_path(), error), end; !error && it != end; it.increment(error)) {
    const auto owner = owner_of(it->path().filename().string(), prefix);
    if (owner && !is_alive(*owner)) stale.push_back(it->path());
  }
  for (const fs::path& entry : stale) remove_quietly(entry);
}

}  // namespace mobius
