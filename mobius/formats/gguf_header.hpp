// What stands at the start of a GGUF file: metadata (keys with typed values) and the list of tensors.
//
//   GgufHeader h = parse_gguf(file->bytes());
//   if (const GgufValue* v = h.find("general.architecture")) ...
//
// GGUF versions 2 and 3, little-endian. Source: docs/gguf.md of github.com/ggml-org/ggml.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "mobius/formats/ggml_types.hpp"
#include "mobius/ir/tensor_data.hpp"

namespace mobius::formats {

struct GgufArray;

// One metadata value. Integers of all widths are int64 (uint64 beyond its range is refused). A float32 is read as the decimal
// number it stands for: 1e-05 and not 9.999999747378752e-06.
using GgufValue = std::variant<std::int64_t, double, bool, std::string, GgufArray>;

// All elements have one type; the vector of that type is filled, the others are empty.
struct GgufArray {
  std::vector<std::int64_t> integers;  // also booleans, as 0 and 1
  std::vector<double> numbers;
  std::vector<std::string> strings;
  std::vector<GgufArray> arrays;
  std::uint64_t size = 0;
};

std::string_view kind(const GgufValue& value);  // "an integer", "a string", "an array", ...

struct GgufTensorInfo {
  std::string name;
  std::uint32_t type = 0;    // a ggml type, perhaps one this program does not know
  ir::Dims dims;             // as PyTorch has them: the reverse of the file's order
  std::uint64_t offset = 0;  // in its file
  std::uint64_t length = 0;  // bytes; 0 when the type is unknown
  std::size_t file = 0;      // which of the files of a split model
};

struct GgufHeader {
  std::uint32_t version = 0;
  std::uint64_t alignment = 32;
  std::vector<std::pair<std::string, GgufValue>> metadata;  // in the file's order
  std::vector<GgufTensorInfo> tensors;                      // in the file's order

  const GgufValue* find(std::string_view key) const;  // nullptr when absent
};

// Reads and checks the start of a whole file's bytes. Errors: corrupt_file with the byte and what was read there; unsupported for
// version 1 and big-endian files.
GgufHeader parse_gguf(std::span<const std::byte> file);

}  // namespace mobius::formats
