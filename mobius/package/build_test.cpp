// What build refuses before it looks at a weight, and in what order; the identity of sources.
#include "mobius/package/build.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mobius/base/error.hpp"
#include "mobius/package/source.hpp"

namespace mobius {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

const char* const tiny_llama = R"({"model_type": "llama", "hidden_size": 32, "intermediate_size": 64, "num_attention_heads": 2, "num_hidden_layers": 1,
  "vocab_size": 48, "max_position_embeddings": 64, "rms_norm_eps": 1e-6, "tie_word_embeddings": true)";

class Build : public testing::Test {
 protected:
  void SetUp() override {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    folder_ = fs::path(testing::TempDir()) / (std::string("build_") + test->name());
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  void add(const std::string& name, std::string_view text) const { write_text_file(folder_ / name, text); }
  void config(const std::string& more) const { add("config.json", tiny_llama + more + "}"); }

  std::string error(ErrorKind kind, BuildOptions options = {}) const {
    options.load_weights = false;
    try {
      build(folder_.string(), options);
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), kind) << e.what();
      return e.what();
    }
    return "no error";
  }

  fs::path folder_;
};

TEST_F(Build, WithoutWeightsTheConfigIsEnough) {
  config("");
  const auto package = build(folder_.string(), {.load_weights = false});
  ASSERT_EQ(package.components().size(), 1u);
  const auto& facts = package.components().front().model.metadata;
  EXPECT_EQ(facts.at("mobius.model_type"), "llama");
  EXPECT_EQ(facts.at("mobius.source"), folder_.filename().string());
  EXPECT_EQ(facts.at("mobius.weights"), "none");
  EXPECT_EQ(facts.at("mobius.dtype"), "f32");
  EXPECT_EQ(package.config.at("model_type").as_string(), "llama");
}

TEST_F(Build, CopiesWhatARuntimeNeedsAndNothingElse) {
  config("");
  for (const char* name : {"tokenizer.json", "LICENSE.txt", "chat_template.jinja", "README.md", "pytorch_model.bin", ".gitattributes"}) add(name, "x");
  std::vector<std::string> names;
  const auto package = build(folder_.string(), {.load_weights = false});
  for (const auto& file : package.files()) names.push_back(file.name);
  EXPECT_THAT(names, testing::ElementsAre("LICENSE.txt", "chat_template.jinja", "config.json", "tokenizer.json"));
}

TEST_F(Build, TellsFoldersWithoutAConfigApart) {
  EXPECT_THAT(error(ErrorKind::not_found), HasSubstr("has no config.json"));
  add("params.json", "{}");
  EXPECT_THAT(error(ErrorKind::unsupported), HasSubstr("params.json"));
  add("model_index.json", "{}");
  EXPECT_THAT(error(ErrorKind::unsupported), HasSubstr("diffusers pipeline"));
  add("adapter_config.json", "{}");
  EXPECT_THAT(error(ErrorKind::unsupported), HasSubstr("holds an adapter"));
  add("a.gguf", "GGUF");
  add("b.gguf", "GGUF");
  EXPECT_THAT(error(ErrorKind::invalid_argument), HasSubstr("name one of them: a.gguf, b.gguf"));
}

TEST_F(Build, ALinkThatLeadsNowhereIsNotAMissingFile) {
  fs::create_symlink(folder_ / "gone", folder_ / "config.json");
  EXPECT_THAT(error(ErrorKind::not_found), HasSubstr("config.json is a link to a file that is not there"));
  fs::remove(folder_ / "config.json");
  config("");
  fs::create_symlink(folder_ / "gone", folder_ / "tokenizer.json");
  EXPECT_THAT(error(ErrorKind::not_found), HasSubstr("tokenizer.json is a link to a file that is not there"));
}

TEST_F(Build, RefusesABrokenConfig) {
  add("config.json", "{\"model_type\": ");
  EXPECT_THAT(error(ErrorKind::corrupt_file), StartsWith((folder_ / "config.json").string()));
  add("config.json", "[]");
  EXPECT_THAT(error(ErrorKind::corrupt_file), HasSubstr("found array, expected a JSON object"));
  add("config.json", "{}");
  EXPECT_THAT(error(ErrorKind::not_found), HasSubstr("model_type is missing"));
}

TEST_F(Build, RefusesUnknownTypesAndSuggests) {
  add("config.json", R"({"model_type": "lama"})");
  EXPECT_THAT(error(ErrorKind::unsupported), testing::AllOf(HasSubstr("config.json: unknown model_type 'lama'"), HasSubstr("llama")));
}

TEST_F(Build, NeverRunsCodeOfTheCheckpoint) {
  add("config.json", R"({"model_type": "mystery", "auto_map": {"AutoModelForCausalLM": "modeling_mystery.MysteryForCausalLM"}})");
  EXPECT_THAT(error(ErrorKind::unsupported), testing::AllOf(HasSubstr("code in the checkpoint"), HasSubstr("modeling_mystery.MysteryForCausalLM")));
  // A known type is built from what is known here.
  config(R"(, "auto_map": {"AutoModelForCausalLM": "modeling_llama.Llama"})");
  EXPECT_EQ(error(ErrorKind::unsupported), "no error");
}

TEST_F(Build, NamesTheQuantisation) {
  for (const char* method : {"mxfp4", "fp8", "gptq", "awq", "bitsandbytes", "compressed-tensors"}) {
    config(std::string(R"(, "quantization_config": {"quant_method": ")") + method + R"("})");
    EXPECT_THAT(error(ErrorKind::unsupported), HasSubstr(std::string("quantised by ") + method)) << method;
  }
  config(R"(, "quantization_config": {"load_in_4bit": true})");
  EXPECT_THAT(error(ErrorKind::unsupported), HasSubstr("bitsandbytes"));
  config(R"(, "quantization_config": {"quant_method": "gptq", "bits": 4})");
  EXPECT_THAT(error(ErrorKind::unsupported), HasSubstr("gptq with 4 bits"));
  config(R"(, "quantization_config": 5)");
  EXPECT_THAT(error(ErrorKind::invalid_argument), HasSubstr("quantization_config is integer"));
  config(R"(, "quantization_config": null)");
  EXPECT_EQ(error(ErrorKind::unsupported), "no error");
}

TEST_F(Build, NamesRopeTypesAndActivations) {
  config(R"(, "rope_scaling": {"rope_type": "spiral", "factor": 2})");
  EXPECT_THAT(error(ErrorKind::unsupported), HasSubstr("spiral"));
  config(R"(, "hidden_act": "softsign9")");
  EXPECT_THAT(error(ErrorKind::unsupported), HasSubstr("softsign9"));
}

TEST_F(Build, ChecksOptionsAgainstTheModel) {
  config("");
  EXPECT_THAT(error(ErrorKind::invalid_argument, {.execution_provider = "rocm"}), HasSubstr("rocm"));
  EXPECT_THAT(error(ErrorKind::invalid_argument, {.task = "speech-to-text"}), HasSubstr("'text-generation'"));
  EXPECT_THAT(error(ErrorKind::invalid_argument, {.dtype = ir::DataType::bfloat16}), HasSubstr("does not run bf16"));
  EXPECT_THAT(error(ErrorKind::unsupported, {.as_type = "lama"}), HasSubstr("'lama'"));
  EXPECT_THAT(error(ErrorKind::invalid_argument, {.revision = "main"}), HasSubstr("is a path"));
}

TEST_F(Build, ReadsAsAnotherType) {
  add("config.json", std::string(tiny_llama).replace(std::string(tiny_llama).find("\"llama\""), 7, "\"mine\"") + "}");
  EXPECT_THAT(error(ErrorKind::unsupported), HasSubstr("'mine'"));
  const auto package = build(folder_.string(), {.load_weights = false, .as_type = "llama"});
  EXPECT_EQ(package.components().front().model.metadata.at("mobius.model_type"), "llama");
  EXPECT_EQ(package.config.at("model_type").as_string(), "mine");
}

TEST_F(Build, TheIdentityFollowsTheContent) {
  config("");
  const auto identity = [&] { return package::read_source(folder_.string(), "").identity(); };
  const auto first = identity();
  EXPECT_THAT(first, StartsWith("sha256:"));
  EXPECT_EQ(identity(), first);
  add("README.md", "not a weight");
  EXPECT_EQ(identity(), first);
  add("model.safetensors", std::string(300'000, 'a'));
  const auto second = identity();
  EXPECT_NE(second, first);
  add("model.safetensors", std::string(299'999, 'a') + "b");
  EXPECT_NE(identity(), second);
  add("model.safetensors", std::string(300'000, 'a'));
  EXPECT_EQ(identity(), second);
}

}  // namespace
}  // namespace mobius
