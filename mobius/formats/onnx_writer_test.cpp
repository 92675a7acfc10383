// Models written and read back, and the files that hold their weights.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <numeric>

#include "mobius/base/error.hpp"
#include "mobius/base/json.hpp"
#include "mobius/base/log.hpp"
#include "mobius/base/parallel.hpp"
#include "mobius/formats/onnx_reader.hpp"
#include "mobius/formats/onnx_writer.hpp"
#include "mobius/formats/safetensors.hpp"
#include "mobius/ir/recipe.hpp"

namespace mobius::formats {
namespace {

using ir::DataType;
using ir::Dims;
using ir::TensorPtr;
using testing::ElementsAre;
using testing::HasSubstr;

class OnnxWriter : public testing::Test {
 protected:
  OnnxWriter() : folder_(fs::temp_directory_path() / fmt::format("mobius_onnx_writer_test_{}", ::getpid())) { fs::remove_all(folder_); }
  ~OnnxWriter() override {
    fs::remove_all(folder_);
    set_thread_count(0);
  }

  std::string file(const std::string& name) const { return read_text_file(folder_ / name); }
  std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_)) names.push_back(entry.path().filename().string());
    std::sort(names.begin(), names.end());
    return names;
  }
  ir::Model read() const { return read_onnx(folder_ / "model.onnx"); }
  void write(const ir::Model& model, const WriteOptions& options = {}) const { write_onnx(model, folder_, "model.onnx", options); }

  // What the plan says must be what is written.
  void write_as_planned(const ir::Model& model, const WriteOptions& options) const {
    const OnnxPlan plan = plan_onnx(model, options);
    write(model, options);
    std::vector<std::string> names;
    for (const auto& [name, size] : plan.files) {
      EXPECT_EQ(fs::file_size(folder_ / name), size) << name;
      names.push_back(name);
    }
    std::sort(names.begin(), names.end());
    EXPECT_EQ(files(), names);
  }

  fs::path folder_;
};

TensorPtr numbers(Dims dims, float first) {
  std::vector<float> values(static_cast<std::size_t>(ir::element_count(dims)));
  std::iota(values.begin(), values.end(), first);
  return ir::make_tensor(std::move(dims), values);
}

// Weights of every origin, some larger than a chunk: in memory, in files, computed, one of them twice.
ir::Model weights_model(const fs::path& source) {
  {
    std::ofstream out(source, std::ios::binary);
    for (int i = 0; i < 9'000'001; ++i) out.put(static_cast<char>(i * 7 + i / 251));
  }
  const auto mapped = MappedFile::open(source);
  ir::Model model = ir::model_from_text("weights () => (y) { y = Constant<value_int = 1>() }");
  ir::Graph& g = *model.graph;
  g.add_initializer("small", numbers({3}, 0));
  g.add_initializer("memory", numbers({300, 7}, 1));
  g.add_initializer("file", ir::mapped_tensor(DataType::uint8, {8'999'991}, mapped, 10));
  g.add_initializer(
      "ranges", ir::concat({ir::mapped_tensor(DataType::bfloat16, {1000, 16}, mapped, 64), ir::mapped_tensor(DataType::bfloat16, {200, 16}, mapped, 3)}, 0));
  g.add_initializer("long_ranges",
                    ir::concat({ir::mapped_tensor(DataType::uint8, {5'000'001}, mapped, 1), ir::mapped_tensor(DataType::uint8, {3'000'000}, mapped, 5)}, 0));
  g.add_initializer("computed", ir::cast(ir::mapped_tensor(DataType::bfloat16, {3001, 1001}, mapped, 2), DataType::float32));
  g.add_initializer("turned", ir::transpose(numbers({64, 33}, 0), {1, 0}));
  g.add_initializer("file_again", ir::mapped_tensor(DataType::uint8, {8'999'991}, mapped, 10));
  g.add_initializer("turned_again", g.find_value("turned")->data());
  return model;
}

void expect_same_weights(const ir::Model& a, const ir::Model& b) {
  ASSERT_EQ(a.graph->initializers().size(), b.graph->initializers().size());
  for (std::size_t i = 0; i < a.graph->initializers().size(); ++i) {
    const ir::Value &x = *a.graph->initializers()[i], &y = *b.graph->initializers()[i];
    EXPECT_EQ(x.name, y.name);
    EXPECT_EQ(x.data()->dims(), y.data()->dims());
    EXPECT_TRUE(x.data()->bytes() == y.data()->bytes()) << x.name;
  }
}

ir::FileRange range_of(const ir::Model& model, const char* name) { return model.graph->find_value(name)->data()->in_files()->at(0); }

// ── messages ─────────────────────────────────────────────────────────────────────────────────────────────────────────────

TEST_F(OnnxWriter, KeepsEverything) {
  const auto sink = logging::set_sink([](logging::Level, std::string_view) {});
  for (const char* name : {"everything.onnx", "printed.onnx", "types_raw.onnx"}) {
    const ir::Model model = read_onnx(fs::path(MOBIUS_TESTDATA) / "onnx" / name);
    const std::string bytes = serialize_onnx(model, true);
    const ir::Model again = parse_onnx(std::as_bytes(std::span(bytes)));
    EXPECT_EQ(to_text(again), to_text(model)) << name;
    EXPECT_EQ(serialize_onnx(again, true), bytes) << name;
    EXPECT_EQ(again.graph->doc, model.graph->doc);
    EXPECT_EQ(again.graph->metadata, model.graph->metadata);
    for (const ir::Value* v : model.graph->initializers()) EXPECT_EQ(again.graph->find_value(v->name)->metadata, v->metadata) << v->name;
    for (const ir::Value* v : model.graph->inputs()) EXPECT_EQ(again.graph->find_value(v->name)->doc, v->doc) << v->name;
    const ir::Node *last = model.graph->last(), *last_again = again.graph->last();
    EXPECT_EQ(last_again ? last_again->metadata : ir::Metadata(), last ? last->metadata : ir::Metadata());
    for (std::size_t i = 0; i < model.functions.size(); ++i) EXPECT_EQ(again.functions[i].metadata, model.functions[i].metadata);
  }
  logging::set_sink(sink);
}

TEST_F(OnnxWriter, LeavesIntermediateTypesOutUnlessTheyCarryMetadata) {
  const ir::Model model = ir::model_from_text("g (float[2] x) => (float[2] y) <float[2] a, float[2] b> { a = Neg(x) b = Neg(a) y = Neg(b) }");
  model.graph->find_value("b")->metadata["keep"] = "this";
  const std::string bytes = serialize_onnx(model);
  const ir::Model again = parse_onnx(std::as_bytes(std::span(bytes)));
  EXPECT_FALSE(again.graph->find_value("a")->type.is_known());
  EXPECT_TRUE(again.graph->find_value("b")->type.is_known());
  EXPECT_EQ(again.graph->find_value("b")->metadata.at("keep"), "this");
}

TEST_F(OnnxWriter, TurnsInitializersOfFunctionsIntoConstants) {
  ir::Model model = ir::model_from_text("g () => () {} <domain: \"d\", opset_import: [\"\" : 24]> f (x) => (y) { y = Add(x, x) }");
  ir::Graph& body = *model.functions[0].body;
  body.first()->set_input(1, body.add_initializer("w", ir::make_scalar(DataType::float32, 2)));
  const std::string bytes = serialize_onnx(model);
  EXPECT_EQ(to_text(parse_onnx(std::as_bytes(std::span(bytes))), {.value_info = false}), to_text(model));
}

// ── data files ───────────────────────────────────────────────────────────────────────────────────────────────────────────

TEST_F(OnnxWriter, WritesWeightsOfEveryOrigin) {
  const fs::path source = folder_.string() + ".source";
  const ir::Model model = weights_model(source);
  write_as_planned(model, {});
  EXPECT_THAT(files(), ElementsAre("model.onnx", "model.onnx.data"));
  const ir::Model again = read();
  expect_same_weights(model, again);
  EXPECT_FALSE(again.graph->find_value("small")->data()->in_files());
  EXPECT_EQ(range_of(again, "memory").offset, 0u);
  EXPECT_EQ(range_of(again, "file").offset, 8448u);  // 8400 rounded up to 64
  EXPECT_EQ(range_of(again, "file_again").offset, range_of(again, "file").offset);
  EXPECT_EQ(range_of(again, "turned_again").offset, range_of(again, "turned").offset);
  EXPECT_EQ(file("model.onnx.data").substr(8400, 48), std::string(48, '\0'));
  fs::remove(source);
}

TEST_F(OnnxWriter, GivesTheSameBytesOnAnyNumberOfThreads) {
  const fs::path source = folder_.string() + ".source";
  const ir::Model model = weights_model(source);
  for (const auto external : {WriteOptions::External::onnx, WriteOptions::External::safetensors}) {
    const std::string data = external == WriteOptions::External::onnx ? "model.onnx.data" : "model.safetensors";
    set_thread_count(1);
    write(model, {.external = external});
    const std::string one_model = file("model.onnx"), one_data = file(data);
    set_thread_count(7);
    write(model, {.external = external});
    EXPECT_TRUE(file("model.onnx") == one_model);
    EXPECT_TRUE(file(data) == one_data);
  }
  fs::remove(source);
}

TEST_F(OnnxWriter, WritesSafetensors) {
  const fs::path source = folder_.string() + ".source";
  const ir::Model model = weights_model(source);
  write_as_planned(model, {.external = WriteOptions::External::safetensors});
  EXPECT_THAT(files(), ElementsAre("model.onnx", "model.safetensors"));
  expect_same_weights(model, read());
  const auto data = SafetensorsFile::open(folder_ / "model.safetensors");
  ASSERT_EQ(data->entries().size(), 6u);  // each tensor once
  EXPECT_EQ(data->find("ranges")->dtype, "BF16");
  EXPECT_EQ(data->find("ranges")->dims, (Dims{1200, 16}));
  EXPECT_EQ(range_of(read(), "memory").offset % 64, 0u);
  EXPECT_TRUE(data->tensor("computed")->bytes() == model.graph->find_value("computed")->data()->bytes());
  fs::remove(source);
}

TEST_F(OnnxWriter, ShardsSafetensors) {
  ir::Model model;
  for (const char* name : {"a", "b", "c", "d"}) model.graph->add_initializer(name, numbers({100}, static_cast<float>(name[0])));
  model.graph->add_initializer("large", numbers({1000}, 0));
  model.graph->add_initializer("narrow", ir::make_filled(DataType::int4, {3, 5}, 3));
  write_as_planned(model, {.external = WriteOptions::External::safetensors, .max_shard_size = 1000, .inline_limit = 0});
  EXPECT_THAT(files(), ElementsAre("model-00001-of-00004.safetensors", "model-00002-of-00004.safetensors", "model-00003-of-00004.safetensors",
                                   "model-00004-of-00004.safetensors", "model.onnx", "model.safetensors.index.json"));
  expect_same_weights(model, read());
  const Json index = Json::parse(file("model.safetensors.index.json"));
  EXPECT_EQ(index.at("metadata").at("total_size").as_int(), 4 * 400 + 4000 + 8);
  for (const auto& [name, shard] : index.at("weight_map").as_object())
    EXPECT_NE(SafetensorsFile::open(folder_ / shard.as_string())->find(name), nullptr) << name;
  EXPECT_EQ(index.at("weight_map").at("b").as_string(), "model-00001-of-00004.safetensors");
  EXPECT_EQ(index.at("weight_map").at("large").as_string(), "model-00003-of-00004.safetensors");
  const auto last = SafetensorsFile::open(folder_ / "model-00004-of-00004.safetensors");
  EXPECT_EQ(last->find("narrow")->dtype, "U8");  // the format has no 4-bit integers
  EXPECT_EQ(last->find("narrow")->dims, Dims{8});
}

TEST_F(OnnxWriter, KeepsNamesInOneFileApart) {
  const ir::Model model = ir::model_from_text(
      "g (bool c) => (y) { y = If(c)<then_branch = t () => (a) <float[2] w = {1,2}> { a = Neg(w) }, else_branch = e () => (b) <float[2] w = {3,4}> { b = "
      "Neg(w) }> }");
  write_as_planned(model, {.external = WriteOptions::External::safetensors, .inline_limit = 0});
  const auto data = SafetensorsFile::open(folder_ / "model.safetensors");
  EXPECT_NE(data->find("w"), nullptr);
  EXPECT_NE(data->find("w.2"), nullptr);
  EXPECT_EQ(to_text(read()), to_text(model));
}

TEST_F(OnnxWriter, KeepsShapesInside) {
  ir::Model model;
  const std::vector<std::int64_t> shape = {1, 2, 3};
  model.graph->add_initializer("shape", ir::make_tensor({3}, shape));
  model.graph->add_initializer("none", numbers({0, 4}, 0));
  model.graph->add_initializer("names", ir::make_string_tensor({1}, {std::string(5000, 'x')}));
  model.graph->add_initializer("weight", numbers({1}, 0));
  write_as_planned(model, {.inline_limit = 0});
  EXPECT_EQ(fs::file_size(folder_ / "model.onnx.data"), 4u);
  EXPECT_EQ(to_text(read()), to_text(model));
}

// ── weights that are not there ───────────────────────────────────────────────────────────────────────────────────────────

TEST_F(OnnxWriter, PlansWithoutReadingWeights) {
  const ir::Model model = ir::model_from_text("g () => () <float[1000,1000] big, float[3] small> {}");
  const OnnxPlan plan = plan_onnx(model, {});
  ASSERT_EQ(plan.files.size(), 2u);
  EXPECT_EQ(plan.files[1].size, 4'000'000u);
  EXPECT_EQ(plan.total_size(), plan.files[0].size + 4'000'000);
  try {
    write(model);
    ADD_FAILURE() << "no error";
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::not_found);
    EXPECT_STREQ(e.what(), "2 initializers have no data: big, small");
  }
  EXPECT_FALSE(fs::exists(folder_));
}

TEST_F(OnnxWriter, CanLeaveWeightsOut) {
  const ir::Model model = ir::model_from_text("g () => () <float[1000,1000] big, float[3] small, float[1] known = {1}> {}");
  write_as_planned(model, {.write_data = false});
  EXPECT_THAT(files(), ElementsAre("model.onnx"));
  EXPECT_THAT(file("model.onnx"), HasSubstr("4000000"));
  EXPECT_EQ(read_onnx(folder_ / "model.onnx", ExternalData::skip).graph->initializers().size(), 3u);
}

// ── interruptions ────────────────────────────────────────────────────────────────────────────────────────────────────────

TEST_F(OnnxWriter, ReportsProgressAndStops) {
  const fs::path source = folder_.string() + ".source";
  const ir::Model model = weights_model(source);
  std::uint64_t last = 0, total = 0;
  const auto progress = [&](std::uint64_t done, std::uint64_t all) {
    EXPECT_GE(done, last);
    last = done;
    total = all;
  };
  write(model, {.progress = progress});
  EXPECT_EQ(last, total);
  EXPECT_EQ(total, 8400u + 8'999'991 + 38'400 + 8'000'001 + 12'016'004 + 8448);

  const std::string before = file("model.onnx.data");
  const auto stop = [](std::uint64_t done, std::uint64_t) {
    if (done > 5'000'000) fail(ErrorKind::cancelled, "stopped");
  };
  EXPECT_THROW(write(model, {.alignment = 128, .progress = stop}), Error);
  EXPECT_THAT(files(), ElementsAre("model.onnx", "model.onnx.data"));
  EXPECT_TRUE(file("model.onnx.data") == before);
  fs::remove(source);
}

TEST_F(OnnxWriter, CanReplaceTheFilesItReadsFrom) {
  ir::Model model;
  for (const char* name : {"a", "b"}) model.graph->add_initializer(name, numbers({2000}, static_cast<float>(name[0])));
  write(model);
  const ir::Model mapped = read();
  write(mapped, {.alignment = 4096});
  expect_same_weights(model, read());
  expect_same_weights(model, mapped);  // the old file lives as long as it is mapped
}

TEST_F(OnnxWriter, NamesTheTensorThatFails) {
  ir::Model model;
  const TensorPtr bad = ir::computed(DataType::float32, {1000, 10}, "bad", [](std::int64_t, std::int64_t, float*) { fail(ErrorKind::io, "no luck"); });
  model.graph->add_initializer("w", bad);
  try {
    write(model);
    ADD_FAILURE() << "no error";
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(), "w: no luck");
  }
  EXPECT_TRUE(files().empty());
}

TEST_F(OnnxWriter, RefusesOptionsThatMakeNoSense) {
  const ir::Model model;
  for (const char* name : {"a/b", "..", "/abs", "model.onnx"}) EXPECT_THROW(plan_onnx(model, {.data_name = name}), Error) << name;
  EXPECT_THROW(plan_onnx(model, {.alignment = 48}), Error);
  EXPECT_THROW(plan_onnx(model, {.alignment = 0}), Error);
  EXPECT_THROW(plan_onnx(model, {}, ""), Error);
}

// A sparse file stands for the weights: nothing of it is read.
TEST_F(OnnxWriter, KnowsTheLimitOfMessages) {
  const fs::path source = folder_.string() + ".source";
  write_text_file(source, "");
  fs::resize_file(source, 3ull << 30);
  ir::Model model;
  const auto file = MappedFile::open(source);
  model.graph->add_initializer("huge", ir::mapped_tensor(DataType::float32, {512 << 20}, file, 0));
  model.graph->add_initializer("large", ir::mapped_tensor(DataType::float32, {1 << 20}, file, 0));
  try {
    serialize_onnx(model);
    ADD_FAILURE() << "no error";
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::invalid_argument);
    EXPECT_STREQ(e.what(),
                 "the model has 2151.7 MB inside its .onnx file, which can hold 2147.5 MB; the largest tensors there: huge (2147.5 MB), large (4.2 MB)");
  }
  EXPECT_EQ(plan_onnx(model, {}).files[1].size, (2ull << 30) + (4 << 20));
  fs::remove(source);
}

// ── data that lies there already ─────────────────────────────────────────────────────────────────────────────────────────

TEST_F(OnnxWriter, unchanged_data_stays_where_it_is) {
  std::vector<float> values(1024);
  std::iota(values.begin(), values.end(), 0.0F);
  ir::Model original;
  original.graph->add_initializer("a", ir::make_tensor({32, 32}, values));
  original.graph->add_initializer("b", ir::make_tensor({512, 2}, values));
  write(original);
  const auto before = file("model.onnx.data");

  ExternalFiles there;
  auto model = read_onnx(folder_ / "model.onnx", ExternalData::read, &there);
  ASSERT_EQ(there.size(), 1u);
  EXPECT_EQ(there.begin()->first, "model.onnx.data");
  auto* a = model.graph->find_value("a");
  model.graph->add_initializer("c", ir::transpose(a->data(), {1, 0}));
  const WriteOptions options{.in_place = there};
  write_onnx(model, folder_, "second.onnx", options);
  EXPECT_THAT(files(), ElementsAre("model.onnx", "model.onnx.data", "second.onnx", "second.onnx.data"));
  EXPECT_EQ(file("model.onnx.data"), before);
  EXPECT_EQ(fs::file_size(folder_ / "second.onnx.data"), 4096u);
  const auto plan = plan_onnx(model, options, "second.onnx");
  EXPECT_EQ(plan.files.at(1).size, 4096u);
  EXPECT_THAT(plan.refers_to, ElementsAre("model.onnx.data"));
  EXPECT_TRUE(plan_onnx(model, {}, "second.onnx").refers_to.empty());

  const auto again = read_onnx(folder_ / "second.onnx");
  EXPECT_EQ(again.graph->find_value("b")->data()->bytes(), model.graph->find_value("b")->data()->bytes());
  EXPECT_EQ(again.graph->find_value("c")->data()->bytes(), model.graph->find_value("c")->data()->bytes());
  EXPECT_THROW(write_onnx(model, folder_, "model.onnx", options), Error) << "its data file is in use";
}

}  // namespace
}  // namespace mobius::formats
