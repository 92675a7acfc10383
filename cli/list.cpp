// mobius list: what can be built, for what, in what.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>

#include "cli/choices.hpp"
#include "cli/command.hpp"
#include "mobius/base/json.hpp"
#include "mobius/ep/fields.hpp"
#include "mobius/ep/registry.hpp"
#include "mobius/models/family.hpp"

namespace mobius::cli {
namespace {

constexpr ir::DataType build_dtypes[] = {ir::DataType::float32, ir::DataType::float16, ir::DataType::bfloat16};

std::string dtypes_of(const DataTypeSet& set) {
  std::string text;
  for (const auto t : build_dtypes) {
    if (set.contains(t)) text += (text.empty() ? "" : ", ") + std::string(ir::short_name(t));
  }
  return text;
}

// Rows of text in columns, and the same as JSON objects.
struct Table {
  std::vector<std::string> header;
  std::vector<std::vector<std::string>> rows = {};
  Json json = Json::Array{};

  void print() const {
    std::vector<std::size_t> widths;
    for (const auto& name : header) widths.push_back(name.size());
    for (const auto& row : rows) {
      for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
    }
    print_row(header, widths);
    for (const auto& row : rows) print_row(row, widths);
  }

 private:
  static void print_row(const std::vector<std::string>& row, const std::vector<std::size_t>& widths) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) line += i + 1 < row.size() ? fmt::format("{:<{}}", row[i], widths[i] + 2) : row[i];
    fmt::print("{}\n", line);
  }
};

Json words_of(std::string_view list) {
  Json words = Json::Array{};
  for (std::size_t at = 0; at < list.size();) {
    const auto end = std::min(list.find(' ', at), list.size());
    words.push_back(Json(list.substr(at, end - at)));
    at = end + 1;
  }
  return words;
}

// All of them as one word.
std::string short_list(std::string_view eps) {
  const auto count = words_of(eps).as_array().size();
  return count == builtin_eps().size() ? fmt::format("all {}", count) : std::string(eps);
}

std::string or_dash(std::string text) { return text.empty() ? "-" : text; }

Table models_table() {
  std::map<std::string, const Family*> by_type;
  for (const auto& family : families()) {
    for (const auto type : family.types) by_type.emplace(type, &family);
  }
  Table table{.header = {"MODEL TYPE", "FAMILY", "TASK", "PROVEN FOR", "BY"}};
  for (const auto& [type, family] : by_type) {
    const auto* found = find_evidence(type);
    const auto evidence = found ? *found : Evidence{};
    table.rows.push_back({type, family->name, std::string(family->task), or_dash(short_list(evidence.eps)), or_dash(std::string(evidence.cases))});
    table.json.push_back(Json::Object{{"type", type},
                                      {"family", family->name},
                                      {"file", "mobius/models/" + family->name + ".cpp"},
                                      {"task", family->task},
                                      {"cases", words_of(evidence.cases)},
                                      {"execution_providers", words_of(evidence.eps)}});
  }
  return table;
}

Table tasks_table() {
  std::map<std::string, std::int64_t> types;
  for (const auto& family : families()) types[std::string(family.task)] += static_cast<std::int64_t>(family.types.size());
  Table table{.header = {"TASK", "MODEL TYPES"}};
  for (const auto& [task, count] : types) {
    table.rows.push_back({task, std::to_string(count)});
    table.json.push_back(Json::Object{{"name", task}, {"model_types", count}});
  }
  return table;
}

Table eps_table() {
  Table table{.header = {"NAME", "DTYPES", "DESCRIPTION"}};
  for (const auto& name : ep_registry().names()) {
    const auto& ep = get_ep(name);
    table.rows.push_back({name, dtypes_of(ep.dtypes), ep.description});
    table.json.push_back(to_json(ep));
  }
  return table;
}

Table ep_fields_table() {
  Table table{.header = {"FIELD", "DEFAULT", "MEANING"}};
  const EpCapabilities none;
  for (const auto& field : ep_fields()) {
    const auto otherwise = value_of(field, none);
    table.rows.push_back({std::string(field.name), otherwise.dump(), std::string(field.help)});
    table.json.push_back(Json::Object{{"name", field.name}, {"kind", kind_of(field)}, {"default", otherwise}, {"help", field.help}});
  }
  return table;
}

Table dtypes_table() {
  Table table{.header = {"NAME", "ONNX", "BITS"}};
  for (const auto t : build_dtypes) {
    table.rows.push_back({std::string(ir::short_name(t)), std::string(ir::onnx_name(t)), std::to_string(ir::bit_width(t))});
    table.json.push_back(Json::Object{{"name", ir::short_name(t)}, {"onnx", ir::onnx_name(t)}, {"bits", ir::bit_width(t)}});
  }
  return table;
}

struct Flags {
  std::string what;
  bool json = false;
};

int list(const Flags& flags) {
  static const std::map<std::string, Table (*)()> tables = {
      {"models", models_table}, {"tasks", tasks_table}, {"eps", eps_table}, {"ep-fields", ep_fields_table}, {"dtypes", dtypes_table}};
  const Table table = tables.at(flags.what)();
  if (flags.json) fmt::print("{}\n", table.json.dump(2));
  else table.print();
  return 0;
}

}  // namespace

std::vector<std::string> ep_names() { return ep_registry().names(); }

std::vector<std::string> dtype_names() {
  std::vector<std::string> names;
  for (const auto t : build_dtypes) names.emplace_back(ir::short_name(t));
  return names;
}

bool is_dtype(const std::string& text) {
  const auto type = ir::data_type_from_user(text);
  return type && std::ranges::find(build_dtypes, *type) != std::end(build_dtypes);
}

std::vector<std::string> task_names() {
  std::set<std::string> names;
  for (const auto& family : families()) names.emplace(family.task);
  return {names.begin(), names.end()};
}

std::vector<std::string> model_types() {
  std::set<std::string> names;
  for (const auto& family : families()) names.insert(family.types.begin(), family.types.end());
  return {names.begin(), names.end()};
}

Command list_command() {
  auto flags = std::make_shared<Flags>();
  return {.name = "list",
          .summary = "Show what can be built: model types, tasks, execution providers, dtypes",
          .arguments = {{.name = "KIND", .help = "what to list", .into = &flags->what, .choices = {"models", "tasks", "eps", "ep-fields", "dtypes"}}},
          .options = {{.names = "--json", .value = "", .help = "as JSON", .into = &flags->json}},
          .examples = {"mobius list eps"},
          .run = [flags] { return list(*flags); }};
}

}  // namespace mobius::cli
