// Numbers as people read them.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace mobius::cli {

std::string with_separators(std::uint64_t number);  // "1,234,567"
std::string human_size(std::uint64_t bytes);        // "1.23 GB", powers of 1000
std::string human_count(std::uint64_t number);      // "135 M", "1.24 B"
std::string human_time(double seconds);             // "7 s", "2:05", "1:02:05"
std::string exact_time(double seconds);             // "0.62 ms", "140 ms", "2.28 s", "2:05"
// "5GB", "500 MB", "1GiB", "4096": bytes. nullopt for anything else, and for 0.
std::optional<std::uint64_t> parse_size(std::string_view text);

// Text from outside (names of tensors, bytes of files) as it may go to a terminal: control characters and what is not UTF-8 become
// \xNN. Line breaks stay.
std::string printable(std::string_view text);

}  // namespace mobius::cli
