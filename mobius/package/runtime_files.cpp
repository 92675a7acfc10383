// The table of runtimes.
#include "mobius/package/runtime_files.hpp"

#include <fmt/ranges.h>

#include <algorithm>

#include "mobius/base/error.hpp"
#include "mobius/package/genai_config.hpp"
#include "mobius/package/genai_pipeline.hpp"
#include "mobius/package/genai_tokenizer.hpp"

namespace mobius::package {
namespace {

void set_file(std::vector<PackageFile>& files, PackageFile file) {
  const auto it = std::ranges::find(files, file.name, &PackageFile::name);
  if (it != files.end()) *it = std::move(file);
  else files.push_back(std::move(file));
}

PackageFile json_file(std::string name, const Json& content) { return {std::move(name), content.dump(2) + "\n"}; }

std::vector<PackageFile> genai_files(const ModelPackage& package, const SaveOptions& options) {
  const Companions companions(package);
  auto files = package.files();
  if (const auto config = genai_tokenizer_config(companions)) set_file(files, json_file("tokenizer_config.json", *config));
  const auto config = genai_config(package, companions, {.context_length = options.context_length});
  set_file(files, json_file("genai_config.json", config));
  for (const auto& component : package.components()) {
    if (auto file = pipeline_file(config.at("model").at("decoder"), component.model)) set_file(files, std::move(*file));
  }
  return files;
}

struct Runtime {
  std::string_view name;
  std::vector<PackageFile> (*files)(const ModelPackage&, const SaveOptions&);
};
constexpr Runtime runtimes[] = {{"ort-genai", genai_files}};

}  // namespace

std::vector<PackageFile> runtime_files(const ModelPackage& package, const SaveOptions& options) {
  if (options.runtime.empty()) return package.files();
  const auto it = std::ranges::find(runtimes, options.runtime, &Runtime::name);
  if (it == std::end(runtimes)) fail(ErrorKind::invalid_argument, "runtime is '{}', expected {}", options.runtime, fmt::join(runtime_names(), ", "));
  return it->files(package, options);
}

}  // namespace mobius::package

namespace mobius {

std::vector<std::string> runtime_names() {
  std::vector<std::string> names;
  for (const auto& runtime : package::runtimes) names.emplace_back(runtime.name);
  return names;
}

}  // namespace mobius
