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
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)"sv;
constexpr auto gpt4o_regex =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)"sv;
constexpr auto cased_letters =
    R"(\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝὟ-ώᾀ-ᾴᾶ-ᾼιῂ-ῄῆ-ῌῐ-ΐῖ-Ίῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤΩℨK-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃]+)"sv;
constexpr auto cjk = "[一-龥ࠀ-一가-퟿]+"sv;

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
      return sequence({split(R"([\r\n])"), split(cased_letters), split(R"(\s?[!-/:-~！-／：-～‘-‟　-。]+)"), split(R"(\s+$)"), split(cjk), split(R"(\p{N}+)"),
                       byte_level(false)});
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
