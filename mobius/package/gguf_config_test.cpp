// config.json from GGUF metadata.
#include "mobius/package/gguf_config.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mobius/base/error_of_test.hpp"
#include "mobius/formats/gguf_test_writer.hpp"
#include "mobius/package/gguf_files.hpp"
#include "mobius/package/gguf_rope.hpp"

namespace mobius::package {
namespace {

using formats::GgufFile;
using formats::GgufWriter;
using formats::TempFolder;
using testing::HasSubstr;

// The keys that every architecture has: 4 layers, 4 heads of 8, 2 key heads, a vocabulary of 6.
GgufWriter writer(const std::string& architecture) {
  GgufWriter w;
  w.set("general.architecture", architecture);
  w.set(architecture + ".embedding_length", 32).set(architecture + ".block_count", 4).set(architecture + ".context_length", 96);
  w.set(architecture + ".feed_forward_length", 64).set(architecture + ".attention.head_count", 4).set(architecture + ".attention.head_count_kv", 2);
  w.set(architecture + ".attention.layer_norm_rms_epsilon", 1e-6f).set(architecture + ".attention.layer_norm_epsilon", 1e-5f);
  return w.floats("token_embd.weight", {6, 32});
}

Json config_of(const GgufWriter& w) {
  TempFolder folder;
  return config_from_gguf(*GgufFile::open(folder.write("m.gguf", w.bytes())));
}
std::string refusal(const GgufWriter& w, ErrorKind kind) {
  return error_of([&] { config_of(w); }, kind);
}
// Every key of `expected` must be in `config` with the same value.
void expect_keys(const Json& config, const char* expected) {
  const Json wanted = Json::parse(expected);
  for (const auto& [key, value] : wanted.as_object()) {
    const Json* found = config.find(key);
    EXPECT_EQ(found ? found->dump() : "(absent)", value.dump()) << key;
  }
}

TEST(GgufConfig, Llama) {
  const Json config = config_of(writer("llama").set("llama.rope.freq_base", 500000.0f).set("llama.rope.dimension_count", 8).floats("output.weight", {6, 32}));
  EXPECT_EQ(config.dump(),
            R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 4, )"
            R"("num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8, "max_position_embeddings": 96, "vocab_size": 6, )"
            R"("tie_word_embeddings": false, "hidden_act": "silu", "rope_theta": 500000.0, "rope_scaling": null, "rms_norm_eps": 1e-06, )"
            R"("attention_bias": false, "mlp_bias": false, "bos_token_id": null, "eos_token_id": null, "pad_token_id": null, "torch_dtype": "float32"})");
}

TEST(GgufConfig, TakesHeadSizeTypeAndTiesFromTheFile) {
  const Json config = config_of(writer("llama")
                                    .set("llama.attention.key_length", 16)
                                    .tensor("blk.0.attn_q.weight", 1, {64, 32}, std::string(4096, '\0'))
                                    .floats("blk.0.attn_q.bias", {64}));
  expect_keys(config, R"({"head_dim": 16, "tie_word_embeddings": true, "attention_bias": true, "rope_theta": 10000.0, "torch_dtype": "float16"})");
}

TEST(GgufConfig, Families) {
  expect_keys(config_of(writer("qwen2")), R"({"model_type": "qwen2", "rms_norm_eps": 1e-06, "use_sliding_window": false})");
  expect_keys(config_of(writer("qwen3")), R"({"model_type": "qwen3", "attention_bias": false})");
  expect_keys(config_of(writer("starcoder2")), R"({"model_type": "starcoder2", "norm_epsilon": 1e-05, "use_bias": false, "hidden_act": "gelu_pytorch_tanh"})");
  expect_keys(config_of(writer("smollm3")), R"({"model_type": "smollm3", "no_rope_layers": [1, 1, 1, 0]})");
  expect_keys(config_of(writer("stablelm").set("stablelm.rope.dimension_count", 2).floats("blk.0.ffn_norm.weight", {32})),
              R"({"model_type": "stablelm", "layer_norm_eps": 1e-05, "partial_rotary_factor": 0.25, "use_parallel_residual": false, "qk_layernorm": false})");
  expect_keys(config_of(writer("granite")
                            .set("granite.attention.scale", 0.25f)
                            .set("granite.embedding_scale", 12.0f)
                            .set("granite.residual_scale", 0.22f)
                            .set("granite.logit_scale", 8.0f)),
              R"({"attention_multiplier": 0.25, "embedding_multiplier": 12.0, "residual_multiplier": 0.22, "logits_scaling": 8.0})");
  expect_keys(config_of(writer("olmo2")), R"({"model_type": "olmo2", "rope_theta": 10000.0})");
}

TEST(GgufConfig, Gemma) {
  expect_keys(config_of(writer("gemma")), R"({"model_type": "gemma", "hidden_activation": "gelu_pytorch_tanh"})");
  expect_keys(
      config_of(writer("gemma2").set("gemma2.attn_logit_softcapping", 40.0f).set("gemma2.attention.sliding_window", 16).set("gemma2.attention.key_length", 16)),
      R"({"model_type": "gemma2", "attn_logit_softcapping": 40.0, "final_logit_softcapping": 30.0, "sliding_window": 16, "query_pre_attn_scalar": 16,
                  "layer_types": ["sliding_attention", "full_attention", "sliding_attention", "full_attention"]})");
  const Json gemma3 = config_of(writer("gemma3")
                                    .set("gemma3.attention.sliding_window", 5)
                                    .set("gemma3.attention.sliding_window_pattern", 3)
                                    .set("gemma3.rope.scaling.type", "linear")
                                    .set("gemma3.rope.scaling.factor", 8.0f));
  expect_keys(gemma3, R"({"model_type": "gemma3_text", "sliding_window": 5, "query_pre_attn_scalar": 8,
                          "layer_types": ["sliding_attention", "sliding_attention", "full_attention", "sliding_attention"],
                          "rope_parameters": {"full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1000000.0},
                                              "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0}}})");
  EXPECT_EQ(gemma3.find("rope_theta"), nullptr);
  EXPECT_EQ(gemma3.find("rope_scaling"), nullptr);
  EXPECT_THAT(refusal(writer("gemma3"), ErrorKind::corrupt_file), HasSubstr("gemma3.attention.sliding_window is absent"));
}

TEST(GgufConfig, Olmo3IsOlmo2WithAWindow) {
  GgufWriter w = writer("olmo2").set("olmo2.attention.sliding_window", 5).set("olmo2.rope.freq_base", 500000.0f);
  std::string flags;
  GgufWriter::append<std::uint32_t>(flags, 7);
  GgufWriter::append<std::uint64_t>(flags, 4);
  w.raw("olmo2.attention.sliding_window_pattern", 9, flags + std::string("\1\1\0\1", 4));
  expect_keys(config_of(w),
              R"({"model_type": "olmo3", "sliding_window": 5, "layer_types": ["sliding_attention", "sliding_attention", "full_attention", "sliding_attention"],
                               "rope_parameters": {"full_attention": {"rope_type": "default", "rope_theta": 500000.0},
                                                   "sliding_attention": {"rope_type": "default", "rope_theta": 500000.0}}})");
}

TEST(GgufConfig, Experts) {
  expect_keys(config_of(writer("llama").set("llama.expert_count", 8).set("llama.expert_used_count", 2)),
              R"({"model_type": "mixtral", "architectures": ["MixtralForCausalLM"], "num_local_experts": 8, "num_experts_per_tok": 2})");
  expect_keys(config_of(writer("qwen3moe").set("qwen3moe.expert_count", 4).set("qwen3moe.expert_used_count", 2).set("qwen3moe.expert_feed_forward_length", 48)),
              R"({"model_type": "qwen3_moe", "num_experts": 4, "moe_intermediate_size": 48, "norm_topk_prob": true})");
  expect_keys(
      config_of(writer("qwen2moe").set("qwen2moe.expert_count", 4).set("qwen2moe.expert_used_count", 2).set("qwen2moe.expert_shared_feed_forward_length", 72)),
      R"({"model_type": "qwen2_moe", "shared_expert_intermediate_size": 72, "norm_topk_prob": false})");
}

TEST(GgufConfig, Phi3) {
  expect_keys(
      config_of(
          writer("phi3").set("phi3.attention.sliding_window", 0).set("phi3.rope.scaling.original_context_length", 32).set("phi3.rope.dimension_count", 6)),
      R"({"model_type": "phi3", "sliding_window": null, "original_max_position_embeddings": 32, "partial_rotary_factor": 0.75, "rope_scaling": null})");
  GgufWriter w =
      writer("phi3").set("phi3.attention.sliding_window", 47).set("phi3.rope.scaling.original_context_length", 32).set("phi3.rope.scaling.attn_factor", 1.19f);
  w.floats("rope_factors_long.weight", {4}, 1.05f).floats("rope_factors_short.weight", {4}, 1);
  expect_keys(config_of(w), R"({"sliding_window": 47, "rope_scaling": {"rope_type": "longrope", "type": "longrope", "long_factor": [1.05, 2.05, 3.05, 4.05],
                                "short_factor": [1.0, 2.0, 3.0, 4.0], "original_max_position_embeddings": 32}})");
}

TEST(GgufConfig, RopeScalingByKeys) {
  expect_keys(config_of(writer("llama").set("llama.rope.scaling.type", "linear").set("llama.rope.scaling.factor", 4.0f)),
              R"({"rope_scaling": {"rope_type": "linear", "factor": 4.0}})");
  expect_keys(config_of(writer("llama").set("llama.rope.scale_linear", 2.0f)), R"({"rope_scaling": {"rope_type": "linear", "factor": 2.0}})");
  expect_keys(config_of(writer("llama").set("llama.rope.scaling.type", "none")), R"({"rope_scaling": null})");
  expect_keys(config_of(writer("qwen2")
                            .set("qwen2.rope.scaling.type", "yarn")
                            .set("qwen2.rope.scaling.factor", 4.0f)
                            .set("qwen2.rope.scaling.original_context_length", 32)
                            .set("qwen2.rope.scaling.yarn_beta_fast", 16.0f)),
              R"({"rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32, "beta_fast": 16.0}})");
  EXPECT_EQ(refusal(writer("llama").set("llama.rope.scaling.type", "odd").set("llama.rope.scaling.factor", 2.0f), ErrorKind::unsupported),
            "rope scaling odd is not supported (linear, yarn, longrope and llama3 are)");
  EXPECT_EQ(refusal(writer("llama").set("llama.rope.scaling.type", "yarn"), ErrorKind::corrupt_file),
            "metadata llama.rope.scaling.factor is absent or not positive");
}

GgufWriter with_freqs(std::vector<double> factors) {
  std::string bytes;
  for (double f : factors) GgufWriter::append(bytes, static_cast<float>(f));
  return writer("llama")
      .set("llama.attention.key_length", 64)
      .set("llama.rope.freq_base", 500000.0f)
      .tensor("rope_freqs.weight", 0, {static_cast<std::int64_t>(factors.size())}, bytes);
}

TEST(GgufConfig, Llama3FactorsAreThoseOfTheConverter) {
  const std::vector<double> factors = llama3_rope_factors(128, 500000, 8, 1, 4, 8192);  // Llama 3.1 8B
  ASSERT_EQ(factors.size(), 64u);
  EXPECT_EQ(factors[28], 1);
  EXPECT_NEAR(factors[29], 1.207483871283662, 1e-12);
  EXPECT_NEAR(factors[34], 5.257326588708467, 1e-12);
  EXPECT_EQ(factors[35], 8);
}

TEST(GgufConfig, RecoversLlama3Scaling) {
  for (double factor : {8.0, 32.0}) {
    const std::vector<double> factors = llama3_rope_factors(64, 500000, factor, 1, 4, 8192);
    EXPECT_EQ(factors.front(), 1);
    EXPECT_EQ(factors.back(), factor);
    expect_keys(config_of(with_freqs(factors)), fmt::format(R"({{"rope_scaling": {{"rope_type": "llama3", "factor": {:.1f}, "low_freq_factor": 1.0,
                "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}}}})",
                                                            factor)
                                                    .c_str());
  }
  expect_keys(config_of(with_freqs(std::vector<double>(32, 1))), R"({"rope_scaling": null})");
  EXPECT_THAT(refusal(with_freqs(llama3_rope_factors(64, 500000, 8, 1, 4, 4096)), ErrorKind::unsupported), HasSubstr("rope scaling of another kind"));
  EXPECT_EQ(refusal(with_freqs({1, 2}), ErrorKind::corrupt_file), "tensor rope_freqs.weight is 2 x f32, expected 32 x f32");
  EXPECT_THAT(refusal(with_freqs(std::vector<double>(32, 0)), ErrorKind::corrupt_file), HasSubstr("holds 0, expected positive factors"));
}

TEST(GgufConfig, RefusesWhatDoesNotFit) {
  EXPECT_EQ(refusal(writer("llama").set("llama.rope.dimension_count", 4), ErrorKind::unsupported),
            "rope on 4 of 8 elements of a head is not supported for architecture llama");
  EXPECT_EQ(refusal(writer("phi3").set("phi3.rope.dimension_count", 16), ErrorKind::corrupt_file), "rope on 16 elements of a head of 8");
  EXPECT_EQ(refusal(writer("llama").set("llama.attention.value_length", 4), ErrorKind::unsupported),
            "value heads of 4 beside key heads of 8 are not supported");
  EXPECT_EQ(refusal(writer("llama").set("llama.rope.freq_base", -1.0f), ErrorKind::corrupt_file), "metadata llama.rope.freq_base is -1");
  EXPECT_THAT(refusal(writer("bert"), ErrorKind::unsupported), HasSubstr("architecture bert is not supported; these are: gemma"));

  GgufWriter no_embedding;
  no_embedding.set("general.architecture", "llama");
  EXPECT_THAT(refusal(no_embedding, ErrorKind::corrupt_file), HasSubstr("there is no matrix token_embd.weight"));
  EXPECT_EQ(refusal(no_embedding.floats("token_embd.weight", {6, 32}), ErrorKind::corrupt_file), "metadata llama.embedding_length is absent");
  EXPECT_EQ(refusal(no_embedding.set("llama.embedding_length", 16), ErrorKind::corrupt_file),
            "token_embd.weight has 32 columns, expected 16 (llama.embedding_length)");
  GgufWriter zero;
  zero.set("general.architecture", "llama").set("llama.embedding_length", 32).set("llama.block_count", 0).floats("token_embd.weight", {6, 32});
  EXPECT_EQ(refusal(zero, ErrorKind::corrupt_file), "metadata llama.block_count is 0, expected a positive number");
}

TEST(GgufFiles, OfAWholeModel) {
  const GgufFiles files = files_from_gguf(*GgufFile::open(fs::path(MOBIUS_TESTDATA) / "gguf" / "tiny_llama.gguf"));
  expect_keys(files.config, R"({"model_type": "llama", "hidden_size": 32, "num_hidden_layers": 2, "vocab_size": 102, "bos_token_id": 1, "eos_token_id": 2})");
  std::vector<std::string> names;
  for (const auto& [name, content] : files.files) {
    names.push_back(name);
    if (name.ends_with(".json")) {
      EXPECT_TRUE(Json::parse(content).is_object()) << name;
    }
  }
  EXPECT_THAT(names,
              testing::ElementsAre("generation_config.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "chat_template.jinja"));
  EXPECT_EQ(files.files.back().second, "{% for m in messages %}{{ m['content'] }}{% endfor %}");
  EXPECT_EQ(files.generation_config.dump(), R"({"_from_model_config": true, "bos_token_id": 1, "eos_token_id": [2, 0], "pad_token_id": 2})");

  const GgufFiles gemma = files_from_gguf(*GgufFile::open(fs::path(MOBIUS_TESTDATA) / "gguf" / "tiny_gemma3.gguf"));
  expect_keys(gemma.config, R"({"model_type": "gemma3_text", "head_dim": 8, "pad_token_id": 0, "torch_dtype": "float16"})");
  EXPECT_EQ(gemma.files.size(), 4u);
}

TEST(GgufFiles, WithoutATokenizer) {
  TempFolder folder;
  const GgufFiles files = files_from_gguf(*GgufFile::open(folder.write("m.gguf", writer("llama").bytes())));
  ASSERT_EQ(files.files.size(), 1u);
  EXPECT_EQ(files.files[0].first, "generation_config.json");
  EXPECT_EQ(files.generation_config.dump(), R"({"_from_model_config": true})");
}

}  // namespace
}  // namespace mobius::package
