// Writing a package: everything into a temporary sibling, then one exchange.
#include <algorithm>
#include <optional>

#include "mobius/base/error.hpp"
#include "mobius/base/option_name.hpp"
#include "mobius/formats/onnx_reader.hpp"
#include "mobius/formats/onnx_writer.hpp"
#include "mobius/package/package.hpp"
#include "mobius/package/runtime_files.hpp"
#include "mobius/package/target.hpp"

namespace mobius {
namespace {

constexpr const char* model_name = "model.onnx";

formats::WriteOptions write_options(const ModelPackage& package, const SaveOptions& options) {
  using External = formats::WriteOptions::External;
  if (options.external_data != "onnx" && options.external_data != "safetensors") {
    fail(ErrorKind::invalid_argument, "external_data is '{}', expected onnx or safetensors", options.external_data);
  }
  if (options.max_shard_size != 0 && options.external_data != "safetensors")
    fail(ErrorKind::invalid_argument, "{} is of files in safetensors; give {} safetensors too", option_name("max_shard_size"), option_name("external_data"));
  return {.external = options.external_data == "onnx" ? External::onnx : External::safetensors,
          .max_shard_size = options.max_shard_size,
          .write_data = package.has_weights};
}

// Of the weights, without the graph.
std::uint64_t data_size(const Component& component, const formats::WriteOptions& options) {
  const auto plan = formats::plan_onnx(component.model, options, model_name);
  return plan.total_size() - plan.files.front().size;
}

std::uint64_t size_of(const PackageFile& file) {
  if (const auto* text = std::get_if<std::string>(&file.content)) return text->size();
  const auto& path = std::get<fs::path>(file.content);
  std::error_code error;
  const auto size = fs::file_size(path, error);
  if (error) fail(ErrorKind::io, "{}: {}", path.string(), error.message());
  return size;
}

std::vector<WrittenFile> plan_of(const ModelPackage& package, const std::vector<PackageFile>& companions, const SaveOptions& options) {
  if (package.components().empty()) fail(ErrorKind::invalid_argument, "the package holds no model");
  std::vector<WrittenFile> files;
  for (const auto& component : package.components()) {
    for (const auto& file : formats::plan_onnx(component.model, write_options(package, options), model_name).files)
      files.push_back({package.folder_of(component) + file.name, file.size});
  }
  for (const auto& file : companions) {
    if (std::ranges::any_of(package.components(), [&](const Component& c) { return package.folder_of(c) == file.name + "/"; }))
      fail(ErrorKind::invalid_argument, "component '{}' has the name of a file of the package", file.name);
    files.push_back({file.name, size_of(file)});
  }
  return files;
}

void write_file(const PackageFile& file, const fs::path& to) {
  if (const auto* text = std::get_if<std::string>(&file.content)) write_text_file(to, *text);
  else copy_file_contents(std::get<fs::path>(file.content), to);
}

std::uint64_t total_size(const std::vector<WrittenFile>& files) {
  std::uint64_t total = 0;
  for (const auto& file : files) total += file.size;
  return total;
}

void check_space(const fs::path& target, std::uint64_t needed) {
  const auto free = free_disk_space(target);
  if (free && *free < needed) fail(ErrorKind::io, "{}: the disk is too full: the package has {} bytes, {} are free", target.string(), needed, *free);
}

void remove_all_quietly(const fs::path& path) {
  std::error_code ignored;
  fs::remove_all(path, ignored);
}

// Parents that had to be made for the target; removed again unless kept.
class Parents {
 public:
  explicit Parents(const fs::path& folder) {
    std::error_code error;
    for (fs::path at = folder; !fs::exists(at, error) && at.has_relative_path(); at = at.parent_path()) made_.push_back(at);
    fs::create_directories(folder, error);
    if (error) {
      remove();
      fail(ErrorKind::io, "{}: can't be made: {}", folder.string(), error.message());
    }
  }
  ~Parents() {
    if (!kept_) remove();
  }
  Parents(const Parents&) = delete;
  Parents& operator=(const Parents&) = delete;
  void keep() { kept_ = true; }

 private:
  void remove() {
    std::error_code ignored;
    for (const auto& folder : made_) fs::remove(folder, ignored);  // innermost first; only empty ones go
  }

  std::vector<fs::path> made_;
  bool kept_ = false;
};

// A folder for what is being written, which vanishes unless it was put in place.
class Draft {
 public:
  explicit Draft(const fs::path& target) : path_(temporary_sibling(target)) {
    std::error_code error;
    fs::create_directory(path_, error);
    if (error) fail(ErrorKind::io, "{}: can't be made: {}", path_.string(), error.message());
  }
  ~Draft() { remove_all_quietly(path_); }
  Draft(const Draft&) = delete;
  Draft& operator=(const Draft&) = delete;
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

void write_models(const ModelPackage& package, const fs::path& folder, const SaveOptions& options) {
  // Progress counts the bytes of all components.
  std::uint64_t before = 0, all = 0;
  auto write = write_options(package, options);
  for (const auto& component : package.components()) all += data_size(component, write);
  for (const auto& component : package.components()) {
    if (options.progress) write.progress = [&](std::uint64_t done, std::uint64_t) { options.progress(before + done, all); };
    formats::write_onnx(component.model, folder / package.folder_of(component), model_name, write);
    before += data_size(component, write);
  }
}

bool is_ours(const fs::path& model) {
  try {
    return formats::read_onnx(model, formats::ExternalData::skip).metadata.contains("mobius.version");
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

Component* ModelPackage::find(std::string_view name) {
  const auto it = std::ranges::find(components_, name, &Component::name);
  return it == components_.end() ? nullptr : &*it;
}

std::string ModelPackage::folder_of(const Component& component) const {
  return components_.size() == 1 && component.name == "model" ? "" : component.name + "/";
}

std::string ModelPackage::model_file_of(const Component& component) const { return folder_of(component) + model_name; }

std::vector<WrittenFile> ModelPackage::plan(const SaveOptions& options) const { return plan_of(*this, package::runtime_files(*this, options), options); }

void ModelPackage::check_target(const fs::path& folder, const SaveOptions& options) const {
  check_space(package::checked_target(folder, sources, options.force), total_size(plan(options)));
}

std::vector<WrittenFile> ModelPackage::save(const fs::path& folder, const SaveOptions& options) const {
  const fs::path target = package::checked_target(folder, sources, options.force);
  const auto companions = package::runtime_files(*this, options);
  const auto files = plan_of(*this, companions, options);
  Parents parents(target.parent_path());
  remove_stale_siblings(target);  // before looking at the free space: they may be what fills the disk
  check_space(target, total_size(files));

  const Draft draft(target);
  for (const auto& file : companions) write_file(file, draft.path() / file.name);
  write_models(*this, draft.path(), options);
  replace_path(draft.path(), target);
  parents.keep();
  return files;
}

std::vector<PackagedModel> packaged_models(const fs::path& folder) {
  std::vector<PackagedModel> models;
  std::error_code error;
  if (const auto path = folder / model_name; fs::is_regular_file(path, error) && is_ours(path)) models.push_back({"model", path});
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    const auto path = it->path() / model_name;
    std::error_code ignored;
    if (fs::is_regular_file(path, ignored) && is_ours(path)) models.push_back({it->path().filename().string(), path});
  }
  std::ranges::sort(models, {}, &PackagedModel::component);
  return models;
}

}  // namespace mobius
