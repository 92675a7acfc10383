// Switches of the families in GPT's line that no checkpoint of the golden cases has: what is refused, and what becomes of the rest.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mobius/base/error_of_test.hpp"
#include "mobius/models/family.hpp"

namespace mobius {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

std::string built(std::string_view type, std::string_view keys) {
  const ConfigReader r(Json::parse(fmt::format(R"({{"model_type": "{}", {}}})", type, keys)));
  return ir::to_text(require_family(type).build(r, ir::DataType::float32)[0].model);
}
std::string refusal(std::string_view type, std::string_view keys) {
  return error_of([&] { built(type, keys); });
}

TEST(LayerNormFamilies, RefuseByNameWhatTheyDontBuild) {
  EXPECT_THAT(refusal("xlm", R"("n_layers": 1)"), HasSubstr("causal = false is not supported"));
  EXPECT_THAT(refusal("xlm", R"("n_layers": 1, "causal": true, "n_langs": 2)"), HasSubstr("n_langs above 1 with use_lang_emb"));
  EXPECT_THAT(refusal("mpt", R"("n_layers": 1, "attn_config": {"alibi": false})"), HasSubstr("alibi = false is not supported"));
  EXPECT_THAT(refusal("mpt", R"("n_layers": 1, "attn_config": {"alibi_bias_max": 16})"), HasSubstr("alibi_bias_max = 16 is not supported"));
  EXPECT_THAT(refusal("bloom", R"("pretraining_tp": 2, "slow_but_exact": true)"), HasSubstr("slow_but_exact = true is not supported"));
  EXPECT_EQ(refusal("bloom", R"("pretraining_tp": 1, "slow_but_exact": true)"), "no error");
  EXPECT_THAT(refusal("falcon", R"("num_hidden_layers": 1, "new_decoder_architecture": true, "parallel_attn": false, "num_kv_heads": 71)"),
              HasSubstr("new_decoder_architecture without parallel_attn"));
  EXPECT_THAT(refusal("falcon", R"("num_hidden_layers": 1, "num_ln_in_parallel_attn": 2)"), HasSubstr("num_ln_in_parallel_attn = 2 is not supported"));
  EXPECT_THAT(refusal("openai-gpt", R"("n_layer": 1, "afn": "gelu_new")"), HasSubstr("afn = 'gelu_new' is not supported"));
  EXPECT_THAT(refusal("gpt2", R"("n_layer": 1, "add_cross_attention": true)"), HasSubstr("add_cross_attention = true"));
  EXPECT_THAT(refusal("gptj", R"("n_layer": 1, "n_embd": 32, "n_head": 4, "rotary_dim": 10)"),
              HasSubstr("rotary_dim is 10, expected an even number of at most 8"));
  EXPECT_THAT(refusal("codegen", R"("n_layer": 1, "n_embd": 30, "n_head": 3, "rotary_dim": 4)"), HasSubstr("expected a multiple of 4"));
  EXPECT_THAT(refusal("gpt_neo", R"("num_layers": 3, "attention_types": [[["global", "local"], 1]])"), HasSubstr("expected as many kinds as num_layers, 3"));
  EXPECT_THAT(refusal("gpt_neo", R"("num_layers": 1, "attention_types": [[["nearby"], 1]])"), HasSubstr("attention_types has 'nearby'"));
  EXPECT_THAT(refusal("gpt_neo", R"("num_layers": 1, "attention_types": ["global"])"), HasSubstr("a list like"));
}

TEST(LayerNormFamilies, GPTNeoRepeatsItsKindsAsStated) {
  // Global, local, local: two masks, and the window in two layers.
  const auto text = built("gpt_neo", R"("num_layers": 3, "hidden_size": 32, "num_heads": 4, "attention_types": [[["global"], 1], [["local"], 2]])");
  EXPECT_EQ(text, built("gpt_neo", R"("num_layers": 3, "hidden_size": 32, "num_heads": 4, "attention_layers": ["global", "local", "local"])"));
  EXPECT_NE(text, built("gpt_neo", R"("num_layers": 3, "hidden_size": 32, "num_heads": 4)"));
  // The list by layer wins.
  EXPECT_EQ(text, built("gpt_neo", R"("num_layers": 3, "hidden_size": 32, "num_heads": 4, "attention_layers": ["global", "local", "local"],
                                      "attention_types": [[["local"], 3]])"));
}

TEST(LayerNormFamilies, OPTProjectsOnlyWhereWidthsDiffer) {
  const auto keys = R"("num_hidden_layers": 1, "hidden_size": 32, "num_attention_heads": 4, "ffn_dim": 64)";
  EXPECT_THAT(built("opt", keys), AllOf(Not(HasSubstr("project_in")), HasSubstr("decoder.final_layer_norm.weight")));
  EXPECT_THAT(built("opt", fmt::format(R"({}, "word_embed_proj_dim": 16)", keys)), AllOf(HasSubstr("project_in"), HasSubstr("project_out")));
  EXPECT_THAT(built("opt", fmt::format(R"({}, "do_layer_norm_before": false)", keys)), Not(HasSubstr("decoder.final_layer_norm.weight")));
}

}  // namespace
}  // namespace mobius
