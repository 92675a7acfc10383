// The two ends of a decoder, whose weight may be one.
#include "mobius/components/decoder.hpp"

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace mobius {

Embedding token_embedding(const Scope& at, const DecoderConfig& cfg, const Scope& head) {
  std::vector<std::string> other_names;
  if (cfg.tie_word_embeddings) other_names.push_back((head / "weight").path());
  return {at, cfg.vocab_size, cfg.hidden_size, std::move(other_names)};
}

Linear vocabulary_head(const Scope& at, const DecoderConfig& cfg, const Embedding& embedding, bool bias) {
  if (!cfg.tie_word_embeddings) return {at, cfg.hidden_size, cfg.vocab_size, bias};
  return {at, embedding.weight(), bias ? std::optional(Parameter(at / "bias", {cfg.vocab_size})) : std::nullopt};
}

}  // namespace mobius
