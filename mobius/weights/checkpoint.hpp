// Checkpoint: the weights of a model as named lazy tensors, wherever they are stored.
//
//   Checkpoint c = Checkpoint::open("models/Qwen2.5-0.5B");        // a folder, or a .gguf or .safetensors file
//   ir::TensorPtr w = c.find("model.norm.weight");                  // a view; nullptr when absent
//   c.origin("model.norm.weight");                                   // "model-00002-of-00002.safetensors", for messages
//
// A folder holds model.safetensors, or model.safetensors.index.json with its shards, or one GGUF model. Tensors of a GGUF model have
// their Hugging Face names and layouts (see gguf_names.hpp).
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "mobius/base/file.hpp"
#include "mobius/ir/tensor_data.hpp"

namespace mobius::formats {
class GgufFile;
class SafetensorsFile;
}  // namespace mobius::formats

namespace mobius::weights {

// What identifies the weights, as far as that is known without reading them.
struct Provenance {
  std::string revision;                                      // of a snapshot in the Hub cache; else ""
  std::vector<std::pair<std::string, std::uint64_t>> files;  // names and sizes in bytes, sorted by name

  std::string text() const;  // "revision 1a2b...: model.safetensors (269060552 bytes)"
};

class Checkpoint {
 public:
  // Errors, one clear message each: not_found (no such path; no weights in the folder; a shard or part is missing, with what it should
  // hold), unsupported (weights only in pickle files; a LoRA adapter instead of a model; a GGUF architecture that is not known),
  // corrupt_file (a file contradicts its format; the index names tensors that its shards do not hold).
  static Checkpoint open(const fs::path& path);

  Checkpoint(Checkpoint&&) noexcept;
  Checkpoint& operator=(Checkpoint&&) noexcept;
  ~Checkpoint();

  const std::vector<std::string>& names() const { return names_; }  // sorted
  bool contains(std::string_view name) const;

  // nullptr when absent. Error unsupported when the tensor's stored type is one that can't be read. Safe from many threads.
  ir::TensorPtr find(std::string_view name) const;
  // The name of the file that holds the tensor; "" when absent.
  std::string origin(std::string_view name) const;

  const Provenance& provenance() const { return provenance_; }
  const formats::GgufFile* gguf() const { return gguf_.get(); }  // nullptr unless this is a GGUF model

 private:
  Checkpoint() = default;
  void open_safetensors(const fs::path& path);
  void open_sharded(const fs::path& index);
  void open_gguf(const fs::path& path);
  void add_file(const fs::path& path, std::uint64_t size);
  std::size_t position(std::string_view name) const;  // names_.size() when absent

  struct GgufWeights;
  std::vector<std::string> names_;
  std::vector<std::size_t> file_of_;  // parallel to names_; an index into safetensors_
  std::vector<std::shared_ptr<const formats::SafetensorsFile>> safetensors_;
  std::shared_ptr<const formats::GgufFile> gguf_;
  std::unique_ptr<GgufWeights> gguf_weights_;
  Provenance provenance_;
};

}  // namespace mobius::weights
