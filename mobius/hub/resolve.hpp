// From what the user calls a model to where it lies on this machine.
//
//   hub::resolve("models/Qwen2.5-0.5B").path;                    // that folder
//   hub::resolve("SmolLM2-135M.Q4_1.gguf").path;                 // that file
//   hub::resolve("Qwen/Qwen2.5-0.5B").path;                      // ~/.cache/huggingface/hub/models--Qwen--Qwen2.5-0.5B/snapshots/1a2b...
//   hub::resolve("Qwen/Qwen2.5-0.5B@v1.0").revision;             // the commit that the tag or branch v1.0 stands for
//
// The cache's layout: models--ORG--NAME/refs/REVISION holds a commit hash, snapshots/HASH holds the files (links into blobs/).
// Source: the guide "Manage your cache" of huggingface_hub.
#pragma once
#include <string>
#include <string_view>

#include "mobius/base/file.hpp"

namespace mobius::hub {

struct ModelSource {
  fs::path path;         // a folder or a file that exists
  std::string name;      // the model id, or the folder's or file's name: never a path
  std::string revision;  // the commit of a snapshot in the cache; else ""
};

// A path that exists comes before an id. `revision` (a branch, tag or commit) may also be written behind the id: org/name@revision.
// Errors: not_found (no such path and no such model in the cache: says how to get it; the revision is not there, with those that are),
// invalid_argument (neither a path nor a model id; a revision given for a path, or two of them).
ModelSource resolve(std::string_view model, std::string_view revision = {});

// Where the cache is: $HF_HUB_CACHE, $HUGGINGFACE_HUB_CACHE, $HF_HOME/hub, $XDG_CACHE_HOME/huggingface/hub, ~/.cache/huggingface/hub.
fs::path cache_folder();

}  // namespace mobius::hub
