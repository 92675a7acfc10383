// genai_config.json: how ONNX Runtime GenAI runs a package.
//
//   Json config = genai_config(package, Companions(package), {});
//   config.at("model").at("type").as_string();         // "llama", or "decoder" for what the runtime has no name for
//
// Written are only keys that the runtime knows: it refuses others.
#pragma once
#include "mobius/base/json.hpp"
#include "mobius/package/companions.hpp"
#include "mobius/package/package.hpp"

namespace mobius::package {

struct GenaiOptions {
  std::int64_t context_length = 0;  // tokens, prompt and answer together; 0: what the model has
};

// Errors: unsupported, the runtime can't run this package (says why); not_found, something that the runtime needs is in no file
// (names the files looked at); invalid_argument, the context length, or a value in a file.
Json genai_config(const ModelPackage& package, const Companions& files, const GenaiOptions& options);

}  // namespace mobius::package
