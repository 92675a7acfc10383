// Any bytes as a .safetensors file: an Error or a header whose views lie inside the file.
#include <cstdint>
#include <cstdlib>

#include "mobius/base/error.hpp"
#include "mobius/formats/safetensors.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) try {
  const auto header = mobius::formats::parse_safetensors({reinterpret_cast<const std::byte*>(data), size});
  std::uint64_t total = 0;
  for (const auto& entry : header.entries) {
    if (entry.offset > size || entry.length > size - entry.offset) std::abort();
    if (entry.type && mobius::ir::byte_size(*entry.type, static_cast<std::uint64_t>(mobius::ir::element_count(entry.dims))) != entry.length) std::abort();
    total += entry.length;
  }
  if (total > size) std::abort();
  return 0;
} catch (const mobius::Error&) {
  return 0;
}
