// mobius info: what a package holds, or what a model would become.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>

#include "cli/command.hpp"
#include "cli/format.hpp"
#include "mobius/base/error.hpp"
#include "mobius/base/json.hpp"
#include "mobius/base/log.hpp"
#include "mobius/formats/onnx_reader.hpp"
#include "mobius/models/family.hpp"
#include "mobius/package/build.hpp"
#include "mobius/weights/bind.hpp"

namespace mobius::cli {
namespace {

struct Flags {
  std::string what;
  std::string revision;
  bool json = false;
};

// ── packages ──

struct Parameters {
  std::uint64_t count = 0;
  std::uint64_t bytes = 0;
};

// What a graph holds as data: weights and tables; tensors stored once count once.
Parameters parameters_of(const ir::Graph& graph) {
  Parameters sum;
  std::set<std::string> seen;
  for (const ir::Value* value : graph.initializers()) {
    const auto& data = *value->data();
    const auto identity = data.identity();
    if (!identity.empty() && !seen.insert(identity).second) continue;
    sum.count += data.elements();
    sum.bytes += data.byte_size();
  }
  return sum;
}

// "com.microsoft::SkipSimplifiedLayerNormalization" -> 4, the most frequent first.
std::vector<std::pair<std::string, std::int64_t>> operators_of(const ir::Graph& graph) {
  std::map<std::string, std::int64_t> counts;
  for (const ir::Node* node : graph.nodes()) ++counts[ir::to_string(node->op)];
  std::vector<std::pair<std::string, std::int64_t>> sorted(counts.begin(), counts.end());
  std::stable_sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  return sorted;
}

Json shape_json(const ir::Value& value) {
  if (!value.shape()) return nullptr;
  Json dims = Json::Array{};
  for (const auto& dim : *value.shape()) {
    if (dim.is_static()) dims.push_back(dim.value());
    else dims.push_back(dim.is_unknown() ? Json() : Json(dim.to_string()));
  }
  return dims;
}

Json values_json(const std::vector<ir::Value*>& values) {
  Json list = Json::Array{};
  for (const auto* value : values)
    list.push_back(Json::Object{{"name", value->name}, {"dtype", ir::short_name(value->dtype())}, {"shape", shape_json(*value)}});
  return list;
}

// The facts in a model's metadata that begin with "mobius.", without that.
std::vector<std::pair<std::string, std::string>> facts_of(const ir::Model& model) {
  std::vector<std::pair<std::string, std::string>> facts;
  for (const auto& [key, value] : model.metadata) {
    if (key.starts_with("mobius.")) facts.emplace_back(key.substr(7), value);
  }
  return facts;
}

// Operators with a body in the model, which a runtime without a kernel for them runs.
std::set<std::string> functions_of(const ir::Model& model) {
  std::set<std::string> names;
  for (const auto& function : model.functions) names.insert(ir::to_string(ir::OpName{function.domain, function.name}));
  return names;
}

Json component_json(const std::string& name, const ir::Model& model) {
  Json json = Json::Object{{"component", name}};
  for (const auto& [key, value] : facts_of(model)) json.set(key, value);
  json.set("ir_version", model.ir_version);
  Json opsets = Json::Object{};
  for (const auto& [domain, opset] : model.opset_imports) opsets.set(domain.empty() ? "ai.onnx" : domain, opset);
  json.set("opset_imports", std::move(opsets));
  json.set("inputs", values_json(model.graph->inputs()));
  json.set("outputs", values_json(model.graph->outputs()));
  const auto parameters = parameters_of(*model.graph);
  json.set("parameters", parameters.count);
  json.set("parameter_bytes", parameters.bytes);
  json.set("nodes", static_cast<std::int64_t>(model.graph->node_count()));
  Json operators = Json::Object{};
  for (const auto& [op, count] : operators_of(*model.graph)) operators.set(op, count);
  json.set("operators", std::move(operators));
  Json functions = Json::Array{};
  for (const auto& function : functions_of(model)) functions.push_back(function);
  json.set("functions", std::move(functions));
  return json;
}

// Layers of a cache look all alike: of names that differ in their numbers only, the first is shown, with the count.
void print_values(const char* title, const std::vector<ir::Value*>& values) {
  struct Row {
    std::string name, type;
    std::size_t count;
  };
  std::vector<Row> rows;
  std::map<std::string, std::size_t> row_of;
  for (const auto* value : values) {
    std::string pattern;
    for (const char c : value->name) {
      if (c < '0' || c > '9') pattern += c;
      else if (pattern.empty() || pattern.back() != '#') pattern += '#';
    }
    const std::string type = ir::to_string(value->type);
    const auto [it, is_new] = row_of.emplace(pattern + " " + type, rows.size());
    if (is_new) rows.push_back({value->name, type, 1});
    else ++rows[it->second].count;
  }
  std::size_t width = 26;
  for (const auto& row : rows) width = std::max(width, row.name.size());
  fmt::print("{}\n", title);
  for (const auto& row : rows) fmt::print("  {:<{}}  {}{}\n", row.name, width, row.type, row.count > 1 ? fmt::format("  (and {} like it)", row.count - 1) : "");
}

void print_row(std::string_view title, std::string_view value) { fmt::print("{:<18}{}\n", title, value); }

// What it is, where it comes from, what it is for; then what this order doesn't know.
void print_facts(const ir::Model& model) {
  constexpr std::pair<std::string_view, std::string_view> order[] = {{"model_type", "model type"},
                                                                     {"task", "task"},
                                                                     {"role", "role"},
                                                                     {"source", "source"},
                                                                     {"source_id", "source id"},
                                                                     {"ep", "ep"},
                                                                     {"dtype", "dtype"},
                                                                     {"padding", "padding"},
                                                                     {"removed_inputs", "removed inputs"},
                                                                     {"opset", "opset"},
                                                                     {"min_onnxruntime", "min onnxruntime"},
                                                                     {"version", "mobius version"}};
  auto facts = facts_of(model);
  for (const auto& [key, title] : order) {
    const auto fact = std::ranges::find(facts, key, &std::pair<std::string, std::string>::first);
    if (fact == facts.end()) continue;
    print_row(title, fact->second);
    facts.erase(fact);
  }
  for (const auto& [key, value] : facts) print_row(key, value);
}

void print_component(const std::string& name, const ir::Model& model) {
  print_row("component", name);
  print_facts(model);
  fmt::print("{:<18}{}\n", "ir version", model.ir_version);
  const auto parameters = parameters_of(*model.graph);
  fmt::print("{:<18}{} ({}), {}\n", "parameters", with_separators(parameters.count), human_count(parameters.count), human_size(parameters.bytes));
  print_values("inputs", model.graph->inputs());
  print_values("outputs", model.graph->outputs());
  fmt::print("{} nodes\n", model.graph->node_count());
  const auto functions = functions_of(model);
  for (const auto& [op, count] : operators_of(*model.graph)) fmt::print("  {:>6}  {}{}\n", count, op, functions.contains(op) ? "  (with its body)" : "");
}

int package_info(const std::vector<PackagedModel>& models, const char* kind, const Flags& flags) {
  Json components = Json::Array{};
  bool is_first = true;
  for (const auto& [component, path] : models) {
    const auto model = formats::read_onnx(path, formats::ExternalData::skip);
    if (flags.json) {
      components.push_back(component_json(component, model));
    } else {
      if (!is_first) fmt::print("\n");
      print_component(component, model);
    }
    is_first = false;
  }
  if (flags.json) fmt::print("{}\n", Json(Json::Object{{"kind", kind}, {"components", std::move(components)}}).dump(2));
  return 0;
}

// ── models ──

// Distinct tensors of the checkpoint that the graphs read: tied weights count once, tables that are computed do not count.
std::uint64_t parameter_count(const ModelPackage& package) {
  std::set<std::string> seen;
  std::uint64_t count = 0;
  for (const auto& component : package.components()) {
    for (const auto* leaf : weights::placeholders(component.model)) {
      if (seen.insert(leaf->name()).second) count += leaf->elements();
    }
  }
  return count;
}

int model_info(const Flags& flags) {
  logging::set_sink([](logging::Level, std::string_view) {});  // on what the default execution provider would change
  const auto package = build(flags.what, {.load_weights = false, .revision = flags.revision});
  const auto& facts = package.components().front().model.metadata;
  const std::string type = facts.at("mobius.model_type");
  const auto count = parameter_count(package);
  const std::string dtype(ir::short_name(ConfigReader(package.config).dtype()));
  constexpr std::pair<const char*, std::uint64_t> sizes[] = {{"f32", 4}, {"f16", 2}, {"bf16", 2}};
  if (flags.json) {
    Json bytes = Json::Object{};
    for (const auto& [name, size] : sizes) bytes.set(name, count * size);
    fmt::print("{}\n", Json(Json::Object{{"kind", "model"},
                                         {"source", facts.at("mobius.source")},
                                         {"source_id", facts.at("mobius.source_id")},
                                         {"model_type", type},
                                         {"family", require_family(type).name},
                                         {"task", facts.at("mobius.task")},
                                         {"dtype", dtype},
                                         {"parameters", count},
                                         {"bytes", std::move(bytes)}})
                           .dump(2));
    return 0;
  }
  fmt::print("model             {} ({})\n", facts.at("mobius.source"), facts.at("mobius.source_id"));
  fmt::print("model type        {} (family {})\n", type, require_family(type).name);
  fmt::print("task              {}\n", facts.at("mobius.task"));
  fmt::print("checkpoint dtype  {}\n", dtype);
  fmt::print("parameters        {} ({})\n", with_separators(count), human_count(count));
  for (const auto& [name, size] : sizes) fmt::print("weights in {:<7}{}\n", name, human_size(count * size));
  return 0;
}

int info(const Flags& flags) {
  const fs::path path(flags.what);
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) {
    const auto models = packaged_models(path);
    if (!models.empty()) return package_info(models, "package", flags);
    if (const auto model = path / "model.onnx"; fs::is_regular_file(model, ignored))
      formats::read_onnx(model, formats::ExternalData::skip);  // a damaged package is no model: says what is wrong with it
  }
  if (path.extension() == ".onnx") return package_info({{path.stem().string(), path}}, "file", flags);
  return model_info(flags);
}

}  // namespace

Command info_command() {
  auto flags = std::make_shared<Flags>();
  return {.name = "info",
          .summary = "Show what a package holds, or what a model would become",
          .details =
              "Of a package, or of an .onnx file: its components with execution provider, dtype, source, inputs and outputs, operators and parameters. Of a "
              "model: its type, family, task and number of parameters, from its config alone.",
          .arguments = {{.name = "WHAT",
                         .help = "a package's folder, an .onnx file, or a model as build takes it",
                         .into = &flags->what,
                         .completes = Completes::files}},
          .options = {{.names = "--json", .value = "", .help = "as JSON", .into = &flags->json},
                      {.names = "--revision", .value = "REVISION", .help = "of a model id: a branch, a tag or a commit", .into = &flags->revision}},
          .examples = {"mobius info out", "mobius info Qwen/Qwen2.5-0.5B-Instruct"},
          .run = [flags] { return info(*flags); }};
}

}  // namespace mobius::cli
