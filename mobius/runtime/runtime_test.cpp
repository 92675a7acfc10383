// Runtime and Session against a real ONNX Runtime, on models written byte by byte; and the search for the library, on made-up folders.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <thread>

#include "mobius/base/error_of_test.hpp"
#include "mobius/base/file.hpp"
#include "mobius/runtime/locate.hpp"
#include "mobius/runtime/onnxruntime.hpp"

namespace mobius::runtime {
namespace {

using ir::DataType;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// --- a protobuf writer of ten lines, so that these tests need no other part of the program ---

std::string varint(std::uint64_t n) {
  std::string out;
  for (; n >= 128; n >>= 7) out += static_cast<char>((n & 127) | 128);
  return out + static_cast<char>(n);
}
std::string number(int field, std::uint64_t n) { return varint(static_cast<std::uint64_t>(field) << 3) + varint(n); }
std::string text(int field, const std::string& bytes) { return varint((static_cast<std::uint64_t>(field) << 3) | 2) + varint(bytes.size()) + bytes; }

std::string dimension(const std::string& dim) {
  const bool digits = !dim.empty() && dim.find_first_not_of("0123456789") == std::string::npos;
  return text(1, digits ? number(1, std::stoull(dim)) : dim.empty() ? "" : text(2, dim));
}
std::string port(int field, const std::string& name, DataType dtype, const std::vector<std::string>& dims) {
  std::string shape;
  for (const std::string& dim : dims) shape += dimension(dim);
  return text(field, text(1, name) + text(2, text(1, number(1, static_cast<std::uint64_t>(dtype)) + text(2, shape))));
}
std::string input(const std::string& name, DataType dtype, const std::vector<std::string>& dims) { return port(11, name, dtype, dims); }
std::string output(const std::string& name, DataType dtype, const std::vector<std::string>& dims) { return port(12, name, dtype, dims); }
std::string node(const std::string& op, const std::vector<std::string>& inputs, const std::string& result, const std::string& attributes = "") {
  std::string body;
  for (const std::string& name : inputs) body += text(1, name);
  return text(1, body + text(2, result) + text(4, op) + attributes);
}
std::string integer_attribute(const std::string& name, int value) {
  return text(5, text(1, name) + number(3, static_cast<std::uint64_t>(value)) + number(20, 2));
}
std::string model(const std::string& graph) { return number(1, 8) + text(7, graph + text(2, "g")) + text(8, text(1, "") + number(2, 17)); }

// sum = a + b; whole = int64(sum)
std::string sum_model() {
  return model(node("Add", {"a", "b"}, "sum") + node("Cast", {"sum"}, "whole", integer_attribute("to", 7)) + input("a", DataType::float32, {"batch", "3"}) +
               input("b", DataType::float32, {"3"}) + output("sum", DataType::float32, {"batch", "3"}) + output("whole", DataType::int64, {"batch", "3"}));
}

std::span<const std::byte> bytes_of(const std::string& model) { return std::as_bytes(std::span(model.data(), model.size())); }

template <class T>
Tensor tensor(DataType dtype, ir::Dims dims, const std::vector<T>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {dtype, std::move(dims), {bytes.begin(), bytes.end()}};
}
Tensor floats(ir::Dims dims, const std::vector<float>& values) { return tensor(DataType::float32, std::move(dims), values); }

template <class T>
std::vector<T> values(const Tensor& tensor) {
  std::vector<T> out(tensor.bytes.size() / sizeof(T));
  if (!out.empty()) std::memcpy(out.data(), tensor.bytes.data(), tensor.bytes.size());
  return out;
}

class OnnxRuntime : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    try {
      runtime() = Runtime::open();
    } catch (const Error& error) {
      absence() = error.what();
    }
  }
  static void TearDownTestSuite() { runtime() = nullptr; }

  void SetUp() override {
    if (runtime()) return;
    // Where the tests are told of a library it has to work; elsewhere ONNX Runtime is optional.
    if (environment("MOBIUS_ONNXRUNTIME")) FAIL() << absence();
    GTEST_SKIP() << absence();
  }

  static std::shared_ptr<Runtime>& runtime() {
    static std::shared_ptr<Runtime> shared;
    return shared;
  }
  static std::string& absence() {
    static std::string reason;
    return reason;
  }
};

class TemporaryFolder {
 public:
  TemporaryFolder() {
    path_ = fs::temp_directory_path() / fmt::format("mobius-runtime-{}", reinterpret_cast<std::uintptr_t>(this));
    fs::remove_all(path_);
    fs::create_directories(path_);
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  fs::path write(const fs::path& name, const std::string& content = "") const {
    fs::create_directories((path_ / name).parent_path());
    std::ofstream(path_ / name, std::ios::binary) << content;
    return path_ / name;
  }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

TEST_F(OnnxRuntime, TellsVersionAndProviders) {
  EXPECT_THAT(runtime()->version(), testing::MatchesRegex("1\\.[0-9]+\\..*"));
  EXPECT_THAT(runtime()->providers(), testing::Contains("CPUExecutionProvider"));
  EXPECT_THAT(runtime()->path().string(), HasSubstr("onnxruntime"));
}

TEST_F(OnnxRuntime, ReadsPorts) {
  const Session session(runtime(), bytes_of(sum_model()));
  ASSERT_EQ(session.inputs().size(), 2u);
  EXPECT_EQ(session.inputs()[0].name, "a");
  EXPECT_EQ(session.inputs()[0].dtype, DataType::float32);
  EXPECT_EQ(ir::to_string(session.inputs()[0].shape), "[batch, 3]");
  EXPECT_EQ(ir::to_string(session.inputs()[1].shape), "[3]");
  ASSERT_EQ(session.outputs().size(), 2u);
  EXPECT_EQ(session.outputs()[1].name, "whole");
  EXPECT_EQ(session.outputs()[1].dtype, DataType::int64);
}

TEST_F(OnnxRuntime, KnowsUnnamedDimensions) {
  const std::string graph = node("Neg", {"x"}, "y") + input("x", DataType::float32, {"", "n"}) + output("y", DataType::float32, {"", "n"});
  const Session session(runtime(), bytes_of(model(graph)));
  EXPECT_TRUE(session.inputs()[0].shape[0].is_unknown());
  EXPECT_TRUE(session.inputs()[0].shape[1].is_symbolic());
}

TEST_F(OnnxRuntime, Runs) {
  const Session session(runtime(), bytes_of(sum_model()), {.optimization = GraphOptimization::none, .threads = 1});
  const auto outputs = session.run({{"a", floats({2, 3}, {1, 2, 3, 4, 5, 6})}, {"b", floats({3}, {10, 20, 30.5})}});
  ASSERT_EQ(outputs.size(), 2u);
  EXPECT_THAT(outputs.at("sum").dims, ElementsAre(2, 3));
  EXPECT_THAT(values<float>(outputs.at("sum")), ElementsAre(11, 22, 33.5, 14, 25, 36.5));
  EXPECT_EQ(outputs.at("whole").dtype, DataType::int64);
  EXPECT_THAT(values<std::int64_t>(outputs.at("whole")), ElementsAre(11, 22, 33, 14, 25, 36));
}

TEST_F(OnnxRuntime, RunsOnEmptyTensors) {
  const Session session(runtime(), bytes_of(sum_model()));
  const auto outputs = session.run({{"a", floats({0, 3}, {})}, {"b", floats({3}, {1, 2, 3})}});
  EXPECT_THAT(outputs.at("sum").dims, ElementsAre(0, 3));
  EXPECT_THAT(outputs.at("sum").bytes, IsEmpty());
}

TEST_F(OnnxRuntime, ReturnsOnlyWantedOutputs) {
  const Session session(runtime(), bytes_of(sum_model()));
  const std::vector<std::string> wanted = {"whole"};
  const auto outputs = session.run({{"a", floats({1, 3}, {1, 2, 3})}, {"b", floats({3}, {1, 1, 1})}}, wanted);
  EXPECT_EQ(outputs.size(), 1u);
  EXPECT_THAT(values<std::int64_t>(outputs.at("whole")), ElementsAre(2, 3, 4));
}

TEST_F(OnnxRuntime, RunsFromManyThreads) {
  const Session session(runtime(), bytes_of(sum_model()));
  std::vector<int> wrong(4, 0);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < wrong.size(); ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i) {
        const auto outputs = session.run({{"a", floats({1, 3}, {static_cast<float>(t), 0, 0})}, {"b", floats({3}, {1, 1, 1})}});
        wrong[t] += values<float>(outputs.at("sum"))[0] != static_cast<float>(t) + 1;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(wrong, testing::Each(0));
}

TEST_F(OnnxRuntime, LoadsFromAFile) {
  const TemporaryFolder folder;
  Session first(runtime(), folder.write("model.onnx", sum_model()), {.provider = "CPUExecutionProvider"});
  const Session session = std::move(first);
  EXPECT_EQ(session.inputs().size(), 2u);
  EXPECT_EQ(session.run({{"a", floats({1, 3}, {1, 2, 3})}, {"b", floats({3}, {1, 1, 1})}}).size(), 2u);
}

TEST_F(OnnxRuntime, RefusesWrongInputs) {
  const Session session(runtime(), bytes_of(sum_model()));
  const Tensor a = floats({1, 3}, {1, 2, 3}), b = floats({3}, {1, 1, 1});
  auto message = [&](std::map<std::string, Tensor> inputs) { return error_of([&] { session.run(inputs); }, ErrorKind::invalid_argument); };

  EXPECT_EQ(message({{"a", a}}), "input 'b' is missing");
  EXPECT_EQ(message({{"a", a}, {"b", b}, {"c", b}}), "the graph has no input 'c'");
  EXPECT_EQ(message({{"a", tensor<std::int64_t>(DataType::int64, {1, 3}, {1, 2, 3})}, {"b", b}}), "input 'a' is int64, expected float");
  EXPECT_EQ(message({{"a", floats({2, 3}, {1, 2, 3})}, {"b", b}}), "input 'a' has 12 bytes, expected 24 for its shape");
  EXPECT_EQ(message({{"a", floats({-1, 3}, {})}, {"b", b}}), "input 'a' has a negative dimension -1");
  EXPECT_EQ(message({{"a", floats({1ll << 40, 1ll << 40}, {})}, {"b", b}}), "input 'a' has more elements than any memory holds");
  EXPECT_THAT(message({{"a", floats({1, 4}, {1, 2, 3, 4})}, {"b", b}}), AllOf(HasSubstr("ONNX Runtime: "), HasSubstr("Expected: 3")));

  const std::vector<std::string> wanted = {"product"};
  EXPECT_EQ(error_of([&] { session.run({{"a", a}, {"b", b}}, wanted); }, ErrorKind::invalid_argument), "the graph has no output 'product'");
}

TEST_F(OnnxRuntime, ReportsWhatGoesWrongWhileRunning) {
  const std::string graph =
      node("Gather", {"x", "i"}, "y") + input("x", DataType::float32, {"2"}) + input("i", DataType::int64, {"1"}) + output("y", DataType::float32, {"1"});
  const Session session(runtime(), bytes_of(model(graph)));
  const std::string message = error_of(
      [&] {
        session.run({{"x", floats({2}, {1, 2})}, {"i", tensor<std::int64_t>(DataType::int64, {1}, {7})}});
      },
      ErrorKind::invalid_argument);
  EXPECT_THAT(message, HasSubstr("out of data bounds"));
}

TEST_F(OnnxRuntime, ReportsBadModels) {
  const TemporaryFolder folder;
  EXPECT_THAT(error_of([&] { Session(runtime(), folder.path() / "absent.onnx"); }, ErrorKind::not_found), HasSubstr("absent.onnx"));
  EXPECT_THAT(error_of([&] { Session(runtime(), folder.write("text.onnx", "no model")); }, ErrorKind::corrupt_file), HasSubstr("text.onnx: ONNX Runtime: "));

  const std::string unknown_op = model(node("Sum2", {"x"}, "y") + input("x", DataType::float32, {"2"}) + output("y", DataType::float32, {"2"}));
  EXPECT_THAT(error_of([&] { Session(runtime(), bytes_of(unknown_op)); }, ErrorKind::corrupt_file), HasSubstr("Sum2"));

  const std::string no_kernel = model(node("Exp", {"x"}, "y") + input("x", DataType::bfloat16, {"2"}) + output("y", DataType::bfloat16, {"2"}));
  EXPECT_THAT(error_of([&] { Session(runtime(), bytes_of(no_kernel)); }, ErrorKind::unsupported), HasSubstr("Exp"));
}

TEST_F(OnnxRuntime, RefusesOutputsThatAreNoNumbers) {
  const std::string graph = node("Identity", {"x"}, "y") + input("x", DataType::string, {"1"}) + output("y", DataType::string, {"1"});
  const Session session(runtime(), bytes_of(model(graph)));
  EXPECT_EQ(session.inputs()[0].dtype, DataType::string);
  EXPECT_EQ(error_of([&] { session.run({{"x", {DataType::string, {1}, {}}}}); }, ErrorKind::unsupported), "input 'x' is not a tensor of numbers");

  const std::string cast = node("Cast", {"x"}, "y", integer_attribute("to", 8)) + input("x", DataType::float32, {"1"}) + output("y", DataType::string, {"1"});
  const Session to_text(runtime(), bytes_of(model(cast)));
  const std::vector<std::string> wanted = {"y"};
  EXPECT_EQ(error_of([&] { to_text.run({{"x", floats({1}, {1})}}, wanted); }, ErrorKind::unsupported), "output 'y' is not a tensor of numbers");
}

TEST_F(OnnxRuntime, TakesConfigEntriesAndProviders) {
  const std::string sum = sum_model();
  EXPECT_NO_THROW(Session(runtime(), bytes_of(sum), {.config_entries = {{"session.intra_op.allow_spinning", "0"}}}));
  EXPECT_THAT(error_of([&] { Session(runtime(), bytes_of(sum), {.config_entries = {{"", "0"}}}); }, ErrorKind::invalid_argument), HasSubstr("key"));
  EXPECT_THAT(error_of([&] { Session(runtime(), bytes_of(sum), {.provider = "Abacus"}); }, ErrorKind::invalid_argument), HasSubstr("Abacus"));
  EXPECT_THAT(error_of([&] { Session(runtime(), bytes_of(sum), {.provider_options = {{"beads", "9"}}}); }, ErrorKind::invalid_argument), HasSubstr("beads"));
  if (const auto providers = runtime()->providers(); std::find(providers.begin(), providers.end(), "CUDAExecutionProvider") == providers.end()) {
    EXPECT_THROW(Session(runtime(), bytes_of(sum), {.provider = "CUDA", .provider_options = {{"device_id", "0"}}}), Error);
  }
}

TEST_F(OnnxRuntime, OpensAFileOrItsFolder) {
  if (!fs::exists(runtime()->path())) GTEST_SKIP() << "the library came from the loader path";
  EXPECT_EQ(Runtime::open(runtime()->path())->version(), runtime()->version());
  EXPECT_EQ(Runtime::open(runtime()->path().parent_path())->version(), runtime()->version());
}

TEST(RuntimeSearch, SaysWhyAGivenPathFails) {
  const TemporaryFolder folder;
  EXPECT_THAT(error_of([&] { Runtime::open(folder.path()); }, ErrorKind::not_found), HasSubstr("holds no ONNX Runtime library"));
  EXPECT_THAT(error_of([&] { Runtime::open(folder.path() / "absent.so"); }, ErrorKind::not_found), HasSubstr("absent.so"));
  EXPECT_THAT(error_of([&] { Runtime::open(folder.write("libonnxruntime.so", "not a library")); }, ErrorKind::not_found), HasSubstr("cannot load"));
}

TEST(RuntimeSearch, RefusesOtherLibraries) {
  const std::string message = error_of([] { Runtime::open("libm.so.6"); }, ErrorKind::unsupported);
  EXPECT_THAT(message, HasSubstr("libm.so.6 is not ONNX Runtime"));
}

TEST(RuntimeSearch, FindsWheelsInTheirOrder) {
  const TemporaryFolder folder;
  const fs::path capi = "site-packages/onnxruntime/capi";
  const fs::path older = folder.write("venv/lib/python3.9" / capi / "libonnxruntime.so.1.20.0");
  const fs::path newer = folder.write("venv/lib/python3.11" / capi / "libonnxruntime.so.1.32.0");
  const fs::path debian = folder.write("usr/lib/python3/dist-packages/onnxruntime/capi/libonnxruntime.so.1.26.0");
  const fs::path windows = folder.write("win/Lib" / capi / "onnxruntime.dll");
  folder.write("venv/lib/python3.11" / capi / "libonnxruntime_providers_shared.so");
  folder.write("venv/lib/perl5" / capi / "libonnxruntime.so.1.1.0");

  const auto found = wheel_libraries({folder.path() / "usr", folder.path() / "venv", folder.path() / "absent", folder.path() / "win"});
  EXPECT_THAT(found, ElementsAre(debian, newer, older, windows));
}

TEST(RuntimeSearch, LooksInTheActiveEnvironmentFirst) {
  const auto before = environment("VIRTUAL_ENV");
  ::setenv("VIRTUAL_ENV", "/somewhere/env", 1);
  const auto prefixes = python_prefixes();
  before ? ::setenv("VIRTUAL_ENV", before->c_str(), 1) : ::unsetenv("VIRTUAL_ENV");
  ASSERT_FALSE(prefixes.empty());
  EXPECT_EQ(prefixes.front(), fs::path("/somewhere/env/"));
  EXPECT_EQ(prefixes.back(), "/usr");
}

}  // namespace
}  // namespace mobius::runtime
