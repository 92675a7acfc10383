// Special tokens, search defaults and the tokenizer's config, from the files beside a model; and the files of a runtime.
#include <algorithm>

#include "mobius/package/genai_search.hpp"
#include "mobius/package/genai_test.hpp"
#include "mobius/package/genai_tokenizer.hpp"
#include "mobius/package/genai_tokens.hpp"
#include "mobius/package/runtime_files.hpp"

namespace mobius::package {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// ── special tokens ──

TokenIds ids_of(const Decoder& decoder) {
  const auto package = package_of(decoder);
  return token_ids(Companions(package), 160);
}
std::string missing(const Decoder& decoder) {
  return error_of([&] { ids_of(decoder); }, ErrorKind::not_found);
}

TEST(GenaiTokens, EosIsTheUnionWithGenerationConfigFirst) {
  const auto ids = ids_of({.config = R"({"eos_token_id": [2, 7]})", .ids = R"({"bos_token_id": 1, "eos_token_id": [5, 2]})"});
  EXPECT_THAT(ids.eos, ElementsAre(5, 2, 7));
}

TEST(GenaiTokens, PadIsOneNumber) {
  EXPECT_EQ(ids_of({.ids = R"({"bos_token_id": 1, "eos_token_id": [5, 2], "pad_token_id": [9, 8]})"}).pad, 9);
  EXPECT_EQ(ids_of({.config = R"({"pad_token_id": 4})", .ids = R"({"bos_token_id": 1, "eos_token_id": [5, 2]})"}).pad, 4);
  EXPECT_EQ(ids_of({.config = R"({"pad_token_id": -1})", .ids = R"({"bos_token_id": 1, "eos_token_id": [5, 2]})"}).pad, 5);
}

TEST(GenaiTokens, IdsOutsideTheVocabularyAreLeftOut) {
  const Log log;
  const auto ids = ids_of({.ids = R"({"bos_token_id": 1, "eos_token_id": [200, 2], "pad_token_id": 160})"});
  EXPECT_THAT(ids.eos, ElementsAre(2));
  EXPECT_EQ(ids.pad, 2);
  EXPECT_THAT(log.lines, ElementsAre(HasSubstr("generation_config.json: eos_token_id 200 is outside the vocabulary of 160"), HasSubstr("pad_token_id 160")));
}

TEST(GenaiTokens, ConfigsOfSeveralModelsHaveTheTextModels) {
  const auto ids = ids_of({.config = R"({"text_config": {"bos_token_id": 3, "eos_token_id": 4}})", .ids = ""});
  EXPECT_EQ(ids.bos, 3);
  EXPECT_THAT(ids.eos, ElementsAre(4));
}

TEST(GenaiTokens, TheTokenizersFilesNameTokens) {
  const auto from = [](std::vector<std::pair<std::string, std::string>> files) { return ids_of({.config = "{}", .ids = "", .files = std::move(files)}); };
  const std::string named = R"({"bos_token": "<s>", "eos_token": {"content": "</s>", "lstrip": false}, "pad_token": "<pad>"})";
  const auto a = from({{"tokenizer_config.json", named},
                       {"tokenizer.json", R"({"added_tokens": [{"id": 8, "content": "</s>"}], "model": {"vocab": {"<s>": 7, "<pad>": 9, "</s>": 3}}})"}});
  EXPECT_EQ(a.bos, 7);
  EXPECT_THAT(a.eos, ElementsAre(8));
  EXPECT_EQ(a.pad, 9);
  const auto b = from({{"special_tokens_map.json", named}, {"vocab.json", R"({"model": 1, "<s>": 7, "</s>": 6})"}});
  EXPECT_EQ(b.bos, 7);
  EXPECT_EQ(b.pad, 6);
  const auto c = from({{"tokenizer_config.json", R"({"eos_token": "</s>", "bos_token": null, "added_tokens_decoder": {"11": {"content": "</s>"}}})"}});
  EXPECT_THAT(c.eos, ElementsAre(11));
  EXPECT_EQ(c.bos, std::nullopt);
  const auto d = from({{"tokenizer_config.json", named}, {"tokenizer.json", R"({"model": {"vocab": [["<pad>", 0.0], ["<s>", -1.5], ["</s>", -2]]}})"}});
  EXPECT_EQ(d.bos, 1);
  EXPECT_EQ(d.pad, 0);
}

TEST(GenaiTokens, ConfigsComeBeforeTheTokenizer) {
  EXPECT_THAT(ids_of({.files = {{"tokenizer_config.json", R"({"eos_token": "</s>"})"}, {"vocab.json", R"({"</s>": 50})"}}}).eos, ElementsAre(2));
}

TEST(GenaiTokens, NoBosIsSaidNotMissing) { EXPECT_EQ(ids_of({.config = R"({"bos_token_id": null})", .ids = R"({"eos_token_id": 2})"}).bos, std::nullopt); }

TEST(GenaiTokens, WhatIsMissingNamesTheFilesLookedAt) {
  const auto error = missing({.config = R"({"bos_token_id": 1})", .ids = "", .files = {{"tokenizer_config.json", R"({"eos_token": "</s>"})"}}});
  EXPECT_THAT(error, AllOf(HasSubstr("needs eos_token_id"),
                           HasSubstr("generation_config.json (absent), config.json, tokenizer_config.json, special_tokens_map.json "
                                     "(absent), tokenizer.json (absent)"),
                           HasSubstr("Add it to generation_config.json")));
  EXPECT_THAT(missing({.ids = R"({"eos_token_id": 2})"}), HasSubstr("needs bos_token_id"));
  EXPECT_THAT(missing({.ids = R"({"eos_token_id": 500, "bos_token_id": 1})"}), HasSubstr("needs eos_token_id"));
}

TEST(GenaiTokens, RefusesOtherKinds) {
  const auto error = [](const char* text) { return error_of([&] { ids_of({.ids = text}); }, ErrorKind::invalid_argument); };
  EXPECT_THAT(error(R"({"eos_token_id": "</s>"})"), HasSubstr("generation_config.json: eos_token_id is string, expected an integer"));
  EXPECT_THAT(error(R"({"eos_token_id": [2, "x"]})"), HasSubstr("eos_token_id is array"));
  EXPECT_THAT(error_of([] { ids_of({.ids = "{"}); }, ErrorKind::corrupt_file), HasSubstr("generation_config.json"));
  EXPECT_THAT(error_of([] { ids_of({.ids = "[]"}); }, ErrorKind::corrupt_file), HasSubstr("generation_config.json: found array, expected a JSON object"));
}

// ── search ──

Json search(const char* text) {
  const Json config = Json::parse(text);
  return search_defaults(&config, 160);
}

TEST(GenaiSearch, HasTransformersDefaults) {
  EXPECT_EQ(search_defaults(nullptr, 160), Json::parse(R"({"do_sample": false, "early_stopping": true, "num_beams": 1, "num_return_sequences": 1,
    "min_length": 0, "no_repeat_ngram_size": 0, "top_k": 50, "top_p": 1.0, "temperature": 1.0, "repetition_penalty": 1.0, "length_penalty": 1.0,
    "diversity_penalty": 0.0})"));
}

TEST(GenaiSearch, TakesWhatGenerationConfigSays) {
  const auto found = search(R"({"do_sample": true, "temperature": 0.6, "top_k": 20, "top_p": 0.95, "repetition_penalty": 1.1, "max_length": 20,
                               "early_stopping": "never", "length_penalty": null, "transformers_version": "4"})");
  EXPECT_EQ(found.at("do_sample"), Json(true));
  EXPECT_EQ(found.at("temperature"), Json(0.6));
  EXPECT_EQ(found.at("top_k"), Json(20));
  EXPECT_EQ(found.at("top_p"), Json(0.95));
  EXPECT_EQ(found.at("repetition_penalty"), Json(1.1));
  EXPECT_EQ(found.at("early_stopping"), Json(false));
  EXPECT_EQ(found.at("length_penalty"), Json(1.0));
  EXPECT_EQ(found.find("max_length"), nullptr);
  EXPECT_EQ(found.find("transformers_version"), nullptr);
  EXPECT_EQ(search(R"({"temperature": 1})").at("temperature"), Json(1.0));
}

TEST(GenaiSearch, SamplingWithoutLimitIsFromAllTokens) {
  EXPECT_EQ(search(R"({"do_sample": true, "top_k": 0})").at("top_k"), Json(160));
  EXPECT_EQ(search(R"({"do_sample": true, "top_k": 0, "top_p": 0.9})").at("top_k"), Json(0));
  EXPECT_EQ(search(R"({"top_k": 0})").at("top_k"), Json(0));
  EXPECT_EQ(search(R"({"do_sample": true, "top_p": 0})").at("top_k"), Json(1));
}

TEST(GenaiSearch, BeamsAsFarAsTheRuntimeHasThem) {
  const Log log;
  EXPECT_EQ(search(R"({"num_beams": 4, "num_return_sequences": 2})").at("num_return_sequences"), Json(2));
  EXPECT_THAT(log.lines, IsEmpty());
  const auto found = search(R"({"num_beams": 4, "num_return_sequences": 2, "do_sample": true})");
  EXPECT_EQ(found.at("num_beams"), Json(1));
  EXPECT_EQ(found.at("num_return_sequences"), Json(1));
  EXPECT_THAT(log.lines, ElementsAre(HasSubstr("num_beams is 1"), HasSubstr("num_return_sequences is 1")));
}

TEST(GenaiSearch, RefusesOtherKindsAndRanges) {
  const auto error = [](const char* text) { return error_of([&] { search(text); }, ErrorKind::invalid_argument); };
  EXPECT_THAT(error(R"({"top_k": "many"})"), HasSubstr("generation_config.json: top_k is string, expected an integer"));
  EXPECT_THAT(error(R"({"top_k": 1.5})"), HasSubstr("top_k is number, expected an integer"));
  EXPECT_THAT(error(R"({"repetition_penalty": 0})"), HasSubstr("repetition_penalty is 0, expected above 0"));
  EXPECT_THAT(error(R"({"top_k": -1})"), HasSubstr("top_k is -1"));
  EXPECT_THAT(error(R"({"top_p": 1.5})"), HasSubstr("top_p is 1.5, expected 0 to 1"));
  EXPECT_THAT(error(R"({"do_sample": 1})"), HasSubstr("do_sample is integer, expected true or false"));
  EXPECT_THAT(error(R"({"num_beams": 0})"), HasSubstr("num_beams is 0"));
}

// ── the tokenizer ──

std::optional<Json> tokenizer_config(std::vector<std::pair<std::string, std::string>> files) {
  const auto package = package_of({.files = std::move(files)});
  return genai_tokenizer_config(Companions(package));
}

constexpr const char* byte_level =
    R"({"pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "Split"}, {"type": "ByteLevel"}]}, "model": {"type": "BPE"}})";
constexpr const char* old_byte_level = R"({"pre_tokenizer": {"type": "ByteLevel"}, "model": {"merges": [], "vocab": {}}})";
constexpr const char* gemma = R"({"normalizer": {"type": "Replace"}, "decoder": {"type": "Sequence", "decoders": [{"type": "ByteFallback"}]},
  "model": {"type": "BPE"}})";
constexpr const char* metaspace = R"({"pre_tokenizer": {"type": "Metaspace"}, "model": {"type": "BPE"}})";
constexpr const char* unigram = R"({"pre_tokenizer": {"type": "Metaspace"}, "model": {"type": "Unigram"}})";

TEST(GenaiTokenizer, TheClassFollowsFromTheTokenizer) {
  const auto class_for = [](const char* tokenizer, const char* named) {
    const auto config = tokenizer_config({{"tokenizer.json", tokenizer}, {"tokenizer_config.json", named}});
    return config ? config->at("tokenizer_class").as_string() : "as it was";
  };
  EXPECT_EQ(class_for(byte_level, R"({"tokenizer_class": "TokenizersBackend"})"), "PreTrainedTokenizerFast");
  EXPECT_EQ(class_for(byte_level, R"({"tokenizer_class": "LlamaTokenizer"})"), "PreTrainedTokenizerFast");
  EXPECT_EQ(class_for(byte_level, R"({"tokenizer_class": "CohereTokenizerFast"})"), "PreTrainedTokenizerFast");
  EXPECT_EQ(class_for(byte_level, R"({"tokenizer_class": null})"), "PreTrainedTokenizerFast");
  EXPECT_EQ(class_for(byte_level, R"({"tokenizer_class": "Qwen2Tokenizer"})"), "as it was");
  EXPECT_EQ(class_for(old_byte_level, R"({"tokenizer_class": "GPT2TokenizerFast"})"), "as it was");
  EXPECT_EQ(class_for(gemma, R"({"tokenizer_class": "LlamaTokenizer"})"), "GemmaTokenizer");
  EXPECT_EQ(class_for(gemma, R"({"tokenizer_class": "GemmaTokenizerFast"})"), "as it was");
  EXPECT_EQ(class_for(metaspace, "{}"), "GemmaTokenizer");
  EXPECT_EQ(class_for(unigram, R"({"tokenizer_class": "TokenizersBackend"})"), "T5Tokenizer");
  EXPECT_EQ(class_for(unigram, R"({"tokenizer_class": "XLMRobertaTokenizer"})"), "as it was");
}

TEST(GenaiTokenizer, OtherKeysStay) {
  const auto config = tokenizer_config({{"tokenizer.json", byte_level}, {"tokenizer_config.json", R"({"b": 1, "tokenizer_class": "X", "a": [2]})"}});
  ASSERT_TRUE(config);
  EXPECT_EQ(config->dump(), R"({"b": 1, "tokenizer_class": "PreTrainedTokenizerFast", "a": [2]})");
}

TEST(GenaiTokenizer, WarnsOfWhatTheRuntimeCannotRead) {
  const Log log;
  EXPECT_EQ(tokenizer_config({}), std::nullopt);
  EXPECT_THAT(log.lines, IsEmpty());
  EXPECT_EQ(tokenizer_config({{"tokenizer.model", "sp"}}), std::nullopt);
  EXPECT_EQ(tokenizer_config({{"tokenizer.json", R"({"model": {"type": "WordPiece"}})"}, {"tokenizer_config.json", "{}"}}), std::nullopt);
  EXPECT_EQ(tokenizer_config({{"tokenizer.json", R"({"model": {"type": "BPE"}})"}, {"tokenizer_config.json", "{}"}}), std::nullopt);
  EXPECT_THAT(log.lines, ElementsAre(HasSubstr("reads text with tokenizer.json"), HasSubstr("(WordPiece)"), HasSubstr("(BPE)")));
}

TEST(GenaiTokenizer, EmbedsTheTemplateThatTransformersWouldUse) {
  const auto text = [](std::vector<std::pair<std::string, std::string>> files, const char* own) {
    files.emplace_back("tokenizer.json", byte_level);
    if (own) files.emplace_back("tokenizer_config.json", own);
    const auto config = tokenizer_config(std::move(files));
    const auto* found = config ? config->find("chat_template") : nullptr;
    return found ? found->as_string() : config ? "none" : "as it was";
  };
  EXPECT_EQ(text({{"chat_template.jinja", "J"}}, "{}"), "J");
  EXPECT_EQ(text({{"chat_template.jinja", "J"}}, R"({"chat_template": "T"})"), "J");
  EXPECT_EQ(text({{"chat_template.jinja", "J"}}, nullptr), "J");
  EXPECT_EQ(text({{"chat_template.json", R"({"chat_template": "P"})"}}, "{}"), "P");
  EXPECT_EQ(text({}, R"({"tokenizer_class": "Qwen2Tokenizer", "chat_template": "T"})"), "as it was");
  EXPECT_EQ(text({}, R"({"chat_template": [{"name": "rag", "template": "R"}, {"name": "default", "template": "D"}]})"), "D");
  const Log log;
  EXPECT_EQ(text({}, R"({"chat_template": [{"name": "rag", "template": "R"}]})"), "none");
  EXPECT_THAT(log.lines, ElementsAre(HasSubstr("none of the chat templates is called 'default'")));
}

// ── the runtime's files ──

std::vector<std::string> names_of(const std::vector<PackageFile>& files) {
  std::vector<std::string> names;
  for (const auto& file : files) names.push_back(file.name);
  return names;
}

TEST(RuntimeFiles, AddWhatTheRuntimeNeeds) {
  const auto package = package_of({.files = {{"tokenizer.json", byte_level}}});
  EXPECT_THAT(names_of(runtime_files(package, {})), ElementsAre("generation_config.json", "tokenizer.json"));
  EXPECT_THAT(names_of(runtime_files(package, {.runtime = "ort-genai"})),
              ElementsAre("generation_config.json", "tokenizer.json", "tokenizer_config.json", "genai_config.json"));
  EXPECT_THAT(error_of([&] { runtime_files(package, {.runtime = "vllm"}); }, ErrorKind::invalid_argument), HasSubstr("runtime is 'vllm', expected ort-genai"));
}

TEST(RuntimeFiles, AreWrittenAndPlanned) {
  const auto folder = fs::path(testing::TempDir()) / "genai_files";
  fs::remove_all(folder);
  const auto package = package_of({});
  const SaveOptions options{.runtime = "ort-genai", .context_length = 64};
  package.save(folder, options);
  for (const auto& file : package.plan(options)) EXPECT_EQ(fs::file_size(folder / file.name), file.size) << file.name;
  const auto config = Json::parse(read_text_file(folder / "genai_config.json"));
  EXPECT_EQ(config.at("model").at("context_length"), Json(64));
  package.save(folder);  // a package still, without the file that is not its own any more
  EXPECT_FALSE(fs::exists(folder / "genai_config.json"));
  fs::remove_all(folder);
}

TEST(RuntimeFiles, NothingIsWrittenWhenTheRuntimeCannotRunIt) {
  const auto folder = fs::path(testing::TempDir()) / "genai_refused";
  fs::remove_all(folder);
  EXPECT_THAT(error_of([&] { package_of({.key_size = 24}).save(folder, {.runtime = "ort-genai"}); }, ErrorKind::unsupported),
              HasSubstr("expected 2 heads of 24"));
  EXPECT_FALSE(fs::exists(folder));
}

}  // namespace
}  // namespace mobius::package
