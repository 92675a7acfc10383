#include "mobius/base/option_name.hpp"

#include <algorithm>
#include <atomic>

namespace mobius {
namespace {

std::atomic<bool> are_flags = false;

}  // namespace

std::string option_name(std::string_view option) {
  std::string name(option);
  if (!are_flags) return name;
  std::ranges::replace(name, '_', '-');
  return "--" + name;
}

void call_options_flags() { are_flags = true; }

}  // namespace mobius
