// Tests of file.hpp.
#include "mobius/base/file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <random>
#include <thread>
#include <vector>

#include "mobius/base/error_of_test.hpp"

namespace mobius {
namespace {

using ::testing::HasSubstr;

std::string random_text(std::size_t n, unsigned seed = 1) {
  std::mt19937 random(seed);
  std::string text(n, '\0');
  for (char& c : text) c = static_cast<char>(random());
  return text;
}

std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

class File : public ::testing::Test {
 protected:
  File() {
    std::string name = (fs::temp_directory_path() / "mobius_file_XXXXXX").string();
    folder_ = ::mkdtemp(name.data());
  }
  ~File() override {
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
  }
  fs::path write(const std::string& name, std::string_view text) const {
    write_text_file(folder_ / name, text);
    return folder_ / name;
  }
  fs::path folder_;
};

TEST_F(File, MapShowsTheBytes) {
  const std::string text = random_text(100000);
  const auto file = MappedFile::open(write("a", text));
  ASSERT_EQ(file->size(), text.size());
  EXPECT_EQ(std::string_view(reinterpret_cast<const char*>(file->bytes().data()), file->bytes().size()), text);
  file->release(0, 1 << 30);
  file->release(5000, 50000);
  EXPECT_EQ(std::string_view(reinterpret_cast<const char*>(file->bytes().data()), file->bytes().size()), text);
  std::string part(1000, '\0');
  file->read_at(777, std::as_writable_bytes(std::span(part)));
  EXPECT_EQ(part, text.substr(777, 1000));
}

TEST_F(File, EmptyFileMaps) {
  const auto file = MappedFile::open(write("a", ""));
  EXPECT_EQ(file->size(), 0u);
  EXPECT_TRUE(file->bytes().empty());
  file->read_at(0, {});
  file->release(0, 10);
}

TEST_F(File, OpenErrors) {
  EXPECT_THAT(error_of([&] { MappedFile::open(folder_ / "missing"); }, ErrorKind::not_found), HasSubstr("missing"));
  EXPECT_EQ(kind_of([&] { MappedFile::open(folder_); }), ErrorKind::io);
  ASSERT_EQ(::mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  EXPECT_EQ(kind_of([&] { MappedFile::open(folder_ / "pipe"); }), ErrorKind::io);
}

TEST_F(File, ReadsBeyondTheEndAreErrors) {
  const fs::path path = write("a", random_text(100));
  const auto file = MappedFile::open(path);
  std::vector<std::byte> out(50);
  EXPECT_EQ(kind_of([&] { file->read_at(51, out); }), ErrorKind::corrupt_file);
  EXPECT_EQ(kind_of([&] { file->read_at(~0ull - 10, out); }), ErrorKind::corrupt_file);
  fs::resize_file(path, 60);  // shrinks while it is open
  EXPECT_EQ(kind_of([&] { file->read_at(50, out); }), ErrorKind::io);
}

TEST_F(File, OutputIsWrittenAtPositionsByManyThreads) {
  const std::string text = random_text(1 << 20);
  OutputFile out(folder_ / "out", text.size());
  EXPECT_EQ(fs::file_size(folder_ / "out"), text.size());
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (std::size_t at = t * 1000; at < text.size(); at += 4000) out.write_at(at, bytes_of(std::string_view(text).substr(at, 1000)));
    });
  }
  for (auto& thread : threads) thread.join();
  out.close();
  out.close();
  EXPECT_EQ(read_text_file(folder_ / "out"), text);
}

TEST_F(File, OutputErrors) {
  write("there", "x");
  EXPECT_EQ(kind_of([&] { OutputFile(folder_ / "there", 1); }), ErrorKind::io);
  EXPECT_EQ(kind_of([&] { OutputFile(folder_ / "no" / "folder", 1); }), ErrorKind::io);
  OutputFile out(folder_ / "out", 10);
  EXPECT_EQ(kind_of([&] { out.write_at(5, bytes_of("too long")); }), ErrorKind::internal);
}

TEST_F(File, FullDiskIsFoundAtOnce) {
  const std::uint64_t too_much = *free_disk_space(folder_) + (1ull << 40);
  EXPECT_THAT(error_of([&] { OutputFile(folder_ / "out", too_much); }, ErrorKind::io), HasSubstr(std::to_string(too_much)));
  EXPECT_FALSE(fs::exists(folder_ / "out"));
}

TEST_F(File, CopiesRanges) {
  const std::string text = random_text(3 << 20);
  const auto source = MappedFile::open(write("in", text));
  const struct {
    std::uint64_t to, from, length;
  } cases[] = {{0, 0, 3 << 20}, {4096, 8192, 1 << 20}, {100, 4196, 2 << 20}, {1, 2, 100000}, {5, 5, 0}, {4096, 0, 65536 + 17}};
  for (const auto& c : cases) {
    fs::remove(folder_ / "out");
    OutputFile out(folder_ / "out", 4 << 20);
    out.copy_at(c.to, *source, c.from, c.length);
    out.close();
    std::string want(4 << 20, '\0');
    want.replace(c.to, c.length, text, c.from, c.length);
    EXPECT_TRUE(read_text_file(folder_ / "out") == want) << c.to << " " << c.from << " " << c.length;
  }
  fs::remove(folder_ / "out");
  OutputFile out(folder_ / "out", 4 << 20);
  EXPECT_EQ(kind_of([&] { out.copy_at(0, *source, 1 << 20, (2 << 20) + 1); }), ErrorKind::corrupt_file);
  fs::resize_file(folder_ / "in", 1 << 20);
  EXPECT_EQ(kind_of([&] { out.copy_at(0, *source, 0, 2 << 20); }), ErrorKind::io);
}

TEST_F(File, TextFiles) {
  const std::string text = random_text(200000);
  EXPECT_EQ(read_text_file(write("a", text)), text);
  write_text_file(folder_ / "a", "short");
  EXPECT_EQ(read_text_file(folder_ / "a"), "short");
  EXPECT_EQ(kind_of([&] { read_text_file(folder_ / "a", 4); }), ErrorKind::corrupt_file);
  EXPECT_EQ(kind_of([&] { read_text_file("/dev/zero", 1000); }), ErrorKind::io);
  ASSERT_EQ(::mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  EXPECT_EQ(kind_of([&] { read_text_file(folder_ / "pipe"); }), ErrorKind::io);  // and doesn't wait for a writer
  EXPECT_EQ(kind_of([&] { read_text_file(folder_ / "b"); }), ErrorKind::not_found);
  EXPECT_EQ(kind_of([&] { read_text_file(folder_); }), ErrorKind::io);
  EXPECT_EQ(kind_of([&] { write_text_file(folder_ / "no" / "b", "x"); }), ErrorKind::io);
}

TEST_F(File, CopyFollowsLinksAndReplacesThem) {
  const std::string text = random_text(100000);
  const fs::path from = write("from", text);
  fs::create_symlink("from", folder_ / "link");
  copy_file_contents(folder_ / "link", folder_ / "to");
  EXPECT_TRUE(fs::is_regular_file(fs::symlink_status(folder_ / "to")));
  EXPECT_EQ(read_text_file(folder_ / "to"), text);
  copy_file_contents(from, folder_ / "link");  // onto a link to itself
  EXPECT_TRUE(fs::is_regular_file(fs::symlink_status(folder_ / "link")));
  EXPECT_EQ(read_text_file(folder_ / "link"), text);
  copy_file_contents(from, from);
  EXPECT_EQ(read_text_file(from), text);
  EXPECT_EQ(kind_of([&] { copy_file_contents(from, folder_); }), ErrorKind::io);
}

TEST_F(File, ReplacesFilesAndFolders) {
  replace_path(write("new", "1"), folder_ / "out");
  EXPECT_EQ(read_text_file(folder_ / "out"), "1");
  replace_path(write("new", "2"), folder_ / "out");
  EXPECT_EQ(read_text_file(folder_ / "out"), "2");
  EXPECT_FALSE(fs::exists(folder_ / "new"));

  fs::create_directories(folder_ / "tree" / "deep");
  write("tree/deep/a", "a");
  replace_path(folder_ / "tree/", folder_ / "out");
  EXPECT_EQ(read_text_file(folder_ / "out" / "deep" / "a"), "a");
  fs::create_directories(folder_ / "tree");
  write("tree/b", "b");
  replace_path(folder_ / "tree", folder_ / "out/");
  EXPECT_EQ(read_text_file(folder_ / "out" / "b"), "b");
  EXPECT_FALSE(fs::exists(folder_ / "out" / "deep"));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 1);

  EXPECT_EQ(kind_of([&] { replace_path(folder_ / "missing", folder_ / "out"); }), ErrorKind::not_found);
  EXPECT_EQ(read_text_file(folder_ / "out" / "b"), "b");
}

TEST_F(File, ReplacingALinkLeavesWhatItPointsTo) {
  write("data", "precious");
  fs::create_symlink("data", folder_ / "out");
  replace_path(write("new", "2"), folder_ / "out");
  EXPECT_EQ(read_text_file(folder_ / "out"), "2");
  EXPECT_EQ(read_text_file(folder_ / "data"), "precious");
}

TEST_F(File, TemporarySiblingsOfLongNames) {
  std::string name(99, 'x');
  while (name.size() < 254) name += "ö";
  for (const auto& target : {name, std::string(255, 'x'), std::string(300, 'x')}) {
    const auto sibling = temporary_sibling(folder_ / target);
    EXPECT_LT(sibling.filename().string().size(), 240u);
    fs::create_directory(sibling);
    EXPECT_NE(temporary_sibling(folder_ / target), sibling);
    fs::remove(sibling);
  }
  const auto whole = temporary_sibling(folder_ / name).filename().string();
  EXPECT_TRUE(whole.starts_with("." + name.substr(0, 199) + ".")) << whole;  // not half an ö
}

TEST_F(File, TemporarySiblings) {
  const fs::path first = temporary_sibling(folder_ / "out/");
  EXPECT_EQ(first, folder_ / (".out." + std::to_string(::getpid()) + ".tmp"));
  write(first.filename().string(), "x");
  const fs::path second = temporary_sibling(folder_ / "out");
  EXPECT_EQ(second.filename(), ".out." + std::to_string(::getpid()) + ".1.tmp");
  EXPECT_EQ(kind_of([&] { temporary_sibling(folder_ / "no" / "out"); }), ErrorKind::io);
  EXPECT_EQ(kind_of([&] { temporary_sibling("/"); }), ErrorKind::invalid_argument);
}

TEST_F(File, RemovesOnlyWhatDeadProcessesLeft) {
  const pid_t dead = ::fork();
  if (dead == 0) ::_exit(0);
  ::waitpid(dead, nullptr, 0);
  const std::string pid = std::to_string(dead);
  for (const std::string& name : {".out." + pid + ".tmp", ".out." + pid + ".3.tmp"}) {
    fs::create_directories(folder_ / name);
    write(name + "/a", "x");
  }
  const std::vector<std::string> kept = {".out." + std::to_string(::getpid()) + ".tmp",
                                         ".out.1.tmp",
                                         ".other." + pid + ".tmp",
                                         ".out." + pid + ".tmpx",
                                         ".out.x" + pid + ".tmp",
                                         ".out." + pid + ".a.tmp",
                                         ".out..tmp",
                                         ".out.tmp",
                                         "out." + pid + ".tmp",
                                         ".out.99999999999999.tmp"};
  for (const std::string& name : kept) write(name, "x");
  remove_stale_siblings(folder_ / "out");
  EXPECT_FALSE(fs::exists(folder_ / (".out." + pid + ".tmp")));
  EXPECT_FALSE(fs::exists(folder_ / (".out." + pid + ".3.tmp")));
  for (const std::string& name : kept) EXPECT_TRUE(fs::exists(folder_ / name)) << name;
  remove_stale_siblings(folder_ / "no" / "out");
}

TEST_F(File, SmallQuestions) {
  EXPECT_GT(free_disk_space(folder_ / "not" / "there").value_or(0), 0u);
  write("a", "x");
  fs::create_symlink("a", folder_ / "b");
  EXPECT_TRUE(same_file(folder_ / "a", folder_ / "b"));
  EXPECT_FALSE(same_file(folder_ / "a", folder_ / "c"));
  ::setenv("MOBIUS_TEST_VARIABLE", "v", 1);
  EXPECT_EQ(environment("MOBIUS_TEST_VARIABLE"), "v");
  ::unsetenv("MOBIUS_TEST_VARIABLE");
  EXPECT_EQ(environment("MOBIUS_TEST_VARIABLE"), std::nullopt);
  EXPECT_GT(peak_memory_bytes(), 1u << 20);
}

TEST_F(File, DynamicLibraries) {
  std::string why;
  EXPECT_EQ(DynamicLibrary::open("no_such_library.so", &why), nullptr);
  EXPECT_THAT(why, HasSubstr("no_such_library.so"));
#ifdef __linux__
  const auto library = DynamicLibrary::open("libm.so.6");
  ASSERT_NE(library, nullptr);
  EXPECT_NE(library->symbol("cos"), nullptr);
  EXPECT_EQ(library->symbol("no_such_symbol"), nullptr);
#endif
}

}  // namespace
}  // namespace mobius
