// Names and layouts of GGUF tensors, architecture by architecture.
#include "mobius/weights/gguf_names.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mobius/base/error.hpp"
#include "mobius/formats/gguf_test_writer.hpp"

namespace mobius::weights {
namespace {

using formats::GgufFile;
using formats::GgufWriter;
using formats::TempFolder;
using testing::ElementsAre;
using testing::HasSubstr;

struct Model {
  TempFolder folder;
  std::shared_ptr<const GgufFile> gguf;
  std::vector<GgufWeight> weights;

  explicit Model(const GgufWriter& w) : gguf(GgufFile::open(folder.write("m.gguf", w.bytes()))), weights(hugging_face_weights(*gguf)) {}

  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const GgufWeight& w : weights) names.push_back(w.name);
    return names;
  }
  ir::TensorPtr tensor(std::string_view name) const {
    for (const GgufWeight& w : weights) {
      if (w.name == name) return load(*gguf, w);
    }
    return nullptr;
  }
  std::vector<double> values(std::string_view name) const { return ir::as_doubles(*tensor(name)).value(); }
};

GgufWriter writer(const char* architecture, int heads = 1, int kv_heads = 1) {
  GgufWriter w;
  w.set("general.architecture", architecture);
  return w.set(fmt::format("{}.attention.head_count", architecture), heads).set(fmt::format("{}.attention.head_count_kv", architecture), kv_heads);
}

TEST(GgufNames, UndoesTheInterleavingOfLlama) {
  // Two query heads and one key head of four rows; the converter stored rows 0 2 1 3 of each head.
  const Model m(writer("llama", 2, 1)
                    .floats("blk.1.attn_q.weight", {8, 1})
                    .floats("blk.1.attn_k.weight", {4, 1})
                    .floats("blk.1.attn_q.bias", {8})
                    .floats("blk.1.attn_v.weight", {4, 1}));
  EXPECT_THAT(m.values("model.layers.1.self_attn.q_proj.weight"), ElementsAre(0, 2, 1, 3, 4, 6, 5, 7));
  EXPECT_THAT(m.values("model.layers.1.self_attn.q_proj.bias"), ElementsAre(0, 2, 1, 3, 4, 6, 5, 7));
  EXPECT_THAT(m.values("model.layers.1.self_attn.k_proj.weight"), ElementsAre(0, 2, 1, 3));
  EXPECT_THAT(m.values("model.layers.1.self_attn.v_proj.weight"), ElementsAre(0, 1, 2, 3));

  const Model wide(writer("llama").floats("blk.0.attn_q.weight", {6, 1}));
  EXPECT_THAT(wide.values("model.layers.0.self_attn.q_proj.weight"), ElementsAre(0, 2, 4, 1, 3, 5));
  const Model qwen(writer("qwen2").floats("blk.0.attn_q.weight", {6, 1}));
  EXPECT_THAT(qwen.values("model.layers.0.self_attn.q_proj.weight"), ElementsAre(0, 1, 2, 3, 4, 5));
}

TEST(GgufNames, UndoesTheNormsOfGemma) {
  for (const char* name : {"gemma", "gemma2", "gemma3"}) {
    const Model m(writer(name).floats("blk.0.attn_norm.weight", {2}, 1).floats("output_norm.weight", {2}, 0.5f));
    EXPECT_THAT(m.values("model.layers.0.input_layernorm.weight"), ElementsAre(0, 1)) << name;
    EXPECT_THAT(m.values("model.norm.weight"), ElementsAre(-0.5, 0.5)) << name;
  }
  const Model llama(writer("llama").floats("output_norm.weight", {2}, 1));
  EXPECT_THAT(llama.values("model.norm.weight"), ElementsAre(1, 2));
}

TEST(GgufNames, TellsTheNormsOfGemmaApart) {
  GgufWriter w = writer("gemma3");
  for (const char* role : {"attn_norm", "post_attention_norm", "ffn_norm", "post_ffw_norm", "attn_q_norm", "attn_k_norm"}) {
    w.floats(fmt::format("blk.12.{}.weight", role), {1});
  }
  EXPECT_THAT(Model(w).names(), ElementsAre("model.layers.12.input_layernorm.weight", "model.layers.12.post_attention_layernorm.weight",
                                            "model.layers.12.post_feedforward_layernorm.weight", "model.layers.12.pre_feedforward_layernorm.weight",
                                            "model.layers.12.self_attn.k_norm.weight", "model.layers.12.self_attn.q_norm.weight"));
}

TEST(GgufNames, SplitsExperts) {
  const Model mixtral(writer("llama").floats("blk.0.ffn_gate_exps.weight", {2, 2, 1}).floats("blk.0.ffn_gate_inp.weight", {2, 1}));
  EXPECT_THAT(mixtral.names(), ElementsAre("model.layers.0.block_sparse_moe.experts.0.w1.weight", "model.layers.0.block_sparse_moe.experts.1.w1.weight",
                                           "model.layers.0.block_sparse_moe.gate.weight"));
  EXPECT_THAT(mixtral.tensor("model.layers.0.block_sparse_moe.experts.1.w1.weight")->dims(), ElementsAre(2, 1));
  EXPECT_THAT(mixtral.values("model.layers.0.block_sparse_moe.experts.1.w1.weight"), ElementsAre(2, 3));

  const Model qwen(writer("qwen2moe").floats("blk.0.ffn_gate_inp_shexp.weight", {3}).floats("blk.0.ffn_up_exps.weight", {1, 2, 1}));
  EXPECT_THAT(qwen.tensor("model.layers.0.mlp.shared_expert_gate.weight")->dims(), ElementsAre(1, 3));
  EXPECT_THAT(qwen.names(), ElementsAre("model.layers.0.mlp.experts.0.up_proj.weight", "model.layers.0.mlp.shared_expert_gate.weight"));

  const Model stablelm(writer("stablelm").floats("blk.3.attn_q_norm.weight", {2, 3}));
  EXPECT_THAT(stablelm.values("model.layers.3.self_attn.q_layernorm.norms.1.weight"), ElementsAre(3, 4, 5));
}

TEST(GgufNames, LeavesRopeTablesToTheConfig) {
  const Model m(writer("phi3")
                    .floats("rope_freqs.weight", {2})
                    .floats("rope_factors_long.weight", {2})
                    .floats("rope_factors_short.weight", {2})
                    .floats("blk.0.attn_rot_embd.weight", {2})
                    .floats("blk.0.ffn_up.weight", {2, 2}));
  EXPECT_THAT(m.names(), ElementsAre("model.layers.0.mlp.gate_up_proj.weight"));
}

TEST(GgufNames, RefusesWhatItCannotPlace) {
  const auto error_of = [](const GgufWriter& w, ErrorKind kind) -> std::string {
    try {
      Model m(w);
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), kind);
      return e.what();
    }
    return "no error";
  };
  for (const char* name : {"blk.0.ffn_gate_inp.weight", "blk.x.attn_q.weight", "blk.0.attn_q.scale", "blk.1234567.attn_q.weight", "blk.attn_q.weight",
                           "position_embd.weight", "output"}) {
    EXPECT_EQ(error_of(writer("qwen3").floats(name, {2, 1}), ErrorKind::unsupported),
              fmt::format("tensor {} has no place in a model of architecture qwen3", name));
  }
  EXPECT_THAT(error_of(writer("mamba"), ErrorKind::unsupported), HasSubstr("a GGUF file of architecture mamba is not supported; these are: gemma, gemma2"));
  EXPECT_THAT(error_of(GgufWriter(), ErrorKind::unsupported), HasSubstr("architecture (none)"));
  EXPECT_EQ(error_of(writer("llama", 3).floats("blk.0.attn_q.weight", {8, 1}), ErrorKind::corrupt_file),
            "tensor blk.0.attn_q.weight has 8 rows, which 3 heads can't share");
  EXPECT_EQ(error_of(writer("llama", 0).floats("blk.0.attn_q.weight", {8, 1}), ErrorKind::corrupt_file),
            "tensor blk.0.attn_q.weight has 8 rows, which 0 heads can't share");
  EXPECT_EQ(error_of(GgufWriter().set("general.architecture", "llama").floats("blk.0.attn_q.weight", {8, 1}), ErrorKind::corrupt_file),
            "metadata llama.attention.head_count is absent");
  EXPECT_THAT(error_of(writer("llama").floats("blk.0.ffn_up_exps.weight", {4}), ErrorKind::corrupt_file), HasSubstr("has 1 dimensions, expected more"));
}

TEST(GgufNames, KnowsItsArchitectures) {
  EXPECT_TRUE(is_known_gguf_architecture("qwen3"));
  EXPECT_FALSE(is_known_gguf_architecture("rwkv"));
  EXPECT_EQ(known_gguf_architectures(), "gemma, gemma2, gemma3, granite, llama, olmo2, phi3, qwen2, qwen2moe, qwen3, qwen3moe, smollm3, stablelm, starcoder2");
}

}  // namespace
}  // namespace mobius::weights
