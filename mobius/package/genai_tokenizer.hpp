// tokenizer_config.json as ONNX Runtime GenAI needs it.
//
//   if (auto config = genai_tokenizer_config(files)) write("tokenizer_config.json", *config);
//
// The runtime chooses an algorithm by tokenizer_class, and refuses classes that it doesn't know; it takes the chat template from
// this file first, where transformers prefers chat_template.jinja.
#pragma once
#include <optional>

#include "mobius/package/companions.hpp"

namespace mobius::package {

// Nothing when the file is right as it is, or the package has no tokenizer. Warns of a tokenizer that the runtime can't read:
// generating from ids needs none.
std::optional<Json> genai_tokenizer_config(const Companions& files);

}  // namespace mobius::package
