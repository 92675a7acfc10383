// Lists of files, and where notes go.
#include "cli/output.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "cli/format.hpp"
#include "mobius/base/log.hpp"

namespace mobius::cli {

void send_log_to_stderr(bool shows_info) {
  logging::set_sink([shows_info](logging::Level level, std::string_view line) {
    if (level == logging::Level::debug || (level == logging::Level::info && !shows_info)) return;
    const std::string text = fmt::format("{}{}\n", level == logging::Level::warning ? "mobius: warning: " : "", printable(line));
    std::fwrite(text.data(), 1, text.size(), stderr);
  });
}

std::uint64_t total_size(const std::vector<WrittenFile>& files) {
  std::uint64_t total = 0;
  for (const auto& file : files) total += file.size;
  return total;
}

void print_table(const std::vector<WrittenFile>& files) {
  std::size_t name_width = 5;
  const std::size_t size_width = with_separators(total_size(files)).size();
  for (const auto& file : files) name_width = std::max(name_width, file.name.size());
  for (const auto& file : files) fmt::print("  {:<{}}  {:>{}}\n", file.name, name_width, with_separators(file.size), size_width);
  fmt::print("  {:<{}}  {:>{}}  bytes ({})\n", "total", name_width, with_separators(total_size(files)), size_width, human_size(total_size(files)));
}

Json files_json(const std::vector<WrittenFile>& files) {
  Json list = Json::Array{};
  for (const auto& file : files) list.push_back(Json::Object{{"name", file.name}, {"size", file.size}});
  return list;
}

}  // namespace mobius::cli
