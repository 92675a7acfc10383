// The table of splitting rules. Sources: the rule per name in llama.cpp's src/llama-vocab.cpp; its form in the tokenizer.json of the
// model that the name was made for.
#include "mobius/package/gguf_pre_tokenizers.hpp"

#include <algorithm>

namespace mobius::package {
namespace {

using namespace std::string_view_literals;

// Regular expressions in the dialect of the `tokenizers` library.
constexpr auto gpt2_regex = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S))"sv;
constexpr auto llama3_regex = R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"sv;
constexpr auto qwen2_regex = R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"sv;
constexpr auto qwen35_regex = R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"sv;
constexpr auto tekken_regex =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
    R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)"sv;
constexpr auto gpt4o_regex = R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
                             R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3})"
                             R"(| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)"sv;
// Letters with case, as the tokenizer of DeepSeek LLM lists them.
constexpr auto cased_letters =
    "\\s?["
    "A-Za-z\u00B5\u00C0-\u00D6\u00D8-\u00F6\u00F8-\u01BA\u01BC-\u01BF\u01C4-\u0293\u0295-\u02AF\u0370-\u0373\u0376\u0377\u037B-\u037D\u037F\u0386"
    "\u0388-\u038A\u038C\u038E-\u03A1\u03A3-\u03F5\u03F7-\u0481\u048A-\u052F\u0531-\u0556\u10A0-\u10C5\u13A0-\u13F5\u13F8-\u13FD\u1C90-\u1CBA"
    "\u1CBD-\u1CBF\u1D00-\u1D2B\u1D6B-\u1D77\u1D79-\u1D9A\u1E00-\u1F15\u1F18-\u1F1D\u1F20-\u1F45\u1F48-\u1F4D\u1F50-\u1F57\u1F59\u1F5B\u1F5D"
    "\u1F5F-\u1F7D\u1F80-\u1FB4\u1FB6-\u1FBC\u1FBE\u1FC2-\u1FC4\u1FC6-\u1FCC\u1FD0-\u1FD3\u1FD6-\u1FDB\u1FE0-\u1FEC\u1FF2-\u1FF4\u1FF6-\u1FFC"
    "\u2102\u2107\u210A-\u2113\u2115\u2119-\u211D\u2124\u2126\u2128\u212A-\u212D\u212F-\u2134\u2139\u213C-\u213F\u2145-\u2149\u214E\u2183\u2184"
    "\u2C00-\u2C7B\u2C7E-\u2CE4\u2CEB-\u2CEE\u2CF2\u2CF3\uA640-\uA66D\uA680-\uA69B\uA722-\uA76F\uA771-\uA787\uA78B-\uA78E\uAB70-\uABBF"
    "\uFB00-\uFB06\uFB13-\uFB17\uFF21-\uFF3A\uFF41-\uFF5A\U00010400-\U0001044F\U000104B0-\U000104D3\U000104D8-\U000104FB\U00010C80-\U00010CB2"
    "\U00010CC0-\U00010CF2\U000118A0-\U000118DF\U0001E900-\U0001E943"
    "]+"sv;
constexpr auto punctuation = "\\s?[!-/:-~\uFF01-\uFF0F\uFF1A-\uFF5E\u2018-\u201F\u3000-\u3002]+"sv;
constexpr auto cjk = "[\u4E00-\u9FA5\u0800-\u4E00\uAC00-\uD7FF]+"sv;

Json split(std::string_view regex) {
  return Json::Object{{"type", "Split"}, {"pattern", Json::Object{{"Regex", regex}}}, {"behavior", "Isolated"}, {"invert", false}};
}
Json byte_level(bool use_regex) { return Json::Object{{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", use_regex}}; }
Json digits(bool individual) { return Json::Object{{"type", "Digits"}, {"individual_digits", individual}}; }
Json sequence(Json::Array steps) { return Json::Object{{"type", "Sequence"}, {"pretokenizers", std::move(steps)}}; }
Json split_then_bytes(std::string_view regex) { return sequence({split(regex), byte_level(false)}); }

enum class Rule { gpt2, digits_gpt2, llama3, qwen2, qwen35, tekken, gpt4o, deepseek_llm, deepseek_coder, falcon, none };

Json make(Rule rule) {
  switch (rule) {
    case Rule::gpt2: return byte_level(true);
    case Rule::digits_gpt2: return sequence({digits(true), byte_level(true)});
    case Rule::llama3: return split_then_bytes(llama3_regex);
    case Rule::qwen2: return split_then_bytes(qwen2_regex);
    case Rule::qwen35: return split_then_bytes(qwen35_regex);
    case Rule::tekken: return split_then_bytes(tekken_regex);
    case Rule::gpt4o: return split_then_bytes(gpt4o_regex);
    case Rule::deepseek_llm:
      return sequence({split(R"([\r\n])"), split(cased_letters), split(punctuation), split(R"(\s+$)"), split(cjk), split(R"(\p{N}+)"), byte_level(false)});
    case Rule::deepseek_coder: return sequence({split(R"([\r\n])"), split(R"(\s?\p{L}+)"), split(R"(\s?\p{P}+)"), split(cjk), digits(true), byte_level(false)});
    case Rule::falcon: return sequence({split(R"([\p{P}\$\+<=>\^~\|`]+)"), split(gpt2_regex), split("[0-9][0-9][0-9]"), byte_level(false)});
    case Rule::none: return sequence({split(R"([\p{P}\$\+<=>\^~\|]+)"), split(gpt2_regex), split(R"(\p{N}+)"), split("[0-9][0-9][0-9]"), byte_level(false)});
  }
  return nullptr;
}

struct Entry {
  std::string_view name;
  Rule rule;
  bool whole_words = false;  // with a beginning-of-text token by default, too
  bool nfc = false;
};

constexpr Entry entries[] = {
    {"command-r", Rule::digits_gpt2},
    {"dbrx", Rule::llama3},
    {"deepseek-coder", Rule::deepseek_coder},
    {"deepseek-llm", Rule::deepseek_llm},
    {"deepseek-r1-qwen", Rule::qwen2},
    {"default", Rule::none},
    {"exaone", Rule::digits_gpt2},
    {"exaone4", Rule::gpt2},
    {"falcon", Rule::falcon},
    {"falcon3", Rule::llama3, true},
    {"gpt-2", Rule::gpt2},
    {"gpt-4o", Rule::gpt4o},
    {"kanana2", Rule::gpt4o},
    {"kormo", Rule::qwen2},
    {"llama-bpe", Rule::llama3, true},
    {"llama-v3", Rule::llama3, true},
    {"llama3", Rule::llama3, true},
    {"llama4", Rule::gpt4o},
    {"megrez", Rule::qwen2},
    {"mellum", Rule::gpt2},
    {"midm-2.0", Rule::llama3, true},
    {"minerva-7b", Rule::digits_gpt2},
    {"mpt", Rule::gpt2},
    {"olmo", Rule::gpt2},
    {"phi-2", Rule::gpt2},
    {"pixtral", Rule::llama3, true},
    {"qwen2", Rule::qwen2, false, true},
    {"qwen35", Rule::qwen35, false, true},
    {"refact", Rule::digits_gpt2},
    {"smaug-bpe", Rule::llama3},
    {"smollm", Rule::digits_gpt2},
    {"stablelm2", Rule::qwen2},
    {"starcoder", Rule::digits_gpt2},
    {"tekken", Rule::tekken, true},
    {"trillion", Rule::gpt2},
};

}  // namespace

std::optional<PreTokenizer> pre_tokenizer(std::string_view name) {
  const auto* entry = std::find_if(std::begin(entries), std::end(entries), [&](const Entry& e) { return e.name == name; });
  if (entry == std::end(entries)) return std::nullopt;
  PreTokenizer result;
  if (entry->nfc) result.normalizer = Json::Object{{"type", "NFC"}};
  result.pre_tokenizer = make(entry->rule);
  result.ignore_merges = result.add_bos = entry->whole_words;
  return result;
}

std::string known_pre_tokenizers() {
  std::string names;
  for (const Entry& e : entries) {
    if (!names.empty()) names += ", ";
    names += e.name;
  }
  return names;
}

}  // namespace mobius::package
