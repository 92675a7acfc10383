// A package from disk. One without weights is built again, so that its weights may come from a checkpoint: the file knows packed or transposed
// weights only as what they have become.
#include <algorithm>
#include <charconv>
#include <optional>

#include "mobius/base/error.hpp"
#include "mobius/formats/onnx_reader.hpp"
#include "mobius/ir/unbound.hpp"
#include "mobius/package/build_source.hpp"
#include "mobius/package/package.hpp"
#include "mobius/package/runtime_files.hpp"
#include "mobius/package/target.hpp"

namespace mobius {
namespace {

std::string fact(const ir::Metadata& metadata, std::string_view key) {
  const auto it = metadata.find("mobius." + std::string(key));
  return it == metadata.end() ? "" : it->second;
}

std::string text_of(const ir::Model& model) { return ir::to_text(*model.graph, {.max_elements = 16, .value_info = false}); }

// ── without weights ──

bool is_without_weights(const ir::Model& model) { return fact(model.metadata, "weights") == "none"; }

// The same build once more; nothing where config.json and the metadata don't tell how.
std::optional<ModelPackage> built_again(const fs::path& folder, const ir::Metadata& facts, Padding padding) try {
  const std::string opset = fact(facts, "opset");
  std::int64_t number = 0;
  if (std::from_chars(opset.data(), opset.data() + opset.size(), number).ec != std::errc()) return std::nullopt;
  return package::build_source(package::source_of_package(folder), {.execution_provider = fact(facts, "ep"),
                                                                    .dtype = ir::data_type_from_user(fact(facts, "dtype")),
                                                                    .task = fact(facts, "task"),
                                                                    .load_weights = false,
                                                                    .opset = number,
                                                                    .padding = padding,
                                                                    .as_type = fact(facts, "model_type")});
} catch (const Error& e) {
  if (e.kind() == ErrorKind::cancelled) throw;
  return std::nullopt;
}

// Weights that wait under the names of the graph.
void name_weights(ir::Graph& graph) {
  for (auto* value : graph.initializers()) {
    const auto& data = value->data();
    if (ir::unbound_leaf(*data)) value->set_data(std::make_shared<ir::Placeholder>(std::vector{value->name}, data->dtype(), data->dims()));
  }
  for (const auto* node : graph.nodes())
    for (auto* body : node->subgraphs()) name_weights(*body);
}

void find_weights(Component& component, const fs::path& folder) {
  auto& model = component.model;
  const std::string text = text_of(model);
  for (const auto padding : {Padding::right, Padding::any}) {
    auto again = built_again(folder, model.metadata, padding);
    auto* same = again ? again->find(component.name) : nullptr;
    if (!same || text_of(same->model) != text) continue;
    same->model.metadata = std::move(model.metadata);
    model = std::move(same->model);
    return;
  }
  name_weights(*model.graph);
}

// ── what is there ──

Component read_component(const PackagedModel& found, const fs::path& folder) {
  auto model = formats::read_onnx(found.path, formats::ExternalData::skip);
  const bool is_complete = !is_without_weights(model);
  if (is_complete) model = formats::read_onnx(found.path);
  const std::string role = fact(model.metadata, "role");
  Component component{found.component, role.empty() ? "decoder" : role, std::move(model)};
  if (!is_complete) find_weights(component, folder);
  return component;
}

std::vector<PackageFile> companions_in(const fs::path& folder) {
  std::vector<fs::path> paths;
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.is_regular_file() && package::is_companion(entry.path().filename().string())) paths.push_back(entry.path());
  std::ranges::sort(paths);
  std::vector<PackageFile> files;
  for (const auto& path : paths) files.push_back({path.filename().string(), path});
  return files;
}

[[noreturn]] void fail_without_models(const fs::path& folder) {
  if (!fs::is_directory(folder)) fail(ErrorKind::not_found, "{}: no such folder", folder.string());
  if (fs::is_regular_file(folder / "model.onnx")) formats::read_onnx(folder / "model.onnx", formats::ExternalData::skip);  // says what is wrong with it
  fail(ErrorKind::not_found, "{}: no package: no model.onnx that was written by mobius", folder.string());
}

Json config_in(const fs::path& path) try { return fs::exists(path) ? Json::parse(read_text_file(path)) : Json(); } catch (const Error& e) {
  if (std::string_view(e.what()).starts_with(path.string())) throw;
  throw e.within(path.string());
}

}  // namespace

ModelPackage load_package(const fs::path& folder) {
  ModelPackage package;
  for (const auto& found : packaged_models(folder)) package.components().push_back(read_component(found, folder));
  if (package.components().empty()) fail_without_models(folder);
  package.files() = companions_in(folder);
  package.config = config_in(folder / "config.json");
  package.has_weights = std::ranges::none_of(package.components(), [](const Component& c) { return is_without_weights(c.model); });
  package.sources = {folder};
  package.described = package::fingerprint(package);
  return package;
}

}  // namespace mobius
