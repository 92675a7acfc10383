// Ids by key from the configs, else by the token's text from the tokenizer's files.
#include "mobius/package/genai_tokens.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <span>

#include "mobius/base/error.hpp"
#include "mobius/base/log.hpp"

namespace mobius::package {
namespace {

using Ids = std::vector<std::int64_t>;

// What one or several files say of a kind of token. Ids may be empty although something is said: that there is none.
struct Said {
  bool anything = false;
  Ids ids;
};

constexpr std::string_view with_ids[] = {"generation_config.json", "config.json"};
constexpr std::string_view with_names[] = {"tokenizer_config.json", "special_tokens_map.json"};

// The key itself, or in the language model's part of a config with several.
const Json* find(const Json& config, std::string_view key) {
  if (const auto* value = config.find(key)) return value;
  const auto* text = config.find("text_config");
  return text ? text->find(key) : nullptr;
}

Ids ids_of(const Json& value, std::string_view file, std::string_view key) {
  if (value.is_null()) return {};
  if (value.is_int()) return {value.as_int()};
  const bool is_list = value.is_array() && std::ranges::all_of(value.as_array(), &Json::is_int);
  if (!is_list) fail(ErrorKind::invalid_argument, "{}: {} is {}, expected an integer or a list of integers", file, key, value.kind());
  Ids ids;
  for (const auto& id : value.as_array()) ids.push_back(id.as_int());
  return ids;
}

// -1 stands for "none" in older configs.
void add(Said& said, const Ids& ids, std::string_view file, std::string_view key, std::int64_t vocab_size) {
  said.anything = true;
  for (const auto id : ids) {
    if (id >= vocab_size) logging::warning("{}: {} {} is outside the vocabulary of {}; left out", file, key, id, vocab_size);
    else if (id >= 0 && std::ranges::find(said.ids, id) == said.ids.end()) said.ids.push_back(id);
  }
}

// "</s>", or {"content": "</s>", ...}; null says that there is none.
std::optional<std::string> text_of(const Json& token) {
  const auto* content = token.find("content");
  const Json& text = content ? *content : token;
  return text.is_string() ? std::optional(text.as_string()) : std::nullopt;
}

std::optional<std::int64_t> id_in_decoder(const Json& config, std::string_view token) {
  const auto* decoder = config.find("added_tokens_decoder");
  if (!decoder || !decoder->is_object()) return std::nullopt;
  for (const auto& [key, entry] : decoder->as_object()) {
    std::int64_t id = 0;
    const auto end = key.data() + key.size();
    if (text_of(entry) == token && std::from_chars(key.data(), end, id).ptr == end) return id;
  }
  return std::nullopt;
}

// {"</s>": 2, ...}, or Unigram's [["</s>", score], ...].
std::optional<std::int64_t> id_in_vocabulary(const Json& vocabulary, std::string_view token) {
  if (const auto* id = vocabulary.find(token); id && id->is_int()) return id->as_int();
  if (!vocabulary.is_array()) return std::nullopt;
  const auto& pieces = vocabulary.as_array();
  const auto is_token = [&](const Json& piece) { return piece.is_array() && !piece.as_array().empty() && piece.as_array().front() == Json(token); };
  const auto it = std::ranges::find_if(pieces, is_token);
  return it == pieces.end() ? std::nullopt : std::optional<std::int64_t>(it - pieces.begin());
}

std::optional<std::int64_t> id_in_tokenizer(const Json& tokenizer, std::string_view token) {
  if (const auto* added = tokenizer.find("added_tokens"); added && added->is_array()) {
    for (const auto& entry : added->as_array()) {
      if (const auto* id = entry.find("id"); id && id->is_int() && text_of(entry) == token) return id->as_int();
    }
  }
  const auto* model = tokenizer.find("model");
  const auto* vocabulary = model ? model->find("vocab") : nullptr;
  return vocabulary ? id_in_vocabulary(*vocabulary, token) : std::nullopt;
}

struct Vocabulary {
  std::string_view file;
  std::optional<std::int64_t> (*id)(const Json&, std::string_view token);
};
constexpr Vocabulary with_vocabulary[] = {
    {"tokenizer_config.json", id_in_decoder}, {"tokenizer.json", id_in_tokenizer}, {"added_tokens.json", id_in_vocabulary}, {"vocab.json", id_in_vocabulary}};

std::optional<std::int64_t> id_of(const Companions& files, std::string_view token) {
  for (const auto& [name, id_in] : with_vocabulary) {
    const auto* file = files.json(name);
    if (!file) continue;
    if (const auto id = id_in(*file, token)) return id;
  }
  return std::nullopt;
}

// `kind` is "eos", "bos" or "pad". The tokenizer is asked only where the configs name no id.
Said said_of(const Companions& files, std::string_view kind, std::int64_t vocab_size) {
  Said said;
  const std::string key = fmt::format("{}_token_id", kind), name = fmt::format("{}_token", kind);
  for (const auto file : with_ids) {
    const auto* config = files.json(file);
    if (const auto* value = config ? find(*config, key) : nullptr) add(said, ids_of(*value, file, key), file, key, vocab_size);
  }
  for (const auto file : with_names) {
    const auto* config = said.ids.empty() ? files.json(file) : nullptr;
    const auto* token = config ? config->find(name) : nullptr;
    if (!token) continue;
    const auto text = text_of(*token);
    const auto id = text ? id_of(files, *text) : std::nullopt;
    if (id || token->is_null()) add(said, id ? Ids{*id} : Ids{}, file, name, vocab_size);
  }
  return said;
}

[[noreturn]] void fail_missing(const Companions& files, std::string_view kind) {
  std::string looked;
  const auto add_file = [&](std::string_view name) {
    looked += fmt::format("{}{}{}", looked.empty() ? "" : ", ", name, name == "config.json" || files.has(name) ? "" : " (absent)");
  };
  for (const auto name : with_ids) add_file(name);
  for (const auto name : with_names) add_file(name);
  for (const auto& vocabulary : std::span(with_vocabulary).subspan(1)) add_file(vocabulary.file);
  fail(ErrorKind::not_found, "ONNX Runtime GenAI needs {0}_token_id, which no file tells; looked at {1}. Add it to generation_config.json", kind, looked);
}

}  // namespace

TokenIds token_ids(const Companions& files, std::int64_t vocab_size) {
  TokenIds result;
  result.eos = said_of(files, "eos", vocab_size).ids;
  if (result.eos.empty()) fail_missing(files, "eos");
  const auto pad = said_of(files, "pad", vocab_size).ids;
  result.pad = pad.empty() ? result.eos.front() : pad.front();
  const auto bos = said_of(files, "bos", vocab_size);
  if (!bos.anything) fail_missing(files, "bos");
  if (!bos.ids.empty()) result.bos = bos.ids.front();
  return result;
}

}  // namespace mobius::package
