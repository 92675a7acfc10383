// For tests: writes small GGUF files, and can write wrong ones.
//
//   GgufWriter w;
//   w.set("general.architecture", "llama").set("llama.block_count", 2);
//   w.tensor("token_embd.weight", 0, {8, 4}, bytes);          // dims as PyTorch has them
//   TempFolder folder;
//   auto gguf = GgufFile::open(folder.write("x.gguf", w.bytes()));
#pragma once
#include <unistd.h>

#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "mobius/base/file.hpp"
#include "mobius/formats/ggml_types.hpp"
#include "mobius/ir/tensor_data.hpp"

namespace mobius::formats {

class GgufWriter {
 public:
  std::uint32_t version = 3;
  std::uint64_t alignment = 32;
  std::string magic = "GGUF";

  template <class T>
  static void append(std::string& out, T value) {
    char raw[sizeof(T)];
    std::memcpy(raw, &value, sizeof(T));
    out.append(raw, sizeof(T));
  }
  static void append_text(std::string& out, std::string_view text) {
    append<std::uint64_t>(out, text.size());
    out += text;
  }

  GgufWriter& raw(std::string_view key, std::uint32_t type, std::string_view value) {
    append_text(metadata_, key);
    append(metadata_, type);
    metadata_ += value;
    ++keys_;
    return *this;
  }
  GgufWriter& set(std::string_view key, std::string_view value) {
    std::string bytes;
    append_text(bytes, value);
    return raw(key, 8, bytes);
  }
  GgufWriter& set(std::string_view key, const char* value) { return set(key, std::string_view(value)); }
  GgufWriter& set(std::string_view key, int value) { return number<std::uint32_t>(key, 4, static_cast<std::uint32_t>(value)); }
  GgufWriter& set(std::string_view key, float value) { return number(key, 6, value); }
  GgufWriter& set(std::string_view key, bool value) { return number<std::uint8_t>(key, 7, value); }
  GgufWriter& set(std::string_view key, const std::vector<std::string>& values) {
    std::string bytes = array(8, values.size());
    for (const std::string& v : values) append_text(bytes, v);
    return raw(key, 9, bytes);
  }
  GgufWriter& set(std::string_view key, const std::vector<int>& values) {
    std::string bytes = array(5, values.size());
    for (int v : values) append<std::int32_t>(bytes, v);
    return raw(key, 9, bytes);
  }
  GgufWriter& set(std::string_view key, const std::vector<float>& values) {
    std::string bytes = array(6, values.size());
    for (float v : values) append(bytes, v);
    return raw(key, 9, bytes);
  }
  template <class T>
  GgufWriter& number(std::string_view key, std::uint32_t type, T value) {
    std::string bytes;
    append(bytes, value);
    return raw(key, type, bytes);
  }

  // A tensor of any type with its bytes; `offset` is what the file says, by default where the bytes are.
  GgufWriter& tensor(std::string_view name, std::uint32_t type, const ir::Dims& dims, std::string_view bytes, std::int64_t offset = -1) {
    data_.resize((data_.size() + alignment - 1) / alignment * alignment);
    append_text(tensors_, name);
    append<std::uint32_t>(tensors_, static_cast<std::uint32_t>(dims.size()));
    for (auto d = dims.rbegin(); d != dims.rend(); ++d) append<std::uint64_t>(tensors_, static_cast<std::uint64_t>(*d));
    append(tensors_, type);
    append<std::uint64_t>(tensors_, offset < 0 ? data_.size() : static_cast<std::uint64_t>(offset));
    data_ += bytes;
    ++count_;
    return *this;
  }
  // A float32 tensor whose elements are first, first + 1, ...
  GgufWriter& floats(std::string_view name, const ir::Dims& dims, float first = 0) {
    std::string bytes;
    const std::int64_t n = ir::element_count(dims);
    for (std::int64_t i = 0; i < n; ++i) append(bytes, first + static_cast<float>(i));
    return tensor(name, 0, dims, bytes);
  }

  std::string bytes() const {
    std::string out = magic;
    append(out, version);
    append<std::uint64_t>(out, count_);
    append<std::uint64_t>(out, keys_);
    out += metadata_ + tensors_;
    out.resize((out.size() + alignment - 1) / alignment * alignment);
    return out + data_;
  }

 private:
  static std::string array(std::uint32_t type, std::size_t size) {
    std::string bytes;
    append(bytes, type);
    append<std::uint64_t>(bytes, size);
    return bytes;
  }

  std::string metadata_, tensors_, data_;
  std::uint64_t keys_ = 0, count_ = 0;
};

// A folder that is gone at the end of the test.
class TempFolder {
 public:
  TempFolder() {
    std::string name = (fs::temp_directory_path() / "mobius_test_XXXXXX").string();
    path_ = mkdtemp(name.data());
  }
  ~TempFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  const fs::path& path() const { return path_; }
  fs::path write(const fs::path& name, std::string_view content) const {
    fs::create_directories((path_ / name).parent_path());
    write_text_file(path_ / name, content);
    return path_ / name;
  }

 private:
  fs::path path_;
};

}  // namespace mobius::formats
