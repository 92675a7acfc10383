// The special tokens of genai_config.json, from whatever file of the package tells them.
//
//   const TokenIds ids = token_ids(Companions(package), 49152);
//   ids.eos                                   // {2, 0}: generation_config.json's first, then those that config.json adds
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "mobius/package/companions.hpp"

namespace mobius::package {

struct TokenIds {
  std::optional<std::int64_t> bos;  // absent: the files say that there is none
  std::vector<std::int64_t> eos;    // at least one; generation ends at any of them
  std::int64_t pad = 0;             // the first of eos where no file names one
};

// Ids outside the vocabulary are left out with a warning: the runtime would look them up in the embedding table.
// Errors: not_found when eos is missing, or no file says anything about bos; names the files looked at.
TokenIds token_ids(const Companions& files, std::int64_t vocab_size);

}  // namespace mobius::package
