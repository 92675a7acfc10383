// Builds for different execution providers at once in one process: the bytes are those of builds one after the other.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <thread>

#include "mobius/base/log.hpp"
#include "mobius/ep/registry.hpp"
#include "mobius/package/build.hpp"

namespace mobius {
namespace {

constexpr std::size_t thread_count = 64;

struct Job {
  std::string model = {}, ep = {};
  ir::DataType dtype = ir::DataType::float32;
  bool load_weights = true;
};

// Every EP with every dtype that it runs, for a few families; the tiny checkpoint with its weights too.
std::vector<Job> jobs() {
  std::vector<Job> list;
  for (const char* name : {"llama", "qwen3", "phi3_longrope", "mistral"})
    for (const auto& ep : ep_registry().names())
      for (const auto dtype : {ir::DataType::float32, ir::DataType::float16, ir::DataType::bfloat16})
        if (get_ep(ep).dtypes.contains(dtype)) list.push_back({std::string(MOBIUS_TESTDATA "/golden/") + name, ep, dtype, name == std::string_view("llama")});
  return list;
}

using Package = std::map<std::string, std::string>;  // file name -> bytes

Package run(const Job& job, const fs::path& folder) {
  build(job.model, {.execution_provider = job.ep, .dtype = job.dtype, .load_weights = job.load_weights}).save(folder);
  Package files;
  for (const auto& entry : fs::directory_iterator(folder)) files[entry.path().filename().string()] = read_text_file(entry.path());
  return files;
}

TEST(Concurrency, BuildsForDifferentTargetsDoNotDisturbEachOther) {
  const auto work = fs::path(testing::TempDir()) / fmt::format("mobius_concurrency_{}", std::random_device()());
  const auto sink = logging::set_sink([](logging::Level, std::string_view) {});
  const auto list = jobs();
  ASSERT_GE(list.size(), thread_count);
  std::vector<Package> alone(list.size()), together(list.size());
  for (std::size_t i = 0; i < list.size(); ++i) alone[i] = run(list[i], work / fmt::format("alone_{}", i));

  // All start at once, and each thread takes the next job when it is done with one.
  std::atomic<bool> go = false;
  std::atomic<std::size_t> next = 0;
  std::vector<std::string> errors(thread_count);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < thread_count; ++t)
    threads.emplace_back([&, t] {
      try {
        while (!go) std::this_thread::yield();
        for (std::size_t i = next++; i < list.size(); i = next++) together[i] = run(list[i], work / fmt::format("together_{}", i));
      } catch (const std::exception& e) {
        errors[t] = e.what();
      }
    });
  go = true;
  for (auto& thread : threads) thread.join();
  logging::set_sink(sink);

  EXPECT_THAT(errors, testing::Each(testing::IsEmpty()));
  for (std::size_t i = 0; i < list.size(); ++i) {
    EXPECT_THAT(alone[i], testing::Contains(testing::Key("model.onnx")));
    EXPECT_EQ(alone[i].contains("model.onnx.data"), list[i].load_weights);
    EXPECT_TRUE(together[i] == alone[i]) << list[i].model << " for " << list[i].ep << " in " << ir::short_name(list[i].dtype);
  }
  fs::remove_all(work);
}

}  // namespace
}  // namespace mobius
