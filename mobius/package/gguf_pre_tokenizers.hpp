// How byte-level BPE tokenizers split text before merging, by the names that tokenizer.ggml.pre has for it.
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "mobius/base/json.hpp"

namespace mobius::package {

struct PreTokenizer {
  Json normalizer;             // null for most
  Json pre_tokenizer;          // as in tokenizer.json
  bool ignore_merges = false;  // a word that is a token is taken whole
  bool add_bos = false;        // unless the file says otherwise

  bool operator==(const PreTokenizer&) const = default;
};

// nullopt when the name is not known.
std::optional<PreTokenizer> pre_tokenizer(std::string_view name);
std::string known_pre_tokenizers();  // "command-r, dbrx, ..."

}  // namespace mobius::package
