// What commands that write files say.
#pragma once
#include <string>
#include <vector>

#include "mobius/base/json.hpp"
#include "mobius/package/package.hpp"

namespace mobius::cli {

// Notes go to standard error, so that standard output holds the result alone.
void send_log_to_stderr(bool shows_info);

std::uint64_t total_size(const std::vector<WrittenFile>& files);
void print_table(const std::vector<WrittenFile>& files);
Json files_json(const std::vector<WrittenFile>& files);

}  // namespace mobius::cli
