// A .safetensors file: named tensors as views into the mapped file.
//
//   auto file = SafetensorsFile::open("model.safetensors");
//   for (const SafetensorsEntry& e : file->entries()) fmt::print("{} {}\n", e.name, e.dtype);
//   ir::TensorPtr w = file->tensor("model.norm.weight");       // nothing is read yet
//
// Layout: u64 length of the header, the header (a JSON object: name -> dtype, shape, data_offsets), then the bytes of all
// tensors without gaps. Source: the format description of github.com/huggingface/safetensors.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "mobius/base/file.hpp"
#include "mobius/ir/tensor_data.hpp"

namespace mobius::formats {

struct SafetensorsEntry {
  std::string name;
  std::string dtype;                 // as the file spells it: "BF16"
  std::optional<ir::DataType> type;  // absent when this program has no such type
  ir::Dims dims;
  std::uint64_t offset = 0;  // in the file
  std::uint64_t length = 0;  // bytes
};

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> entries;  // sorted by name
  std::vector<std::pair<std::string, std::string>> metadata;
};

// Reads and checks the header at the start of a whole file's bytes. Errors: corrupt_file with what was found.
// An entry of an unknown dtype is kept: only asking for that tensor is an error.
SafetensorsHeader parse_safetensors(std::span<const std::byte> file);

class SafetensorsFile {
 public:
  // Errors of MappedFile::open and parse_safetensors; each names the file.
  static std::shared_ptr<const SafetensorsFile> open(const fs::path& path);

  const fs::path& path() const { return file_->path(); }
  std::uint64_t size() const { return file_->size(); }
  const std::vector<SafetensorsEntry>& entries() const { return header_.entries; }
  const std::vector<std::pair<std::string, std::string>>& metadata() const { return header_.metadata; }

  const SafetensorsEntry* find(std::string_view name) const;  // nullptr when absent
  // nullptr when absent. Error unsupported when its dtype is one that this program has no type for.
  ir::TensorPtr tensor(std::string_view name) const;

 private:
  SafetensorsFile() = default;
  std::shared_ptr<const MappedFile> file_;
  SafetensorsHeader header_;
};

}  // namespace mobius::formats
