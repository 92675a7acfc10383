// Paths, ids and revisions, against a cache made up in a temporary folder.
#include "mobius/hub/resolve.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>

#include "mobius/base/error_of_test.hpp"

namespace mobius::hub {
namespace {

using testing::HasSubstr;
using testing::Not;

const std::string commit_1(40, 'a');
const std::string commit_2 = std::string(39, 'b') + "0";

class Resolve : public testing::Test {
 protected:
  void SetUp() override {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    root_ = fs::path(testing::TempDir()) / (std::string("resolve_") + test->name());
    fs::remove_all(root_);
    fs::create_directories(root_);
    for (const char* name : {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME", "HOME"}) {
      const auto value = environment(name);
      before_.emplace_back(name, value);
      ::unsetenv(name);
    }
    ::setenv("HF_HUB_CACHE", (root_ / "hub").c_str(), 1);
    add("org/model", "main", commit_1);
    add("org/model", "v1.0", commit_2);
    add("gpt2", "main", commit_1);
  }
  void TearDown() override {
    for (const auto& [name, value] : before_) {
      if (value) ::setenv(name, value->c_str(), 1);
      else ::unsetenv(name);
    }
    fs::remove_all(root_);
  }

  void add(const std::string& id, const std::string& ref, const std::string& commit) {
    std::string name = "models--" + id;
    if (const auto slash = name.find('/'); slash != name.npos) name.replace(slash, 1, "--");
    const fs::path repository = root_ / "hub" / name;
    fs::create_directories(repository / "snapshots" / commit);
    fs::create_directories((repository / "refs" / ref).parent_path());
    write_text_file(repository / "refs" / ref, commit);
  }

  fs::path root_;

 private:
  std::vector<std::pair<const char*, std::optional<std::string>>> before_;
};

TEST_F(Resolve, FindsTheMainRevisionOfAnId) {
  const auto source = resolve("org/model");
  EXPECT_EQ(source.path, root_ / "hub" / "models--org--model" / "snapshots" / commit_1);
  EXPECT_EQ(source.name, "org/model");
  EXPECT_EQ(source.revision, commit_1);
}

TEST_F(Resolve, FindsIdsWithoutAnOrganisation) { EXPECT_EQ(resolve("gpt2").revision, commit_1); }

TEST_F(Resolve, FindsARevisionByEitherSpelling) {
  EXPECT_EQ(resolve("org/model@v1.0").revision, commit_2);
  EXPECT_EQ(resolve("org/model", "v1.0").revision, commit_2);
  EXPECT_EQ(resolve("org/model", commit_2).revision, commit_2);
  EXPECT_EQ(resolve("org/model@v1.0").name, "org/model");
}

TEST_F(Resolve, FindsRefsInFolders) {
  add("org/model", "refs/pr/3", commit_2);
  EXPECT_EQ(resolve("org/model@refs/pr/3").revision, commit_2);
}

TEST_F(Resolve, TellsWhereTheCacheIs) {
  ::unsetenv("HF_HUB_CACHE");
  ::setenv("HOME", "/home/me", 1);
  EXPECT_EQ(cache_folder(), "/home/me/.cache/huggingface/hub");
  ::setenv("XDG_CACHE_HOME", "/xdg", 1);
  EXPECT_EQ(cache_folder(), "/xdg/huggingface/hub");
  ::setenv("HF_HOME", "/hf", 1);
  EXPECT_EQ(cache_folder(), "/hf/hub");
  ::setenv("HF_HOME", "~/hf", 1);
  EXPECT_EQ(cache_folder(), "/home/me/hf/hub");
  ::setenv("HF_HUB_CACHE", "/cache", 1);
  EXPECT_EQ(cache_folder(), "/cache");
}

TEST_F(Resolve, APathComesFirst) {
  fs::create_directories(root_ / "folder");
  const auto source = resolve((root_ / "folder/").string());
  EXPECT_EQ(source.name, "folder");
  EXPECT_EQ(source.revision, "");
  write_text_file(root_ / "m.gguf", "GGUF");
  EXPECT_EQ(resolve((root_ / "m.gguf").string()).name, "m.gguf");
}

TEST_F(Resolve, ThePathOfASnapshotKeepsItsId) {
  const auto source = resolve((root_ / "hub" / "models--org--model" / "snapshots" / commit_1).string());
  EXPECT_EQ(source.name, "org/model");
  EXPECT_EQ(source.revision, commit_1);
}

TEST_F(Resolve, SaysHowToGetWhatIsNotCached) {
  const auto error = error_of([] { resolve("org/other"); }, ErrorKind::not_found);
  EXPECT_THAT(error, HasSubstr("org/other is no folder or file here"));
  EXPECT_THAT(error, HasSubstr("hf download org/other"));
}

TEST_F(Resolve, APathThatIsNotThereIsNotDownloaded) {
  const auto here = fs::current_path();
  fs::create_directories(root_ / "here" / "checkpoints" / "Qwen2.5-0.5B");
  fs::current_path(root_ / "here");
  const auto in_a_folder = error_of([] { resolve("checkpoints/Qwen2.5-0.5X"); }, ErrorKind::not_found);
  const auto in_no_folder = error_of([] { resolve("models/Qwen2.5-0.5B"); }, ErrorKind::not_found);
  for (int i = 0; i < 20; ++i) fs::create_directories(root_ / "here" / "models" / fmt::format("m{:02}", i));
  const auto in_a_large_one = error_of([] { resolve("models/Qwen2.5-0.5B"); }, ErrorKind::not_found);
  fs::current_path(here);
  EXPECT_THAT(in_a_folder, HasSubstr("checkpoints/Qwen2.5-0.5X is no folder or file here (checkpoints holds Qwen2.5-0.5B)"));
  EXPECT_THAT(in_no_folder, HasSubstr("models/Qwen2.5-0.5B is no folder or file here (models is no folder either)"));
  EXPECT_THAT(in_a_large_one, HasSubstr("(models holds m00, m01, m02, m03, m04, m05, m06, and 13 more)"));
  for (const auto& error : {in_a_folder, in_no_folder, in_a_large_one}) EXPECT_THAT(error, Not(HasSubstr("hf download")));
}

TEST_F(Resolve, NamesTheRevisionsThatAreThere) {
  const auto error = error_of([] { resolve("org/model@v2"); }, ErrorKind::not_found);
  EXPECT_THAT(error, HasSubstr("revision v2"));
  EXPECT_THAT(error, HasSubstr("main, v1.0"));
  EXPECT_THAT(error, HasSubstr("--revision v2"));
}

TEST_F(Resolve, ARefWhoseSnapshotIsGoneIsNotThere) {
  fs::remove_all(root_ / "hub" / "models--gpt2" / "snapshots");
  EXPECT_THAT(error_of([] { resolve("gpt2"); }, ErrorKind::not_found), HasSubstr("hf download gpt2"));
}

TEST_F(Resolve, RefusesADamagedRef) {
  add("org/model", "bad", commit_1);
  write_text_file(root_ / "hub" / "models--org--model" / "refs" / "bad", "../../../../etc");
  EXPECT_THAT(error_of([] { resolve("org/model@bad"); }, ErrorKind::corrupt_file), HasSubstr("expected a commit hash"));
}

TEST_F(Resolve, ARevisionStaysInTheCache) {
  for (const char* revision : {"../x", "/etc/passwd", "a/../../b"}) {
    EXPECT_THAT(error_of([&] { resolve("org/model", revision); }, ErrorKind::invalid_argument), HasSubstr("is not a revision")) << revision;
  }
}

TEST_F(Resolve, RefusesWhatIsNoId) {
  for (const char* model : {"a/b/c", "./nothing", "/no/where", "org/..", "x.gguf", "org/na me", "a--b/c"}) {
    EXPECT_THAT(error_of([&] { resolve(model); }, ErrorKind::not_found), HasSubstr("does not exist")) << model;
  }
  error_of([] { resolve(""); }, ErrorKind::invalid_argument);
}

TEST_F(Resolve, RefusesARevisionForAPathAndTwoOfThem) {
  EXPECT_THAT(error_of([&] { resolve(root_.string(), "main"); }, ErrorKind::invalid_argument), HasSubstr("is a path"));
  EXPECT_THAT(error_of([&] { resolve(root_.string() + "@main"); }, ErrorKind::invalid_argument), HasSubstr(root_.string() + " is a path: a revision (main)"));
  EXPECT_THAT(error_of([] { resolve("org/model@v1.0", "main"); }, ErrorKind::invalid_argument), HasSubstr("twice"));
  EXPECT_THAT(error_of([] { resolve("org/model@"); }, ErrorKind::invalid_argument), HasSubstr("nothing follows"));
}

}  // namespace
}  // namespace mobius::hub
