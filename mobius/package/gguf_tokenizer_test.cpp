// tokenizer.json and its companions from GGUF metadata.
#include "mobius/package/gguf_tokenizer.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mobius/base/error_of_test.hpp"
#include "mobius/formats/gguf_test_writer.hpp"
#include "mobius/package/gguf_files.hpp"
#include "mobius/package/gguf_pre_tokenizers.hpp"

namespace mobius::package {
namespace {

using formats::GgufFile;
using formats::GgufWriter;
using formats::TempFolder;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

GgufTokenizer tokenizer_of(const GgufWriter& w) {
  TempFolder folder;
  return tokenizer_from_gguf(*GgufFile::open(folder.write("m.gguf", w.bytes())));
}
std::string refusal(const GgufWriter& w, ErrorKind kind) {
  return error_of([&] { tokenizer_of(w); }, kind);
}

GgufWriter byte_level(const char* pre = "smollm") {
  GgufWriter w;
  w.set("general.architecture", "llama").set("tokenizer.ggml.model", "gpt2").set("tokenizer.ggml.pre", pre);
  w.set("tokenizer.ggml.tokens", std::vector<std::string>{"<|endoftext|>", "<|im_end|>", "a", "b", "ab", "<tool>", "[PAD6]"});
  w.set("tokenizer.ggml.token_type", std::vector<int>{3, 3, 1, 1, 1, 4, 5});
  return w.set("tokenizer.ggml.merges", std::vector<std::string>{"a b"});
}

GgufWriter sentencepiece(const char* architecture = "llama") {
  GgufWriter w;
  w.set("general.architecture", architecture).set("tokenizer.ggml.model", "llama").set("tokenizer.ggml.pre", "default");
  w.set("tokenizer.ggml.tokens", std::vector<std::string>{"<unk>", "<s>", "</s>", "<0x0A>", "\u2581", "a", "b", "\u2581a", "ab", "\u2581ab", "<|user|>", "  "});
  w.set("tokenizer.ggml.token_type", std::vector<int>{2, 3, 3, 6, 1, 1, 1, 1, 1, 1, 3, 4});
  return w.set("tokenizer.ggml.scores", std::vector<float>{0, 0, 0, 0, -1, -2, -3, -4, -5, -6, -1000, -1000});
}

TEST(GgufTokenizer, ByteLevel) {
  const GgufTokenizer t = tokenizer_of(byte_level()
                                           .set("tokenizer.ggml.bos_token_id", 0)
                                           .set("tokenizer.ggml.eos_token_id", 1)
                                           .set("tokenizer.ggml.padding_token_id", 99)
                                           .set("tokenizer.chat_template", "{{ messages }}")
                                           .set("llama.context_length", 2048));
  EXPECT_EQ(
      t.tokenizer.dump(),
      R"({"version": "1.0", "truncation": null, "padding": null, "added_tokens": [)"
      R"({"id": 0, "content": "<|endoftext|>", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true}, )"
      R"({"id": 1, "content": "<|im_end|>", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true}, )"
      R"({"id": 5, "content": "<tool>", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": false}], )"
      R"("normalizer": null, "pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "Digits", "individual_digits": true}, )"
      R"({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true}]}, "post_processor": null, )"
      R"("decoder": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true}, )"
      R"("model": {"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null, "end_of_word_suffix": null, "fuse_unk": false, )"
      R"("byte_fallback": false, "ignore_merges": false, "vocab": {"<|endoftext|>": 0, "<|im_end|>": 1, "a": 2, "b": 3, "ab": 4, "<tool>": 5}, "merges": ["a b"]}})");
  EXPECT_EQ(t.special_tokens_map.dump(), R"({"bos_token": "<|endoftext|>", "eos_token": "<|im_end|>"})");  // 99 is outside the vocabulary
  EXPECT_EQ(t.chat_template, "{{ messages }}");
  const Json& config = t.tokenizer_config;
  EXPECT_EQ(config.at("chat_template").as_string(), "{{ messages }}");
  EXPECT_EQ(config.at("eos_token").as_string(), "<|im_end|>");
  EXPECT_EQ(config.at("model_max_length").as_int(), 2048);
  EXPECT_EQ(config.at("add_bos_token").as_bool(), false);
  EXPECT_EQ(config.at("added_tokens_decoder").at("5").dump(),
            R"({"content": "<tool>", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": false})");
}

TEST(GgufTokenizer, AddsBosAndEosAsTheFileSays) {
  const auto ids = [](GgufWriter w) { return w.set("tokenizer.ggml.bos_token_id", 0).set("tokenizer.ggml.eos_token_id", 1); };
  const Json bos = tokenizer_of(ids(byte_level("llama-bpe"))).tokenizer;
  EXPECT_EQ(bos.at("post_processor").dump(),
            R"({"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<|endoftext|>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}], )"
            R"("pair": [{"SpecialToken": {"id": "<|endoftext|>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}, )"
            R"({"SpecialToken": {"id": "<|endoftext|>", "type_id": 1}}, {"Sequence": {"id": "B", "type_id": 1}}], )"
            R"("special_tokens": {"<|endoftext|>": {"id": "<|endoftext|>", "ids": [0], "tokens": ["<|endoftext|>"]}}})");
  EXPECT_TRUE(bos.at("model").at("ignore_merges").as_bool());
  EXPECT_TRUE(tokenizer_of(ids(byte_level("llama-bpe")).set("tokenizer.ggml.add_bos_token", false)).tokenizer.at("post_processor").is_null());
  const GgufTokenizer eos = tokenizer_of(ids(byte_level()).set("tokenizer.ggml.add_eos_token", true));
  EXPECT_EQ(eos.tokenizer.at("post_processor").at("single").as_array().size(), 2u);
  EXPECT_TRUE(eos.tokenizer_config.at("add_eos_token").as_bool());
  EXPECT_TRUE(tokenizer_of(byte_level("llama-bpe")).tokenizer.at("post_processor").is_null());  // no bos to add
}

TEST(GgufTokenizer, EndsOfTurns) {
  TempFolder folder;
  GgufWriter w = byte_level().set("tokenizer.ggml.eos_token_id", 1).set("tokenizer.chat_template", "x");
  auto ends = special_tokens_of(*GgufFile::open(folder.write("a.gguf", w.bytes()))).ends;
  EXPECT_THAT(ends, ElementsAre(1, 0));
  ends = special_tokens_of(*GgufFile::open(folder.write("b.gguf", byte_level().set("tokenizer.ggml.eos_token_id", 1).bytes()))).ends;
  EXPECT_THAT(ends, ElementsAre(1));  // without a chat template there are no turns
  ends = special_tokens_of(*GgufFile::open(folder.write("c.gguf", byte_level().set("tokenizer.ggml.eot_token_id", 4).bytes()))).ends;
  EXPECT_THAT(ends, ElementsAre(4));
}

TEST(GgufTokenizer, SentencePiece) {
  const GgufTokenizer t = tokenizer_of(sentencepiece());
  const Json& j = t.tokenizer;
  EXPECT_EQ(j.at("normalizer").dump(), R"({"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "▁"}, )"
                                       R"({"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]})");
  EXPECT_TRUE(j.at("pre_tokenizer").is_null());
  EXPECT_EQ(j.at("decoder").dump(),
            R"({"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"}, )"
            R"({"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]})");
  EXPECT_EQ(j.at("model").at("unk_token").as_string(), "<unk>");
  EXPECT_TRUE(j.at("model").at("byte_fallback").as_bool());
  EXPECT_TRUE(j.at("model").at("fuse_unk").as_bool());
  EXPECT_EQ(j.at("model").at("merges").dump(), R"(["▁ a", "a b", "▁a b", "▁ ab"])");
  EXPECT_EQ(j.at("post_processor").at("single").as_array().size(), 2u);  // <s> by default
  EXPECT_EQ(j.at("added_tokens").as_array().size(), 5u);                 // <unk>, <s>, </s>, <|user|> and the spaces
  EXPECT_EQ(t.tokenizer_config.at("tokenizer_class").as_string(), "LlamaTokenizer");

  const Json plain = tokenizer_of(sentencepiece().set("tokenizer.ggml.add_space_prefix", false)).tokenizer;
  EXPECT_EQ(plain.at("normalizer").at("normalizers").as_array().size(), 1u);
  EXPECT_EQ(plain.at("decoder").at("decoders").as_array().size(), 3u);
}

TEST(GgufTokenizer, GemmaSpellsSpacesAsPieces) {
  const GgufTokenizer t = tokenizer_of(sentencepiece("gemma2").set("tokenizer.ggml.add_space_prefix", false));
  const Json& model = t.tokenizer.at("model");
  EXPECT_EQ(model.at("vocab").at("▁▁").as_int(), 11);
  EXPECT_EQ(model.at("vocab").find("  "), nullptr);
  EXPECT_EQ(model.at("merges").dump(), R"(["▁ a", "a b", "▁a b", "▁ ab", "▁ ▁"])");  // by position
  EXPECT_EQ(t.tokenizer.at("added_tokens").as_array().size(), 4u);
  EXPECT_EQ(t.tokenizer_config.at("tokenizer_class").as_string(), "GemmaTokenizer");
}

TEST(GgufTokenizer, Phi3StripsBehindItsMarkers) {
  const Json added = tokenizer_of(sentencepiece("phi3")).tokenizer.at("added_tokens");
  std::vector<std::pair<std::string, bool>> rstrip;
  for (const Json& token : added.as_array()) rstrip.emplace_back(token.at("content").as_string(), token.at("rstrip").as_bool());
  EXPECT_THAT(rstrip, ElementsAre(Pair("<unk>", false), Pair("<s>", false), Pair("</s>", true), Pair("<|user|>", true), Pair("  ", false)));
}

TEST(GgufTokenizer, MergesByScoreThenByLength) {
  const std::vector<std::string> pieces{"a", "b", "c", "ab", "bc", "abc", "é", "éa", "x"};
  const std::vector<double> scores{0, 0, 0, -1, -1, -2, 0, -0.5, 0};
  std::vector<bool> all(pieces.size(), true);
  EXPECT_THAT(merges_of(pieces, scores, all), ElementsAre(Pair("é", "a"), Pair("a", "b"), Pair("b", "c"), Pair("ab", "c"), Pair("a", "bc")));
  all[3] = false;  // neither made nor used
  EXPECT_THAT(merges_of(pieces, scores, all), ElementsAre(Pair("é", "a"), Pair("b", "c"), Pair("a", "bc")));
  EXPECT_THAT(merges_of({"a", "b", "c", "ab", "bc", "abc"}, {0, 0, 0, -1, -1, -1}, std::vector<bool>(6, true)),
              ElementsAre(Pair("ab", "c"), Pair("a", "bc"), Pair("a", "b"), Pair("b", "c")));
  EXPECT_TRUE(merges_of({std::string(2000, 'a'), std::string(1000, 'a')}, {0, 0}, {true, true}).empty());  // longer than any piece
}

TEST(GgufTokenizer, TakesAWholeTokenizerWhenThereIsOne) {
  const GgufTokenizer t = tokenizer_of(byte_level("unheard-of").set("tokenizer.huggingface.json", R"({"version": "1.0"})"));
  EXPECT_EQ(t.tokenizer.dump(), R"({"version": "1.0"})");
  EXPECT_THAT(refusal(byte_level().set("tokenizer.huggingface.json", "{"), ErrorKind::corrupt_file), HasSubstr("tokenizer.huggingface.json: "));
}

TEST(GgufTokenizer, RefusesByName) {
  EXPECT_THAT(refusal(byte_level("unheard-of"), ErrorKind::unsupported),
              HasSubstr("tokenizer.ggml.pre is unheard-of, which is not known; these are: command-r, dbrx"));
  GgufWriter w;
  w.set("tokenizer.ggml.model", "bert").set("tokenizer.ggml.tokens", std::vector<std::string>{"a"});
  EXPECT_EQ(refusal(w, ErrorKind::unsupported), "a tokenizer of model bert in a GGUF file is not supported (gpt2 and llama are)");
  EXPECT_EQ(refusal(GgufWriter(), ErrorKind::corrupt_file), "metadata tokenizer.ggml.model is absent");
}

TEST(GgufTokenizer, RefusesListsThatContradictEachOther) {
  const auto with = [](std::vector<std::string> tokens, std::vector<int> types, std::vector<std::string> merges) {
    GgufWriter w;
    w.set("tokenizer.ggml.model", "gpt2").set("tokenizer.ggml.pre", "gpt-2").set("tokenizer.ggml.tokens", tokens);
    return refusal(w.set("tokenizer.ggml.token_type", types).set("tokenizer.ggml.merges", merges), ErrorKind::corrupt_file);
  };
  EXPECT_EQ(with({}, {}, {}), "metadata tokenizer.ggml.tokens is absent or empty");
  EXPECT_EQ(with({"a", "b"}, {1}, {}), "tokenizer.ggml.token_type has 1 entries for 2 tokens");
  EXPECT_EQ(with({"a", "a"}, {1, 1}, {}), R"(tokens 0 and 1 of the vocabulary are both "a")");
  EXPECT_EQ(with({"a", "b", "ab"}, {1, 1, 1}, {"ab"}), R"(tokenizer.ggml.merges: "ab" is not two tokens)");
  EXPECT_EQ(with({"a", "b", "ab"}, {1, 1, 1}, {"a "}), R"(tokenizer.ggml.merges: "a " is not two tokens)");
  EXPECT_EQ(with({"a", "b"}, {1, 1}, {"a b"}), R"(tokenizer.ggml.merges: "a" + "b", but "ab" is not in the vocabulary)");
  EXPECT_EQ(with({"a", "", "[EMPTY_1]"}, {1, 1, 1}, {}), R"(tokens 1 and 2 of the vocabulary are both "[EMPTY_1]")");
  GgufWriter no_merges;
  no_merges.set("tokenizer.ggml.model", "gpt2").set("tokenizer.ggml.pre", "gpt-2").set("tokenizer.ggml.tokens", std::vector<std::string>{"a"});
  EXPECT_EQ(refusal(no_merges, ErrorKind::corrupt_file), "metadata tokenizer.ggml.merges is absent");
}

TEST(GgufPreTokenizers, AreKnownByName) {
  EXPECT_EQ(pre_tokenizer("unheard-of"), std::nullopt);
  EXPECT_EQ(pre_tokenizer("gpt-2")->pre_tokenizer.dump(), R"({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true})");
  EXPECT_EQ(pre_tokenizer("qwen2")->normalizer.dump(), R"({"type": "NFC"})");
  EXPECT_EQ(pre_tokenizer("starcoder")->pre_tokenizer.dump(), pre_tokenizer("smollm")->pre_tokenizer.dump());
  EXPECT_TRUE(pre_tokenizer("llama-bpe")->ignore_merges);
  EXPECT_TRUE(pre_tokenizer("tekken")->add_bos);
  EXPECT_FALSE(pre_tokenizer("smaug-bpe")->add_bos);
}

}  // namespace
}  // namespace mobius::package
