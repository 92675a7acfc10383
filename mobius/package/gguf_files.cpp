// Puts config and tokenizer together.
#include "mobius/package/gguf_files.hpp"

#include "mobius/package/gguf_config.hpp"
#include "mobius/package/gguf_tokenizer.hpp"

namespace mobius::package {

GgufFiles files_from_gguf(const formats::GgufFile& gguf) {
  GgufFiles result;
  result.config = config_from_gguf(gguf);
  result.generation_config = generation_config_from_gguf(gguf);
  result.files.emplace_back("generation_config.json", result.generation_config.dump(2) + "\n");
  const std::string* model = gguf.string("tokenizer.ggml.model");
  if (!model || *model == "none") return result;

  const GgufTokenizer tokenizer = tokenizer_from_gguf(gguf);
  result.files.emplace_back("tokenizer.json", tokenizer.tokenizer.dump(2) + "\n");
  result.files.emplace_back("tokenizer_config.json", tokenizer.tokenizer_config.dump(2) + "\n");
  result.files.emplace_back("special_tokens_map.json", tokenizer.special_tokens_map.dump(2) + "\n");
  if (!tokenizer.chat_template.empty()) result.files.emplace_back("chat_template.jinja", tokenizer.chat_template);
  return result;
}

}  // namespace mobius::package
