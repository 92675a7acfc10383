// Writes ONNX models: model.onnx and, beside it, the weights.
//
//   write_onnx(model, "out", "model.onnx", {});                                       // model.onnx + model.onnx.data
//   write_onnx(model, "out", "model.onnx", {.external = WriteOptions::External::safetensors, .max_shard_size = 5'000'000'000});
//   for (const auto& [name, size] : plan_onnx(model, {}).files) ...                   // what would be written; reads no weight
//   std::string bytes = serialize_onnx(model);                                        // everything inline
//
// Weights are evaluated while they are written, in chunks, on all threads; memory does not grow with the model. The bytes
// written do not depend on the number of threads. Files appear complete or not at all, also when they replace the files that the
// model's own weights are mapped from.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "mobius/base/file.hpp"
#include "mobius/ir/model.hpp"

namespace mobius::formats {

struct WriteOptions {
  enum class External { onnx, safetensors };

  External external = External::onnx;
  // "" stands for file_name + ".data", or for the file name's stem + ".safetensors".
  std::string data_name = {};
  // Of one .safetensors file; more data goes to stem-00001-of-0000N.safetensors and so on, with an index. 0 = no limit. A tensor is never split.
  std::uint64_t max_shard_size = 0;
  // Smaller initializers stay inside the .onnx file; so do strings and integer lists of at most 64 elements (shapes).
  std::uint64_t inline_limit = 1024;
  std::uint64_t alignment = 64;  // of tensors in .data, a power of two; in .safetensors tensors lie without gaps, the widest types first
  // false: offsets and lengths are stated, but no data file is written. Weights need not be bound then.
  bool write_data = true;
  // Files that lie beside the model already, by location: tensors whose bytes are in them unchanged are referred to there, not written
  // again. Format onnx only.
  std::map<std::string, std::shared_ptr<const MappedFile>> in_place = {};
  bool value_info = false;  // also the types of values between nodes: larger, and runtimes infer them anyway
  // Called with the bytes written so far, from one thread at a time. May throw to stop.
  std::function<void(std::uint64_t done, std::uint64_t total)> progress = {};
};

struct OnnxPlan {
  struct File {
    std::string name;
    std::uint64_t size;
  };
  std::vector<File> files;             // the model, then its data
  std::vector<std::string> refers_to;  // of WriteOptions::in_place, those that hold the rest; sorted

  std::uint64_t total_size() const;
};

// Errors: invalid_argument when the model does not fit into a protobuf message (2 GiB), naming what is large.
OnnxPlan plan_onnx(const ir::Model& model, const WriteOptions& options, std::string_view file_name = "model.onnx");

// Makes the folder when it is absent. Initializers of equal identity are stored once.
// Errors: as plan_onnx; not_found when weights are not bound; io; what `progress` throws. No file is left half-written.
void write_onnx(const ir::Model& model, const fs::path& folder, std::string_view file_name, const WriteOptions& options);

std::string serialize_onnx(const ir::Model& model, bool value_info = false);

}  // namespace mobius::formats
