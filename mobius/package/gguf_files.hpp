// The small files of a GGUF model that a Hugging Face folder would have beside the weights.
//
//   GgufFiles f = files_from_gguf(*gguf);
//   build(f.config);
//   for (const auto& [name, content] : f.files) write_text_file(package / name, content);
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "mobius/base/json.hpp"
#include "mobius/formats/gguf.hpp"

namespace mobius::package {

struct GgufFiles {
  Json config;             // config.json, not among `files`: a package has its own
  Json generation_config;  // also among `files`
  // generation_config.json, tokenizer.json, tokenizer_config.json, special_tokens_map.json, chat_template.jinja (when there is one)
  std::vector<std::pair<std::string, std::string>> files;
};

// Errors of config_from_gguf and tokenizer_from_gguf. A file without a tokenizer gives no tokenizer files.
GgufFiles files_from_gguf(const formats::GgufFile& gguf);

}  // namespace mobius::package
