// Rebuilding tokenizer.json from vocabulary, token types, scores and merges.
#include "mobius/package/gguf_tokenizer.hpp"

#include <algorithm>
#include <tuple>
#include <unordered_map>
#include <unordered_set>

#include "mobius/base/error.hpp"
#include "mobius/base/log.hpp"
#include "mobius/package/gguf_pre_tokenizers.hpp"

namespace mobius::package {
namespace {

using formats::GgufFile;

constexpr std::string_view space = "\u2581";  // how SentencePiece writes a space
enum TokenType : std::int64_t { normal = 1, unknown = 2, control = 3, user_defined = 4, unused = 5, byte = 6 };

struct Vocabulary {
  std::vector<std::string> tokens;
  std::vector<std::int64_t> types;
  std::vector<double> scores;  // empty when the file has none

  bool is_padding(std::size_t i) const { return types[i] == unused && tokens[i] == fmt::format("[PAD{}]", i); }
};

Vocabulary vocabulary_of(const GgufFile& gguf) {
  Vocabulary v;
  const auto* tokens = gguf.strings("tokenizer.ggml.tokens");
  if (!tokens || tokens->empty()) fail(ErrorKind::corrupt_file, "metadata tokenizer.ggml.tokens is absent or empty");
  v.tokens = *tokens;
  if (const auto* types = gguf.integers("tokenizer.ggml.token_type")) v.types = *types;
  else v.types.assign(v.tokens.size(), normal);
  if (const auto* scores = gguf.numbers("tokenizer.ggml.scores")) v.scores = *scores;
  if (v.types.size() < v.tokens.size())
    fail(ErrorKind::corrupt_file, "tokenizer.ggml.token_type has {} entries for {} tokens", v.types.size(), v.tokens.size());
  if (!v.scores.empty() && v.scores.size() < v.tokens.size()) {
    fail(ErrorKind::corrupt_file, "tokenizer.ggml.scores has {} entries for {} tokens", v.scores.size(), v.tokens.size());
  }
  std::unordered_map<std::string_view, std::size_t> seen;
  for (std::size_t i = 0; i < v.tokens.size(); ++i) {
    if (v.tokens[i].empty()) v.tokens[i] = fmt::format("[EMPTY_{}]", i);
    const auto [first, is_new] = seen.emplace(v.tokens[i], i);
    if (!is_new) fail(ErrorKind::corrupt_file, "tokens {} and {} of the vocabulary are both \"{}\"", first->second, i, v.tokens[i]);
  }
  return v;
}

Json added_token(const std::string& content, std::int64_t id, bool special, bool rstrip = false) {
  return Json::Object{{"id", id},         {"content", content},  {"single_word", false}, {"lstrip", false},
                      {"rstrip", rstrip}, {"normalized", false}, {"special", special}};
}

// Tokens that are matched in the text before anything else.
Json::Array added_tokens(const Vocabulary& v, const std::unordered_set<std::size_t>& left_out, bool phi3) {
  Json::Array added;
  for (std::size_t i = 0; i < v.tokens.size(); ++i) {
    const bool special = v.types[i] == control || v.types[i] == unknown;
    if ((!special && v.types[i] != user_defined) || left_out.contains(i)) continue;
    // Phi-3's markers swallow the white space that follows them.
    const bool rstrip = phi3 && special && v.tokens[i] != "<unk>" && v.tokens[i] != "<s>" && v.tokens[i] != "<|endoftext|>";
    added.push_back(added_token(v.tokens[i], static_cast<std::int64_t>(i), special, rstrip));
  }
  return added;
}

Json vocab_json(const Vocabulary& v) {
  Json::Object vocab;
  vocab.reserve(v.tokens.size());
  for (std::size_t i = 0; i < v.tokens.size(); ++i) {
    if (!v.is_padding(i)) vocab.emplace_back(v.tokens[i], static_cast<std::int64_t>(i));
  }
  return vocab;
}

// "left right" as it is stored; the parts have no spaces in them.
std::vector<std::pair<std::string, std::string>> stored_merges(const std::vector<std::string>& merges) {
  std::vector<std::pair<std::string, std::string>> pairs;
  pairs.reserve(merges.size());
  for (const std::string& merge : merges) {
    const std::size_t at = merge.find(' ', 1);
    if (at == merge.npos || at + 1 == merge.size()) fail(ErrorKind::corrupt_file, "tokenizer.ggml.merges: \"{}\" is not two tokens", merge);
    pairs.emplace_back(merge.substr(0, at), merge.substr(at + 1));
  }
  return pairs;
}

void check_merges(const Vocabulary& v, const std::vector<std::pair<std::string, std::string>>& merges) {
  std::unordered_set<std::string_view> tokens(v.tokens.begin(), v.tokens.end());
  for (const auto& [left, right] : merges) {
    for (const std::string& token : {left, right, left + right}) {
      if (!tokens.contains(token))
        fail(ErrorKind::corrupt_file, "tokenizer.ggml.merges: \"{}\" + \"{}\", but \"{}\" is not in the vocabulary", left, right, token);
    }
  }
}

Json merges_json(const std::vector<std::pair<std::string, std::string>>& merges) {
  const bool has_spaces = std::any_of(merges.begin(), merges.end(), [](const auto& m) { return (m.first + m.second).find(' ') != std::string::npos; });
  Json::Array out;
  out.reserve(merges.size());
  for (const auto& [left, right] : merges) {
    if (has_spaces) out.emplace_back(Json::Array{left, right});
    else out.emplace_back(left + " " + right);
  }
  return out;
}

Json sequence(const char* key, Json::Array steps) { return Json::Object{{"type", "Sequence"}, {key, std::move(steps)}}; }
Json replace(std::string_view from, std::string_view to) {
  return Json::Object{{"type", "Replace"}, {"pattern", Json::Object{{"String", from}}}, {"content", to}};
}

// Adds bos before, eos after each text.
Json post_processor(const Vocabulary& v, std::optional<std::int64_t> bos, std::optional<std::int64_t> eos) {
  if (!bos && !eos) return nullptr;
  const auto text = [&](std::int64_t id) -> const std::string& { return v.tokens[static_cast<std::size_t>(id)]; };
  Json::Object specials;
  const auto wrap = [&](Json::Array& out, std::string_view part, int type_id) {
    const auto marker = [&](std::int64_t id) { return Json::Object{{"SpecialToken", Json::Object{{"id", text(id)}, {"type_id", type_id}}}}; };
    if (bos) out.emplace_back(marker(*bos));
    out.emplace_back(Json::Object{{"Sequence", Json::Object{{"id", part}, {"type_id", type_id}}}});
    if (eos) out.emplace_back(marker(*eos));
  };
  Json::Array single, pair;
  wrap(single, "A", 0);
  wrap(pair, "A", 0);
  wrap(pair, "B", 1);
  for (const auto& id : {bos, eos}) {
    if (id && !(id == eos && bos == eos && !specials.empty())) {
      specials.emplace_back(text(*id), Json::Object{{"id", text(*id)}, {"ids", Json::Array{*id}}, {"tokens", Json::Array{text(*id)}}});
    }
  }
  return Json::Object{{"type", "TemplateProcessing"}, {"single", single}, {"pair", pair}, {"special_tokens", specials}};
}

struct Parts {
  Json normalizer, pre_tokenizer, post_processor, decoder;
  Json::Array added;
  std::string unk;
  bool fuse_unk = false, byte_fallback = false, ignore_merges = false;
  bool add_bos = false, add_eos = false;
  std::string_view tokenizer_class;
};

Json tokenizer_json(const Vocabulary& v, Parts p, const std::vector<std::pair<std::string, std::string>>& merges) {
  check_merges(v, merges);
  Json::Object model{{"type", "BPE"},
                     {"dropout", nullptr},
                     {"unk_token", p.unk.empty() ? Json() : Json(p.unk)},
                     {"continuing_subword_prefix", nullptr},
                     {"end_of_word_suffix", nullptr},
                     {"fuse_unk", p.fuse_unk},
                     {"byte_fallback", p.byte_fallback},
                     {"ignore_merges", p.ignore_merges},
                     {"vocab", vocab_json(v)},
                     {"merges", merges_json(merges)}};
  return Json::Object{{"version", "1.0"},
                      {"truncation", nullptr},
                      {"padding", nullptr},
                      {"added_tokens", std::move(p.added)},
                      {"normalizer", std::move(p.normalizer)},
                      {"pre_tokenizer", std::move(p.pre_tokenizer)},
                      {"post_processor", std::move(p.post_processor)},
                      {"decoder", std::move(p.decoder)},
                      {"model", std::move(model)}};
}

void add_post_processor(const GgufFile& gguf, const Vocabulary& v, Parts& p, bool add_bos) {
  const GgufSpecialTokens ids = special_tokens_of(gguf);
  p.add_bos = gguf.boolean("tokenizer.ggml.add_bos_token").value_or(add_bos) && ids.bos;
  p.add_eos = gguf.boolean("tokenizer.ggml.add_eos_token").value_or(false) && ids.eos;
  p.post_processor = post_processor(v, p.add_bos ? ids.bos : std::nullopt, p.add_eos ? ids.eos : std::nullopt);
}

// tokenizer.ggml.model = "gpt2".
Json byte_level(const GgufFile& gguf, const Vocabulary& v, Parts& p) {
  const std::string* pre = gguf.string("tokenizer.ggml.pre");
  std::optional<PreTokenizer> rule = pre_tokenizer(pre ? std::string_view(*pre) : "default");
  if (!rule) fail(ErrorKind::unsupported, "tokenizer.ggml.pre is {}, which is not known; these are: {}", *pre, known_pre_tokenizers());
  if (!pre) logging::warning("the GGUF file does not say how its tokenizer splits text (tokenizer.ggml.pre); using llama.cpp's default");
  const auto* merges = gguf.strings("tokenizer.ggml.merges");
  if (!merges) fail(ErrorKind::corrupt_file, "metadata tokenizer.ggml.merges is absent");

  p.normalizer = std::move(rule->normalizer);
  p.pre_tokenizer = std::move(rule->pre_tokenizer);
  p.decoder = Json::Object{{"type", "ByteLevel"}, {"add_prefix_space", true}, {"trim_offsets", true}, {"use_regex", true}};
  p.ignore_merges = rule->ignore_merges;
  p.added = added_tokens(v, {}, false);
  p.tokenizer_class = "PreTrainedTokenizerFast";
  add_post_processor(gguf, v, p, rule->add_bos);
  return tokenizer_json(v, p, stored_merges(*merges));
}

// Gemma's runs of spaces are user-defined tokens spelled with real spaces; they become pieces that merges can reach, and their
// merges go by position: Gemma's scores do not follow its merge order.
std::unordered_set<std::size_t> respell_spaces(Vocabulary& v) {
  std::unordered_set<std::size_t> respelled;
  std::unordered_set<std::string> taken(v.tokens.begin(), v.tokens.end());
  for (std::size_t i = 0; i < v.tokens.size(); ++i) {
    if (v.types[i] != user_defined || v.tokens[i].find_first_not_of(' ') != std::string::npos) continue;
    std::string spelled;
    for (std::size_t n = 0; n < v.tokens[i].size(); ++n) spelled += space;
    if (!taken.insert(spelled).second) continue;
    v.tokens[i] = std::move(spelled);
    respelled.insert(i);
  }
  return respelled;
}

// tokenizer.ggml.model = "llama".
Json sentencepiece(const GgufFile& gguf, Vocabulary& v, Parts& p) {
  const bool gemma = gguf.architecture().starts_with("gemma");
  const bool prefix = gguf.boolean("tokenizer.ggml.add_space_prefix").value_or(true);
  const std::unordered_set<std::size_t> respelled = gemma ? respell_spaces(v) : std::unordered_set<std::size_t>();

  Json::Array normalizers, decoders{replace(space, " "), Json::Object{{"type", "ByteFallback"}}, Json::Object{{"type", "Fuse"}}};
  if (prefix) {
    normalizers.emplace_back(Json::Object{{"type", "Prepend"}, {"prepend", space}});
    decoders.emplace_back(Json::Object{{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
  }
  normalizers.push_back(replace(" ", space));
  p.normalizer = sequence("normalizers", std::move(normalizers));
  p.decoder = sequence("decoders", std::move(decoders));
  if (const auto unk = special_tokens_of(gguf).unk) p.unk = v.tokens[static_cast<std::size_t>(*unk)];
  p.fuse_unk = p.byte_fallback = true;
  p.added = added_tokens(v, respelled, gguf.architecture() == "phi3");
  p.tokenizer_class = gemma ? "GemmaTokenizer" : "LlamaTokenizer";
  add_post_processor(gguf, v, p, true);

  if (const auto* merges = gguf.strings("tokenizer.ggml.merges")) return tokenizer_json(v, p, stored_merges(*merges));
  std::vector<double> scores = v.scores;
  if (gemma) {
    scores.resize(v.tokens.size());
    for (std::size_t i = 0; i < scores.size(); ++i) scores[i] = -static_cast<double>(i);
  }
  if (scores.empty()) fail(ErrorKind::corrupt_file, "metadata tokenizer.ggml.scores is absent");
  std::vector<bool> can_merge(v.tokens.size());
  for (std::size_t i = 0; i < can_merge.size(); ++i) can_merge[i] = v.types[i] == normal || respelled.contains(i);
  return tokenizer_json(v, p, merges_of(v.tokens, scores, can_merge));
}

Json tokenizer_config(const GgufFile& gguf, const Vocabulary& v, const Parts& p, const Json& special, const std::string& chat_template) {
  Json::Object decoder;
  for (const Json& token : p.added) {
    Json entry = token;
    entry.erase("id");
    decoder.emplace_back(std::to_string(token.at("id").as_int()), std::move(entry));
  }
  Json config = Json::Object{{"add_bos_token", p.add_bos}, {"add_eos_token", p.add_eos}, {"added_tokens_decoder", std::move(decoder)}};
  for (const auto& [name, token] : special.as_object()) config.set(name, token);
  config.set("clean_up_tokenization_spaces", false);
  if (const auto length = gguf.integer(gguf.architecture() + ".context_length")) config.set("model_max_length", *length);
  config.set("tokenizer_class", p.tokenizer_class.empty() ? "PreTrainedTokenizerFast" : p.tokenizer_class);
  if (!chat_template.empty()) config.set("chat_template", chat_template);
  expect(v.tokens.size() >= p.added.size(), "added tokens are tokens");
  return config;
}

std::optional<std::int64_t> token_id(const GgufFile& gguf, std::string_view key, std::size_t tokens, std::optional<std::int64_t> otherwise = std::nullopt) {
  const std::string full = fmt::format("tokenizer.ggml.{}", key);
  std::optional<std::int64_t> id = gguf.integer(full);
  if (!id) id = otherwise;
  if (!id || *id == -1 || *id == 0xffffffff) return std::nullopt;
  if (*id >= 0 && *id < static_cast<std::int64_t>(tokens)) return id;
  if (tokens > 0) logging::warning("{} is {}, outside the vocabulary of {}; ignored", full, *id, tokens);
  return std::nullopt;
}

// Tokens by which chat models end a turn; llama.cpp stops at them, too.
bool ends_turn(std::string_view token) {
  for (std::string_view known :
       {"<|eot_id|>", "<|eom_id|>", "<|im_end|>", "<|end|>", "<end_of_turn>", "<|endoftext|>", "<|end_of_text|>", "<end_of_utterance>"}) {
    if (token == known) return true;
  }
  return false;
}

std::size_t code_points(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xc0) != 0x80; }));
}

}  // namespace

std::vector<std::pair<std::string, std::string>> merges_of(const std::vector<std::string>& pieces, const std::vector<double>& scores,
                                                           const std::vector<bool>& can_merge) {
  constexpr std::size_t longest = 512;  // bytes; pieces have at most a few dozen
  struct Merge {
    std::size_t left, right, piece;
    std::size_t left_length, right_length;  // in code points
  };
  std::unordered_map<std::string_view, std::size_t> ids;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    if (can_merge[i] && pieces[i].size() <= longest) ids.emplace(pieces[i], i);
  }
  std::vector<Merge> merges;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    if (!can_merge[i] || pieces[i].size() > longest) continue;
    const std::string_view piece = pieces[i];
    const std::size_t begin = merges.size();
    for (std::size_t at = 1; at < piece.size(); ++at) {
      if ((piece[at] & 0xc0) == 0x80) continue;
      const auto left = ids.find(piece.substr(0, at)), right = ids.find(piece.substr(at));
      if (left == ids.end() || right == ids.end()) continue;
      merges.push_back({left->second, right->second, i, code_points(left->first), code_points(right->first)});
    }
    std::sort(merges.begin() + static_cast<std::ptrdiff_t>(begin), merges.end(),
              [](const Merge& a, const Merge& b) { return std::tie(a.left, a.right) < std::tie(b.left, b.right); });
  }
  std::stable_sort(merges.begin(), merges.end(), [&](const Merge& a, const Merge& b) {
    return std::tie(scores[a.piece], a.left_length, a.right_length) > std::tie(scores[b.piece], b.left_length, b.right_length);
  });
  std::vector<std::pair<std::string, std::string>> result;
  result.reserve(merges.size());
  for (const Merge& m : merges) result.emplace_back(pieces[m.left], pieces[m.right]);
  return result;
}

GgufSpecialTokens special_tokens_of(const GgufFile& gguf) {
  const auto* tokens = gguf.strings("tokenizer.ggml.tokens");
  const std::size_t n = tokens ? tokens->size() : 0;
  const std::string* model = gguf.string("tokenizer.ggml.model");
  const bool sentencepiece_defaults = model && *model == "llama";
  const auto otherwise = [&](std::int64_t id) { return sentencepiece_defaults ? std::optional(id) : std::nullopt; };

  GgufSpecialTokens ids;
  ids.bos = token_id(gguf, "bos_token_id", n, otherwise(1));
  ids.eos = token_id(gguf, "eos_token_id", n, otherwise(2));
  ids.unk = token_id(gguf, "unknown_token_id", n, otherwise(0));
  ids.pad = token_id(gguf, "padding_token_id", n);

  std::vector<std::int64_t> more;
  for (std::string_view key : {"eot_token_id", "eom_token_id"}) {
    if (const auto id = token_id(gguf, key, n)) more.push_back(*id);
  }
  const auto* types = gguf.integers("tokenizer.ggml.token_type");
  if (gguf.find("tokenizer.chat_template") && types && types->size() >= n) {
    for (std::size_t i = 0; i < n; ++i) {
      if ((*types)[i] == control && ends_turn((*tokens)[i])) more.push_back(static_cast<std::int64_t>(i));
    }
  }
  std::sort(more.begin(), more.end());
  more.erase(std::unique(more.begin(), more.end()), more.end());
  if (ids.eos) ids.ends.push_back(*ids.eos);
  for (std::int64_t id : more) {
    if (id != ids.eos) ids.ends.push_back(id);
  }
  return ids;
}

GgufTokenizer tokenizer_from_gguf(const GgufFile& gguf) {
  const std::string* model = gguf.string("tokenizer.ggml.model");
  if (!model) fail(ErrorKind::corrupt_file, "metadata tokenizer.ggml.model is absent");
  Vocabulary v = vocabulary_of(gguf);
  Parts parts;
  GgufTokenizer result;
  if (const std::string* whole = gguf.string("tokenizer.huggingface.json")) {
    try {
      result.tokenizer = Json::parse(*whole);
    } catch (const Error& e) {
      throw e.within("tokenizer.huggingface.json");
    }
    parts.added = added_tokens(v, {}, false);
  } else if (*model == "gpt2") {
    result.tokenizer = byte_level(gguf, v, parts);
  } else if (*model == "llama") {
    result.tokenizer = sentencepiece(gguf, v, parts);
  } else {
    fail(ErrorKind::unsupported, "a tokenizer of model {} in a GGUF file is not supported (gpt2 and llama are)", *model);
  }

  const GgufSpecialTokens ids = special_tokens_of(gguf);
  result.special_tokens_map = Json::Object{};
  const auto set = [&](std::string_view name, const std::optional<std::int64_t>& id) {
    if (id) result.special_tokens_map.set(name, v.tokens[static_cast<std::size_t>(*id)]);
  };
  set("bos_token", ids.bos);
  set("eos_token", ids.eos);
  set("unk_token", ids.unk);
  set("pad_token", ids.pad);
  if (const std::string* text = gguf.string("tokenizer.chat_template")) result.chat_template = *text;
  result.tokenizer_config = tokenizer_config(gguf, v, parts, result.special_tokens_map, result.chat_template);
  return result;
}

}  // namespace mobius::package
