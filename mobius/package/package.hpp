// ModelPackage: one or more ONNX graphs with the files that a runtime needs beside them.
//
//   package.components()[0].model                  // "model" for a decoder-only language model
//   package.save("out", {.force = true});
//   package.save("out", {.runtime = "ort-genai"});  // with genai_config.json
//   auto again = load_package("out");
//
// On disk: model.onnx (the one component "model") or <component>/model.onnx, each with its data file, beside config.json,
// generation_config.json, tokenizer files, LICENSE. A package is written to a temporary sibling and put in place in one step: a failed
// or killed save leaves what was there before, and the next save removes what a killed one left.
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
  std::string external_data = "onnx";                                          // "onnx" (model.onnx.data) or "safetensors"
  std::uint64_t max_shard_size = 0;                                            // of safetensors files, bytes; 0: one file
  std::string runtime = {};                                                    // "ort-genai": also what ONNX Runtime GenAI needs (runtime_names)
  std::int64_t context_length = 0;                                             // of the runtime: tokens of prompt and answer; 0: the model's
  bool force = false;                                                          // replace a folder that is no package, or holds other files too
  std::function<void(std::uint64_t done, std::uint64_t total)> progress = {};  // bytes of weights; may throw Error cancelled
};

std::vector<std::string> runtime_names();  // what SaveOptions::runtime takes, besides ""

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
  Component* find(std::string_view name);                       // nullptr when absent
  std::string folder_of(const Component& component) const;      // "", or "decoder/" for a component in a folder of its own
  std::string model_file_of(const Component& component) const;  // "model.onnx", "decoder/model.onnx"

  Json config;  // the model's config.json
  bool has_weights = true;
  std::vector<fs::path> sources;  // what it was built from, folders and files: never written to
  std::string described;          // package::fingerprint of the graphs that a runtime's files among `files` describe; others are not saved with them

  // What save would write, with exact sizes; nothing is written and no weight is read.
  std::vector<WrittenFile> plan(const SaveOptions& options = {}) const;

  // Whether save may write there, without writing anything: throws what save would.
  void check_target(const fs::path& folder, const SaveOptions& options = {}) const;

  // A folder may be new, empty, or a package that holds nothing else; others need `force`. Missing parents are made.
  // Errors: io (not writable, disk full: bytes needed and free), invalid_argument (the folder is something else; it is, holds or
  // lies in what the package was built from), cancelled; unsupported, not_found: the runtime can't run this package, or needs
  // something that no file tells. Returns what was written.
  std::vector<WrittenFile> save(const fs::path& folder, const SaveOptions& options = {}) const;

 private:
  std::vector<Component> components_;
  std::vector<PackageFile> files_;
};

// ── packages on disk ──

// A model file of a package: "model.onnx" of component "model", "decoder/model.onnx" of component "decoder".
struct PackagedModel {
  std::string component;
  fs::path path;
};

// The model files that this program wrote into a folder, told by their metadata; empty when it is no package.
std::vector<PackagedModel> packaged_models(const fs::path& folder);

// A package that was saved; weights are mapped, not read. Saved without weights, it waits for them by their names in the checkpoint; where config.json
// doesn't lead to the same graph again (a module of one's own), by those in the graph. Errors: not_found (no package there, a data file is
// missing), corrupt_file.
ModelPackage load_package(const fs::path& folder);

}  // namespace mobius
