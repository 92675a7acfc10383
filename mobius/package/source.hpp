// Source: the model that a package is built from, found and read as far as its graph is concerned.
//
//   Source source = read_source("Qwen/Qwen2.5-0.5B", "");
//   source.config                       // of config.json, or rebuilt from a GGUF file's metadata
//   source.identity()                   // "sha256:1a2b3c...": tells this content from others; the commit for a snapshot of the Hub
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "mobius/base/json.hpp"
#include "mobius/package/package.hpp"

namespace mobius::package {

struct Source {
  fs::path path;         // the folder, or the file that was named
  fs::path weights;      // what Checkpoint::open takes
  std::string name;      // the model id, or the folder's or file's name
  std::string revision;  // of a snapshot in the Hub's cache, else ""
  bool is_gguf = false;
  Json config;
  std::string config_place;         // for messages: the path of config.json or of the GGUF file
  std::vector<PackageFile> files;   // what goes into the package beside the graphs
  std::vector<fs::path> originals;  // the folder or file, and what its links point to: not to be written to

  // The revision, or a hash of config.json and of the weight files' names, sizes, and first and last 64 KiB.
  std::string identity() const;
};

// Errors: those of hub::resolve, of reading config.json or GGUF metadata; not_found, unsupported: the folder holds no model, or
// something else (an adapter, a pipeline, another format), which is named.
Source read_source(const std::string& model, const std::string& revision);
// The config.json of a package, as a source without weights. Errors: not_found (the package has none), corrupt_file.
Source source_of_package(const fs::path& folder);

}  // namespace mobius::package
