// A GGUF model: one file, or the files of a split model, as metadata and lazy tensors.
//
//   auto gguf = GgufFile::open("SmolLM2-135M-Instruct.Q4_1.gguf");
//   gguf->integer("llama.block_count");                                    // 30
//   ir::TensorPtr w = gguf->tensor("blk.0.attn_q.weight");                // float32, dequantised when read
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mobius/base/file.hpp"
#include "mobius/formats/gguf_header.hpp"

namespace mobius::formats {

class GgufFile {
 public:
  // Opens a file, and when it is the first of a split model ("name-00001-of-00003.gguf") the others beside it.
  // Errors: not_found naming the missing part; invalid_argument when a later part is given; those of parse_gguf. Each names the file.
  static std::shared_ptr<const GgufFile> open(const fs::path& path);

  const std::vector<std::shared_ptr<const MappedFile>>& files() const { return files_; }
  const std::vector<std::pair<std::string, GgufValue>>& metadata() const { return header_.metadata; }
  const std::string& architecture() const { return architecture_; }  // general.architecture, "" when absent

  // A metadata value; absent or nullptr when the key is. Error corrupt_file when the value is of another kind.
  // integer() and number() take either kind of number; strings() and the others an array of that kind.
  const GgufValue* find(std::string_view key) const { return header_.find(key); }
  std::optional<std::int64_t> integer(std::string_view key) const;
  std::optional<double> number(std::string_view key) const;
  std::optional<bool> boolean(std::string_view key) const;
  const std::string* string(std::string_view key) const;
  const std::vector<std::string>* strings(std::string_view key) const;
  const std::vector<std::int64_t>* integers(std::string_view key) const;
  const std::vector<double>* numbers(std::string_view key) const;

  const std::vector<GgufTensorInfo>& tensors() const { return header_.tensors; }  // of all files, in order
  const GgufTensorInfo* find_tensor(std::string_view name) const;                 // nullptr when absent
  // Plain types keep their dtype, quantised ones are float32. nullptr when absent. Error unsupported, by name, for types that
  // can't be dequantised.
  ir::TensorPtr tensor(std::string_view name) const;

 private:
  GgufFile() = default;
  void add_parts(const fs::path& first, std::int64_t count);

  std::vector<std::shared_ptr<const MappedFile>> files_;
  GgufHeader header_;  // of the first file, with the tensors of all
  std::vector<std::size_t> by_name_;
  std::string architecture_;
};

}  // namespace mobius::formats
