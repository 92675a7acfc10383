// config.json and generation_config.json of a GGUF model, rebuilt from its metadata.
//
//   Json config = config_from_gguf(*gguf);      // {"model_type": "llama", "hidden_size": 576, ...} with Hugging Face's keys
//
// Everything the file says about the model's shape is written, also where it is the default. What llama.cpp has as a literal per
// architecture (Gemma's attention scale, SmolLM3's layers without rope) is written as that literal.
#pragma once
#include "mobius/base/json.hpp"
#include "mobius/formats/gguf.hpp"

namespace mobius::package {

// Errors: unsupported for an architecture that is not known, or a setting that can't be expressed; corrupt_file when a key that the
// architecture needs is absent or contradicts the tensors.
Json config_from_gguf(const formats::GgufFile& gguf);

// bos, eos (all tokens that end a turn) and pad ids.
Json generation_config_from_gguf(const formats::GgufFile& gguf);

}  // namespace mobius::package
