// The tokenizer of a GGUF model as Hugging Face tokenizer files.
//
//   GgufTokenizer t = tokenizer_from_gguf(*gguf);
//   t.tokenizer.dump();                              // tokenizer.json, as the `tokenizers` library reads it
//
// tokenizer.ggml.model "gpt2" is a byte-level BPE whose splitting rule is named by tokenizer.ggml.pre (gguf_pre_tokenizers.hpp);
// "llama" is SentencePiece BPE: its merges are recovered from the vocabulary and its scores.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "mobius/base/json.hpp"
#include "mobius/formats/gguf.hpp"

namespace mobius::package {

struct GgufTokenizer {
  Json tokenizer;             // tokenizer.json
  Json tokenizer_config;      // tokenizer_config.json, with the chat template
  Json special_tokens_map;    // special_tokens_map.json
  std::string chat_template;  // "" when there is none
};

// Errors: unsupported, by name, for other tokenizer models and splitting rules; corrupt_file when the lists contradict each other.
GgufTokenizer tokenizer_from_gguf(const formats::GgufFile& gguf);

// Ids of tokens with a meaning. Ids outside the vocabulary are dropped with a warning, as llama.cpp does.
struct GgufSpecialTokens {
  std::optional<std::int64_t> bos, eos, unk, pad;
  std::vector<std::int64_t> ends;  // eos first, then the other tokens that end a turn, ascending
};
GgufSpecialTokens special_tokens_of(const formats::GgufFile& gguf);

// Pairs to merge, best first, recovered from the pieces of a SentencePiece vocabulary: each way to put a piece together from two
// others. Higher score first; equal ones by longer left, then longer right part (as transformers' generate_merges).
// `can_merge[i]`: piece i may be the result or a part of a merge.
std::vector<std::pair<std::string, std::string>> merges_of(const std::vector<std::string>& pieces, const std::vector<double>& scores,
                                                           const std::vector<bool>& can_merge);

}  // namespace mobius::package
