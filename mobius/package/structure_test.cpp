// What graphs become for each execution provider: the operators equal a reviewed table, testdata/structure/structure.txt.
// After a change that is meant, MOBIUS_UPDATE=1 build/bin/package_test --gtest_filter='Structure.*' writes it again: review its difference.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "mobius/base/log.hpp"
#include "mobius/ep/registry.hpp"
#include "mobius/ir/recipe.hpp"
#include "mobius/ops/vocabulary.hpp"
#include "mobius/package/build.hpp"
#include "mobius/package/kernel_facts_test.hpp"
#include "mobius/passes/pipeline.hpp"

namespace mobius {
namespace {

using ir::DataType;

constexpr DataType all_dtypes[] = {DataType::float32, DataType::float16, DataType::bfloat16};
const std::string testdata = MOBIUS_TESTDATA;

struct Graph {
  std::string name;
  std::string config;  // the folder of a config.json from which it is built; empty: a text
  std::string role = "decoder";
};

// What others export has projections that we cut at load time.
const Graph graphs[] = {{"llama", "golden/llama"},
                        {"qwen3", "golden/qwen3"},
                        {"phi3", "golden/phi3"},
                        {"gpt2", "structure/configs/gpt2"},
                        {"gemma2", "structure/configs/gemma2"},
                        {"mixtral", "structure/configs/mixtral"},
                        {"phi3_exported", ""},
                        {"gpt2_exported", ""},
                        {"gemma2_exported", ""},
                        {"bert", "", "encoder"}};

ir::Model read(const std::string& name, DataType dtype) {
  auto model = ir::model_from_text(read_text_file(testdata + "/structure/" + name + ".txt"));
  const auto is_float32 = [](const ir::Value* v) { return v->dtype() == DataType::float32; };
  for (const auto& list : {model.graph->inputs(), model.graph->outputs()})
    for (auto* v : list)
      if (is_float32(v)) v->type.dtype = dtype;
  for (auto* v : model.graph->initializers())
    if (is_float32(v)) v->set_data(ir::cast(v->data(), dtype));
  return model;
}

ir::Model made_for(const Graph& graph, const std::string& ep, DataType dtype) {
  if (!graph.config.empty()) {
    auto package = build(testdata + "/" + graph.config, {.execution_provider = ep, .dtype = dtype, .load_weights = false});
    return std::move(package.components().front().model);
  }
  auto model = read(graph.name, dtype);
  optimize_model(model, {.ep = ep, .dtype = dtype, .model_role = graph.role});
  return model;
}

// "ms.GroupQueryAttention packed rope window": the forms of attention differ in what a kernel must do.
std::string form(const ir::Node& n) {
  auto text = (n.op.domain == ops::microsoft ? "ms." : "") + std::string(n.op.type);
  if (!n.is("GroupQueryAttention", ops::microsoft)) return text;
  if (!n.input(1)) text += " packed";
  if (n.int_attribute("do_rotary", 0)) text += " rope";
  if (n.int_attribute("local_window_size", -1) > 0) text += " window";
  if (n.float_attribute("softcap", 0) != 0) text += " softcap";
  if (n.input(10)) text += " bias";
  return text;
}

std::string operators(const ir::Model& model) {
  std::map<std::string, int> counts;
  for (const auto* n : model.graph->nodes()) ++counts[form(*n)];
  std::vector<std::string> list;
  for (const auto& [name, count] : counts) list.push_back(fmt::format("{} {}", name, count));
  return fmt::format("{:>3} = {}", model.graph->node_count(), fmt::join(list, ", "));
}

class Structure : public testing::Test {
 protected:
  void SetUp() override {
    sink_ = logging::set_sink([](logging::Level, std::string_view) {});
  }
  void TearDown() override { logging::set_sink(sink_); }

  template <class Check>
  static void each_target(const Graph& graph, Check&& check) {
    for (const auto& ep : builtin_eps())
      for (const auto dtype : all_dtypes)
        if (ep.dtypes.contains(dtype)) {
          SCOPED_TRACE(fmt::format("{} for {} in {}", graph.name, ep.name, ir::short_name(dtype)));
          check(ep, dtype, made_for(graph, ep.name, dtype));
        }
  }

 private:
  logging::Sink sink_;
};

// One line for all dtypes of an EP that give the same.
std::string table_of(const Graph& graph, const std::map<std::string, std::vector<std::pair<std::string, std::string>>>& found) {
  std::string text = fmt::format("\n{}\n", graph.name);
  for (const auto& ep : builtin_eps()) {
    std::vector<std::pair<std::string, std::string>> lines;  // dtypes, operators
    for (const auto& [dtype, operators] : found.at(ep.name)) {
      const auto same = std::ranges::find(lines, operators, &std::pair<std::string, std::string>::second);
      if (same == lines.end()) lines.emplace_back(dtype, operators);
      else same->first += " " + dtype;
    }
    for (const auto& [dtypes, operators] : lines) text += fmt::format("  {:<14}{:<13}{}\n", ep.name, dtypes, operators);
  }
  return text;
}

// The rows of `table` that `other` has not, each with its graph: "llama  cpu  f32  30 = ...".
std::string rows_only_in(const std::string& table, const std::string& other) {
  const auto rows_of = [](const std::string& text) {
    std::vector<std::string> rows;
    std::istringstream lines(text);
    for (std::string line, graph; std::getline(lines, line);)
      if (line.starts_with("  ")) rows.push_back(graph + line);
      else graph = line;
    return rows;
  };
  const auto others = rows_of(other);
  std::string found;
  for (const auto& row : rows_of(table))
    if (std::ranges::find(others, row) == others.end()) found += "\n  " + row;
  return found;
}

TEST_F(Structure, EqualsTheReviewedTable) {
  std::string table =
      "# Execution provider, dtypes, nodes = operators, for the graphs of package/structure_test.cpp, which writes and compares this table.\n"
      "# ms. is com.microsoft; behind GroupQueryAttention stands what its kernel must do.\n";
  for (const auto& graph : graphs) {
    std::map<std::string, std::vector<std::pair<std::string, std::string>>> found;
    each_target(
        graph, [&](const EpCapabilities& ep, DataType dtype, const ir::Model& model) { found[ep.name].emplace_back(ir::short_name(dtype), operators(model)); });
    table += table_of(graph, found);
  }
  const auto path = testdata + "/structure/structure.txt";
  if (environment("MOBIUS_UPDATE")) write_text_file(path, table);
  const auto reviewed = read_text_file(path);
  EXPECT_TRUE(table == reviewed) << "new rows:" << rows_only_in(table, reviewed) << "\nreviewed ones that are gone:" << rows_only_in(reviewed, table)
                                 << "\nIf that is meant, MOBIUS_UPDATE=1 build/bin/package_test --gtest_filter='Structure.*' writes " << path
                                 << ": review its difference.";
}

TEST_F(Structure, HoldsNothingThatTheEpLacks) {
  for (const auto& graph : graphs)
    each_target(graph, [&](const EpCapabilities& ep, DataType dtype, const ir::Model& model) {
      EXPECT_THAT(what_is_lacking(model, ep, dtype, graph.role), testing::IsEmpty());
    });
}

// What the Python original makes of the llama case.
TEST_F(Structure, HasNoMoreNodesThanTheOriginal) {
  const std::map<std::string, std::size_t> original = {{"default", 43}, {"cpu", 32}, {"cuda", 32},    {"webgpu", 32},
                                                       {"dml", 43},     {"mlx", 36}, {"trt-rtx", 36}, {"onnx-standard", 47}};
  each_target(graphs[0], [&](const EpCapabilities& ep, DataType dtype, const ir::Model& model) {
    const auto at = original.find(ep.name);
    if (at == original.end()) return;
    // Without a kernel for attention it is the portable graph.
    const bool is_portable = !ep.gqa_dtypes.empty() && !ep.gqa_dtypes.contains(dtype);
    const auto allowed = !is_portable ? at->second : original.at(ep.supports_skip_layer_norm ? "default" : "onnx-standard");
    EXPECT_LE(model.graph->node_count(), allowed);
  });
}

TEST_F(Structure, OnlyDecodersGetGroupQueryAttention) {
  for (const auto& ep : builtin_eps())
    for (const char* role : {"decoder", "vision", "embedding", "encoder"})
      for (const auto dtype : all_dtypes) {
        if (!ep.gqa_dtypes.contains(dtype)) continue;
        auto model = read("gpt2_exported", dtype);
        optimize_model(model, {.ep = ep.name, .dtype = dtype, .model_role = role});
        int count = 0;
        for (const auto* n : model.graph->nodes()) count += n->is("GroupQueryAttention", ops::microsoft);
        EXPECT_EQ(count, role == std::string_view("decoder") ? 2 : 0) << ep.name << " as " << role;
      }
}

}  // namespace
}  // namespace mobius
