// Where a package may be written, what it replaces, and what is left when writing fails.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "mobius/base/error_of_test.hpp"
#include "mobius/formats/onnx_reader.hpp"
#include "mobius/package/metadata.hpp"
#include "mobius/package/package.hpp"

namespace mobius {
namespace {

using ir::DataType;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::UnorderedElementsAre;

class Save : public testing::Test {
 protected:
  void SetUp() override {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    root_ = fs::canonical(testing::TempDir()) / (std::string("save_") + test->name());
    fs::remove_all(root_);
    fs::create_directories(root_ / "source");
    write_text_file(root_ / "source" / "config.json", "{}");
  }
  void TearDown() override { fs::remove_all(root_); }

  // y = x · w, with a weight that is large enough to be stored beside the graph.
  ModelPackage package(float value = 1, std::vector<std::string> names = {"model"}) const {
    ModelPackage p;
    for (auto& name : names) {
      Component component{name, "decoder", {}};
      auto& g = *component.model.graph;
      component.model.opset_imports[""] = 24;
      auto* x = g.add_input("x", {DataType::float32, ir::Shape{"batch", 32}});
      const std::vector<float> weight(32 * 64, value);
      auto* w = g.add_initializer("w", ir::make_tensor({32, 64}, std::span<const float>(weight)));
      auto* y = g.append({"", "MatMul"}, {x, w})->output();
      y->type = {DataType::float32, ir::Shape{"batch", 64}};
      g.add_output(y);
      package::describe(component, {.source_name = "source", .source_id = "sha256:0", .model_type = "test", .ep = "default", .task = "none"});
      p.components().push_back(std::move(component));
    }
    p.files().push_back({"config.json", std::string("{\"model_type\": \"test\"}\n")});
    p.sources.push_back(root_ / "source");
    return p;
  }

  static std::vector<std::string> names_in(const fs::path& folder) {
    std::vector<std::string> names;
    for (const auto& entry : fs::recursive_directory_iterator(folder)) {
      if (!entry.is_directory()) names.push_back(entry.path().lexically_relative(folder).string());
    }
    std::ranges::sort(names);
    return names;
  }

  std::string refusal(const fs::path& target, const SaveOptions& options = {}) const {
    const auto before = names_in(root_);
    const auto error = error_of([&] { package().save(target, options); }, ErrorKind::invalid_argument);
    EXPECT_EQ(names_in(root_), before);
    EXPECT_EQ(error_of([&] { package().check_target(target, options); }, ErrorKind::invalid_argument), error);
    return error;
  }

  fs::path root_;
};

TEST_F(Save, WritesWhatItPlans) {
  const auto p = package();
  const auto planned = p.plan();
  EXPECT_TRUE(names_in(root_ / "source").size() == 1);
  const auto written = p.save(root_ / "out");
  ASSERT_EQ(planned.size(), written.size());
  for (std::size_t i = 0; i < planned.size(); ++i) {
    EXPECT_EQ(planned[i].name, written[i].name);
    EXPECT_EQ(planned[i].size, written[i].size);
    EXPECT_EQ(fs::file_size(root_ / "out" / planned[i].name), planned[i].size) << planned[i].name;
  }
  EXPECT_THAT(names_in(root_ / "out"), ElementsAre("config.json", "model.onnx", "model.onnx.data"));
  EXPECT_THAT(names_in(root_), UnorderedElementsAre("source/config.json", "out/config.json", "out/model.onnx", "out/model.onnx.data"));
}

TEST_F(Save, SeveralComponentsHaveFoldersAndCountProgressTogether) {
  std::vector<std::pair<std::uint64_t, std::uint64_t>> seen;
  package(1, {"encoder", "decoder"}).save(root_ / "out", {.progress = [&](auto done, auto total) { seen.emplace_back(done, total); }});
  EXPECT_THAT(names_in(root_ / "out"),
              ElementsAre("config.json", "decoder/model.onnx", "decoder/model.onnx.data", "encoder/model.onnx", "encoder/model.onnx.data"));
  ASSERT_FALSE(seen.empty());
  EXPECT_TRUE(std::ranges::is_sorted(seen));
  EXPECT_EQ(seen.back().first, seen.back().second);
  const auto models = packaged_models(root_ / "out");
  ASSERT_EQ(models.size(), 2u);
  EXPECT_EQ(models[0].component, "decoder");
  EXPECT_EQ(models[1].component, "encoder");
}

TEST_F(Save, StoresWeightsAsSafetensors) {
  package().save(root_ / "out", {.external_data = "safetensors"});
  EXPECT_THAT(names_in(root_ / "out"), ElementsAre("config.json", "model.onnx", "model.safetensors"));
  EXPECT_THAT(error_of([&] { package().save(root_ / "out2", {.external_data = "hdf5"}); }, ErrorKind::invalid_argument), HasSubstr("onnx or safetensors"));
}

TEST_F(Save, WithoutWeightsThereIsNoDataFile) {
  auto p = package();
  p.has_weights = false;
  p.save(root_ / "out");
  EXPECT_THAT(names_in(root_ / "out"), ElementsAre("config.json", "model.onnx"));
  EXPECT_EQ(packaged_models(root_ / "out").size(), 1u);
}

TEST_F(Save, ReplacesAPackage) {
  package(1).save(root_ / "out");
  const auto old = read_text_file(root_ / "out" / "model.onnx.data");
  package(2).save(root_ / "out");
  EXPECT_NE(read_text_file(root_ / "out" / "model.onnx.data"), old);
  EXPECT_EQ(names_in(root_).size(), 4u);
}

TEST_F(Save, FillsAnEmptyFolderAndMakesParents) {
  fs::create_directories(root_ / "empty");
  package().save(root_ / "empty");
  package().save(root_ / "a" / "b" / "c/");
  EXPECT_TRUE(fs::exists(root_ / "a" / "b" / "c" / "model.onnx"));
}

TEST_F(Save, RefusesAFolderThatIsNoPackage) {
  fs::create_directories(root_ / "docs");
  write_text_file(root_ / "docs" / "thesis.txt", "years of work");
  EXPECT_THAT(refusal(root_ / "docs"), HasSubstr("holds no package"));
  package().save(root_ / "docs", {.force = true});
  EXPECT_THAT(names_in(root_ / "docs"), ElementsAre("config.json", "model.onnx", "model.onnx.data"));
}

TEST_F(Save, AModelOfOthersIsNoPackage) {
  fs::create_directories(root_ / "other");
  write_text_file(root_ / "other" / "model.onnx", "");
  EXPECT_THAT(refusal(root_ / "other"), HasSubstr("holds no package"));
}

TEST_F(Save, RefusesToLoseFilesThatAreNotThePackages) {
  package().save(root_ / "out");
  write_text_file(root_ / "out" / "notes.txt", "mine");
  EXPECT_THAT(refusal(root_ / "out"), HasSubstr("notes.txt is not part of a package"));
  fs::remove(root_ / "out" / "notes.txt");
  fs::create_directories(root_ / "out" / "images");
  EXPECT_THAT(refusal(root_ / "out"), HasSubstr("images is not part of a package"));
}

TEST_F(Save, RefusesAFileInThePlaceOfTheFolder) {
  write_text_file(root_ / "out", "text");
  EXPECT_THAT(refusal(root_ / "out", {.force = true}), HasSubstr("is a file, expected a folder"));
}

TEST_F(Save, RefusesItsSource) {
  EXPECT_THAT(refusal(root_ / "source", {.force = true}), HasSubstr("is the model that is read"));
  EXPECT_THAT(refusal(root_ / "source" / "." / "", {.force = true}), HasSubstr("is the model that is read"));
  EXPECT_THAT(refusal(root_ / "source" / "onnx", {.force = true}), HasSubstr("lies in the model that is read"));
  EXPECT_THAT(refusal(root_, {.force = true}), HasSubstr("holds the model that is read"));
  fs::create_directory_symlink(root_ / "source", root_ / "link");
  EXPECT_THAT(refusal(root_ / "link", {.force = true}), HasSubstr("is the model that is read"));
}

TEST_F(Save, RefusesWhatLinksOfItsSourcePointTo) {
  fs::create_directories(root_ / "blobs");
  write_text_file(root_ / "blobs" / "1a2b", "{}");
  auto p = package();
  p.sources.push_back(root_ / "blobs" / "1a2b");
  EXPECT_THAT(error_of([&] { p.save(root_ / "blobs", {.force = true}); }, ErrorKind::invalid_argument), HasSubstr("holds the model that is read"));
}

TEST_F(Save, RefusesAFolderThatHoldsTheCurrentOne) {
  fs::create_directories(root_ / "a" / "b");
  const auto before = fs::current_path();
  fs::current_path(root_ / "a" / "b");
  EXPECT_THAT(error_of([&] { package().save(root_ / "a", {.force = true}); }, ErrorKind::invalid_argument), HasSubstr("holds the current folder"));
  package().save(".");
  fs::current_path(before);
  EXPECT_TRUE(fs::exists(root_ / "a" / "b" / "model.onnx"));
}

TEST_F(Save, FollowsALinkToTheFolder) {
  fs::create_directories(root_ / "disk");
  fs::create_directory_symlink(root_ / "disk", root_ / "out");
  package().save(root_ / "out");
  EXPECT_TRUE(fs::is_symlink(root_ / "out"));
  EXPECT_TRUE(fs::exists(root_ / "disk" / "model.onnx"));
}

TEST_F(Save, CopiesWhatLinksPointTo) {
  write_text_file(root_ / "blob", "words");
  fs::create_symlink(root_ / "blob", root_ / "source" / "tokenizer.json");
  auto p = package();
  p.files().push_back({"tokenizer.json", root_ / "source" / "tokenizer.json"});
  p.save(root_ / "out");
  EXPECT_FALSE(fs::is_symlink(root_ / "out" / "tokenizer.json"));
  EXPECT_EQ(read_text_file(root_ / "out" / "tokenizer.json"), "words");
}

TEST_F(Save, WhenStoppedTheOldPackageStaysAndNothingElse) {
  package(1).save(root_ / "out");
  const auto before = names_in(root_);
  const auto old = read_text_file(root_ / "out" / "model.onnx.data");
  const SaveOptions stopping{.progress = [](auto, auto) { fail(ErrorKind::cancelled, "interrupted"); }};
  error_of([&] { package(2).save(root_ / "out", stopping); }, ErrorKind::cancelled);
  EXPECT_EQ(names_in(root_), before);
  EXPECT_EQ(read_text_file(root_ / "out" / "model.onnx.data"), old);
  error_of([&] { package(2).save(root_ / "new" / "deep" / "out", stopping); }, ErrorKind::cancelled);
  EXPECT_FALSE(fs::exists(root_ / "new"));
}

TEST_F(Save, AFileThatVanishedFailsBeforeWriting) {
  auto p = package();
  p.files().push_back({"tokenizer.json", root_ / "source" / "tokenizer.json"});
  EXPECT_THAT(error_of([&] { p.save(root_ / "out"); }, ErrorKind::io), HasSubstr("tokenizer.json"));
  EXPECT_FALSE(fs::exists(root_ / "out"));
}

TEST_F(Save, RemovesWhatAKilledSaveLeft) {
  fs::create_directories(root_ / ".out.999999999.tmp");
  write_text_file(root_ / ".out.999999999.tmp" / "model.onnx.data", "half");
  package().save(root_ / "out");
  EXPECT_FALSE(fs::exists(root_ / ".out.999999999.tmp"));
}

TEST_F(Save, AFolderThatCannotBeMadeIsAnIoError) {
  write_text_file(root_ / "file", "text");
  EXPECT_THAT(error_of([&] { package().save(root_ / "file" / "out"); }, ErrorKind::io), HasSubstr("file is no folder"));
  EXPECT_THAT(error_of([&] { package().save("/proc/out"); }, ErrorKind::io), HasSubstr("/proc"));
}

TEST_F(Save, EqualPackagesHaveEqualBytes) {
  package().save(root_ / "a");
  package().save(root_ / "b");
  for (const auto& name : names_in(root_ / "a")) EXPECT_EQ(read_text_file(root_ / "a" / name), read_text_file(root_ / "b" / name)) << name;
}

TEST(Metadata, SaysWhereAModelComesFrom) {
  Component component{"model", "decoder", {}};
  component.model.opset_imports[""] = 24;
  package::describe(component, {.source_name = "org/m",
                                .source_id = "abc",
                                .model_type = "llama",
                                .ep = "cpu",
                                .dtype = DataType::float16,
                                .task = "text-generation",
                                .has_weights = false});
  const auto& m = component.model.metadata;
  EXPECT_EQ(component.model.producer_name, "mobius");
  EXPECT_FALSE(component.model.producer_version.empty());
  EXPECT_EQ(m.at("mobius.source"), "org/m");
  EXPECT_EQ(m.at("mobius.ep"), "cpu");
  EXPECT_EQ(m.at("mobius.dtype"), "f16");
  EXPECT_EQ(m.at("mobius.role"), "decoder");
  EXPECT_EQ(m.at("mobius.opset"), "24");
  EXPECT_EQ(m.at("mobius.min_onnxruntime"), "1.24");
  EXPECT_EQ(m.at("mobius.padding"), "any");
  EXPECT_EQ(m.at("mobius.weights"), "none");
}

TEST(Metadata, FusedAttentionPadsOnTheRight) {
  ir::Graph g;
  auto* x = g.add_input("x", {DataType::float32, ir::Shape{1}});
  EXPECT_EQ(package::padding_of(g), "any");
  g.append({"com.microsoft", "GroupQueryAttention"}, {x});
  EXPECT_EQ(package::padding_of(g), "right");
}

}  // namespace
}  // namespace mobius
