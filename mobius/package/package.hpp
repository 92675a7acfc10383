// ModelPackage: one or more ONNX graphs with the files that a runtime needs beside them.
//
//   package.components()[0].model                  // "model" for a decoder-only language model
//   package.save("out", {.force = true});
//
// On disk: model.onnx (one component) or <component>/model.onnx, each with its data file, beside config.json, generation_config.json,
// tokenizer files, LICENSE. A package is written to a temporary sibling and put in place in one step: a failed or killed save leaves
// what was there before.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <variant>
#include <vector>

#include "mobius/base/file.hpp"
#include "mobius/base/json.hpp"
#include "mobius/tasks/component.hpp"

namespace mobius {

// A file beside the graphs: its text, or where to copy it from.
struct PackageFile {
  std::string name;
  std::variant<std::string, fs::path> content;
};

struct SaveOptions {
  std::string external_data = "onnx";          // "onnx" (model.onnx.data) or "safetensors"
  std::uint64_t max_shard_size = 0;            // of safetensors files, bytes; 0: one file
  bool force = false;                          // replace a folder that is not a package
  std::function<void(std::uint64_t done, std::uint64_t total)> progress = {};  // bytes of weights; may throw Error cancelled
};

struct WrittenFile {
  std::string name;  // relative to the package
  std::uint64_t size;
};

class ModelPackage {
 public:
  std::vector<Component>& components() { return components_; }
  const std::vector<Component>& components() const { return components_; }
  std::vector<PackageFile>& files() { return files_; }
  const std::vector<PackageFile>& files() const { return files_; }
  Component* find(std::string_view name);

  Json config;                     // the model's config.json
  bool has_weights = true;
  std::vector<fs::path> sources;   // what it was built from: never written to

  // What save would write, with exact sizes; nothing is written and no weight is read.
  std::vector<WrittenFile> plan(const SaveOptions& options = {}) const;

  // Errors: io (not writable, disk full: bytes needed and free), invalid_argument (the folder exists and is no package; it is the
  // source). Returns what was written.
  std::vector<WrittenFile> save(const fs::path& folder, const SaveOptions& options = {}) const;

 private:
  std::vector<Component> components_;
  std::vector<PackageFile> files_;
};

}  // namespace mobius
