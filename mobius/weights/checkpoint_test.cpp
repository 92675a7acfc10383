// Opening checkpoints: each layout, and the one clear message for each way in which a folder is not a checkpoint.
#include "mobius/weights/checkpoint.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mobius/base/error_of_test.hpp"
#include "mobius/formats/gguf_test_writer.hpp"

namespace mobius::weights {
namespace {

using formats::GgufWriter;
using formats::TempFolder;
using testing::ElementsAre;
using testing::HasSubstr;

// A safetensors file of U8 tensors with one element each, whose value is its position.
std::string safetensors(const std::vector<std::string>& names) {
  std::string header, data;
  for (std::size_t i = 0; i < names.size(); ++i) {
    header += fmt::format(R"({}"{}":{{"dtype":"U8","shape":[1],"data_offsets":[{},{}]}})", i ? "," : "", names[i], i, i + 1);
    data += static_cast<char>(i);
  }
  std::string bytes;
  header = "{" + header + "}";
  GgufWriter::append<std::uint64_t>(bytes, header.size());
  return bytes + header + data;
}

constexpr const char* index_of_two = R"({"metadata":{"total_size":3},"weight_map":
    {"a":"model-00001-of-00002.safetensors","b":"model-00002-of-00002.safetensors","c":"model-00001-of-00002.safetensors"}})";

std::string refusal(const fs::path& path, ErrorKind kind) {
  return error_of([&] { Checkpoint::open(path); }, kind);
}

TEST(Checkpoint, OpensOneFile) {
  TempFolder folder;
  const fs::path file = folder.write("model.safetensors", safetensors({"b", "a"}));
  folder.write("consolidated.safetensors", "not looked at");
  folder.write("adapter_config.json", "{}");
  for (const fs::path& path : {folder.path(), file}) {
    const Checkpoint c = Checkpoint::open(path);
    EXPECT_THAT(c.names(), ElementsAre("a", "b"));
    EXPECT_EQ(c.find("a")->bytes().front(), std::byte{1});
    EXPECT_EQ(c.find("x"), nullptr);
    EXPECT_TRUE(c.contains("b"));
    EXPECT_FALSE(c.contains("x"));
    EXPECT_EQ(c.origin("a"), "model.safetensors");
    EXPECT_EQ(c.origin("x"), "");
    EXPECT_EQ(c.gguf(), nullptr);
    EXPECT_EQ(c.provenance().revision, "");
    EXPECT_EQ(c.provenance().text(), fmt::format("model.safetensors ({} bytes)", fs::file_size(file)));
  }
}

TEST(Checkpoint, OpensShards) {
  TempFolder folder;
  folder.write("model.safetensors.index.json", index_of_two);
  folder.write("model-00001-of-00002.safetensors", safetensors({"a", "c", "not in the index"}));
  folder.write("model-00002-of-00002.safetensors", safetensors({"b"}));
  for (const fs::path& path : {folder.path(), folder.path() / "model.safetensors.index.json"}) {
    const Checkpoint c = Checkpoint::open(path);
    EXPECT_THAT(c.names(), ElementsAre("a", "b", "c"));
    EXPECT_EQ(c.find("c")->bytes().front(), std::byte{1});
    EXPECT_EQ(c.origin("b"), "model-00002-of-00002.safetensors");
    EXPECT_EQ(c.provenance().files.size(), 2u);
  }
}

TEST(Checkpoint, FollowsTheLinksOfTheHubCache) {
  TempFolder hub;
  hub.write("models--x--y/blobs/1234", safetensors({"a"}));
  const fs::path snapshot = hub.path() / "models--x--y/snapshots/0123abcd";
  fs::create_directories(snapshot);
  fs::create_symlink("../../blobs/1234", snapshot / "model.safetensors");
  const Checkpoint c = Checkpoint::open(snapshot);
  EXPECT_THAT(c.names(), ElementsAre("a"));
  EXPECT_EQ(c.origin("a"), "model.safetensors");
  EXPECT_EQ(c.provenance().revision, "0123abcd");
  EXPECT_EQ(Checkpoint::open(snapshot / "").provenance().revision, "0123abcd");
  EXPECT_THAT(c.provenance().text(), HasSubstr("revision 0123abcd: model.safetensors ("));

  fs::remove(hub.path() / "models--x--y/blobs/1234");
  EXPECT_THAT(refusal(snapshot, ErrorKind::not_found), HasSubstr("model.safetensors is a link to a file that is not there"));
}

TEST(Checkpoint, OpensGguf) {
  TempFolder folder;
  GgufWriter w;
  w.set("general.architecture", "llama").set("llama.attention.head_count", 1).set("llama.attention.head_count_kv", 1);
  w.floats("output_norm.weight", {4}).floats("blk.0.attn_q.weight", {4, 2}).floats("rope_freqs.weight", {2});
  const fs::path file = folder.write("tiny.gguf", w.bytes());
  const fs::path blob = folder.write("blobs/0a1b", w.bytes());
  folder.write("mmproj-tiny.gguf", "not looked at");
  for (const fs::path& path : {folder.path(), file, blob}) {
    const Checkpoint c = Checkpoint::open(path);
    EXPECT_THAT(c.names(), ElementsAre("model.layers.0.self_attn.q_proj.weight", "model.norm.weight"));
    EXPECT_THAT(ir::as_doubles(*c.find("model.layers.0.self_attn.q_proj.weight")).value(), ElementsAre(0, 1, 4, 5, 2, 3, 6, 7));
    EXPECT_EQ(c.origin("model.norm.weight"), path == blob ? "0a1b" : "tiny.gguf");
    EXPECT_NE(c.gguf(), nullptr);
  }
  folder.write("other.gguf", w.bytes());
  EXPECT_THAT(refusal(folder.path(), ErrorKind::invalid_argument), HasSubstr("holds 2 GGUF models; name one of them: other.gguf, tiny.gguf"));
}

TEST(Checkpoint, OpensSplitGguf) {
  const fs::path testdata = fs::path(MOBIUS_TESTDATA) / "gguf";
  TempFolder folder;
  for (const char* name : {"split-00001-of-00002.gguf", "split-00002-of-00002.gguf"}) folder.write(name, read_text_file(testdata / name));
  const Checkpoint c = Checkpoint::open(folder.path());
  EXPECT_THAT(c.names(), ElementsAre("lm_head.weight", "model.embed_tokens.weight", "model.norm.weight"));
  EXPECT_EQ(c.origin("lm_head.weight"), "split-00002-of-00002.gguf");
  EXPECT_EQ(c.provenance().files.size(), 2u);
}

TEST(Checkpoint, SaysWhatAFolderWithoutWeightsHolds) {
  EXPECT_THAT(refusal("/nonexistent/folder", ErrorKind::not_found), HasSubstr("/nonexistent/folder does not exist"));

  TempFolder folder;
  folder.write("config.json", "{}");
  folder.write("training_args.bin", "");
  EXPECT_THAT(refusal(folder.path(), ErrorKind::not_found), HasSubstr("holds no weights: expected model.safetensors"));
  EXPECT_THAT(refusal(folder.path() / "config.json", ErrorKind::unsupported), HasSubstr("is not a checkpoint"));

  folder.write("pytorch_model.bin", "");
  EXPECT_THAT(refusal(folder.path(), ErrorKind::unsupported),
              HasSubstr("weights in pytorch_model.bin only, which can't be read safely; convert them to safetensors"));

  folder.write("adapter_model.safetensors", "");
  EXPECT_THAT(refusal(folder.path(), ErrorKind::unsupported), HasSubstr("holds a LoRA adapter, not a model; its base model is not named"));
  folder.write("adapter_config.json", R"({"base_model_name_or_path":"meta-llama/Llama-2-7b-hf"})");
  EXPECT_THAT(refusal(folder.path(), ErrorKind::unsupported), HasSubstr("its base model is meta-llama/Llama-2-7b-hf"));
}

TEST(Checkpoint, NamesMissingShards) {
  TempFolder folder;
  folder.write("model.safetensors.index.json", index_of_two);
  folder.write("model-00002-of-00002.safetensors", "broken, but the missing one is said first");
  EXPECT_THAT(refusal(folder.path(), ErrorKind::not_found), HasSubstr("model-00001-of-00002.safetensors is missing; it should hold 2 tensors (a, c)"));
  fs::remove(folder.path() / "model-00002-of-00002.safetensors");
  EXPECT_THAT(refusal(folder.path(), ErrorKind::not_found), HasSubstr("; 2 of 2 shards are missing: model-00001-of-00002.safetensors, model-00002-of-00002"));
}

TEST(Checkpoint, RefusesAnIndexThatIsWrong) {
  TempFolder folder;
  folder.write("model-00001-of-00002.safetensors", safetensors({"a"}));
  folder.write("model-00002-of-00002.safetensors", safetensors({"b"}));
  const auto with = [&](std::string_view index) {
    folder.write("model.safetensors.index.json", index);
    return refusal(folder.path(), ErrorKind::corrupt_file);
  };
  EXPECT_THAT(with(index_of_two), HasSubstr("says that model-00001-of-00002.safetensors holds tensor c, but it does not"));
  EXPECT_THAT(with("{"), HasSubstr("model.safetensors.index.json: JSON"));
  EXPECT_THAT(with("{}"), HasSubstr("weight_map is absent, expected an object"));
  EXPECT_THAT(with(R"({"weight_map":[]})"), HasSubstr("weight_map is array, expected an object"));
  EXPECT_THAT(with(R"({"weight_map":{}})"), HasSubstr("weight_map names no tensors"));
  EXPECT_THAT(with(R"({"weight_map":{"a":1}})"), HasSubstr("the file of tensor a is integer, expected a string"));
  EXPECT_THAT(with(R"({"weight_map":{"a":"../x.safetensors"}})"), HasSubstr("which is not a file name"));
  EXPECT_THAT(with(R"({"weight_map":{"a":"/etc/passwd"}})"), HasSubstr("which is not a file name"));
  EXPECT_THAT(with(R"({"weight_map":{"a":""}})"), HasSubstr("which is not a file name"));
}

TEST(Checkpoint, NamesTheFileThatIsBroken) {
  TempFolder folder;
  folder.write("model.safetensors", std::string("\xff\xff\xff\xff\0\0\0\0{", 9));
  EXPECT_THAT(refusal(folder.path(), ErrorKind::corrupt_file), HasSubstr("model.safetensors: the header length 4294967295 is over"));
  TempFolder other;
  other.write("m.gguf", GgufWriter().set("general.architecture", "rwkv").bytes());
  EXPECT_THAT(refusal(other.path(), ErrorKind::unsupported), HasSubstr("m.gguf: a GGUF file of architecture rwkv is not supported; these are: gemma"));
}

}  // namespace
}  // namespace mobius::weights
