// The table of runtimes.
#include "mobius/package/runtime_files.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "mobius/base/error.hpp"
#include "mobius/base/log.hpp"
#include "mobius/base/option_name.hpp"
#include "mobius/hub/sha256.hpp"
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

// Those that no runtime made; `left_out` gets the names of the others.
std::vector<PackageFile> own_files(const ModelPackage& package, std::vector<std::string>* left_out = nullptr) {
  std::vector<PackageFile> files;
  for (const auto& file : package.files()) {
    if (!is_runtime_file(file.name)) files.push_back(file);
    else if (left_out) left_out->push_back(file.name);
  }
  return files;
}

// A runtime's files stay with the graphs that they were made for.
std::vector<PackageFile> files_that_fit(const ModelPackage& package) {
  std::vector<std::string> left_out;
  auto files = own_files(package, &left_out);
  if (left_out.empty() || package.described == fingerprint(package)) return package.files();
  logging::warning("{} left out: made for the graphs that the package had before; {} writes what these need", fmt::join(left_out, ", "),
                   option_name("runtime"));
  return files;
}

std::vector<PackageFile> genai_files(const ModelPackage& package, const SaveOptions& options) {
  const Companions companions(package);
  auto files = own_files(package);
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
  std::array<std::string_view, 2> made;  // the names of what is made from the graphs
  std::vector<PackageFile> (*files)(const ModelPackage&, const SaveOptions&);
};
constexpr Runtime runtimes[] = {{"ort-genai", {"genai_config.json", pipeline_file_name}, genai_files}};

}  // namespace

std::vector<PackageFile> runtime_files(const ModelPackage& package, const SaveOptions& options) {
  if (options.runtime.empty()) {
    if (options.context_length != 0)
      fail(ErrorKind::invalid_argument, "{} is {}, which says something to a runtime only; give {} too", option_name("context_length"), options.context_length,
           option_name("runtime"));
    return files_that_fit(package);
  }
  const auto it = std::ranges::find(runtimes, options.runtime, &Runtime::name);
  if (it == std::end(runtimes)) fail(ErrorKind::invalid_argument, "runtime is '{}', expected {}", options.runtime, fmt::join(runtime_names(), ", "));
  return it->files(package, options);
}

bool is_runtime_file(std::string_view name) {
  return std::ranges::any_of(runtimes, [&](const Runtime& runtime) { return std::ranges::find(runtime.made, name) != runtime.made.end(); });
}

std::string fingerprint(const ModelPackage& package) {
  hub::Sha256 hash;
  for (const auto& component : package.components()) {
    hash.add(component.name + "\n");
    hash.add(ir::to_text(*component.model.graph, {.max_elements = 0, .value_info = false}));
  }
  return hash.hex();
}

}  // namespace mobius::package

namespace mobius {

std::vector<std::string> runtime_names() {
  std::vector<std::string> names;
  for (const auto& runtime : package::runtimes) names.emplace_back(runtime.name);
  return names;
}

}  // namespace mobius
