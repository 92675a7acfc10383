// The rules for targets, from the ones that can never be broken to the ones that `force` lifts.
#include "mobius/package/target.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <string>

#include "mobius/base/error.hpp"
#include "mobius/base/folder.hpp"
#include "mobius/base/option_name.hpp"
#include "mobius/package/package.hpp"

namespace mobius::package {
namespace {

constexpr std::array<std::string_view, 19> companions = {"config.json",
                                                         "generation_config.json",
                                                         "tokenizer.json",
                                                         "tokenizer_config.json",
                                                         "special_tokens_map.json",
                                                         "tokenizer.model",
                                                         "merges.txt",
                                                         "added_tokens.json",
                                                         "vocab.json",
                                                         "vocab.txt",
                                                         "spiece.model",
                                                         "chat_template.jinja",
                                                         "tekken.json",
                                                         "chat_template.json",
                                                         "tokenizer.model.v3",
                                                         "genai_config.json",
                                                         "model_states.onnx",
                                                         "preprocessor_config.json",
                                                         "processor_config.json"};
constexpr std::array<std::string_view, 3> prefixes = {"LICENSE", "NOTICE", "USE_POLICY"};

bool is_inside(const fs::path& path, const fs::path& folder) {
  const auto [rest, ignored] = std::mismatch(folder.begin(), folder.end(), path.begin(), path.end());
  return rest == folder.end();
}

fs::path without_links(const fs::path& path) {
  std::error_code error;
  fs::path full = fs::weakly_canonical(fs::absolute(path, error), error);
  if (error) full = fs::absolute(path, error).lexically_normal();
  return full.has_filename() ? full : full.parent_path();
}

void check_sources(const fs::path& target, const std::vector<fs::path>& sources) {
  for (const auto& original : sources) {
    const fs::path source = without_links(original);
    if (source == target || same_file(source, target)) {
      fail(ErrorKind::invalid_argument, "{} is the model that is read; write the package elsewhere", target.string());
    }
    if (is_inside(source, target))
      fail(ErrorKind::invalid_argument, "{} holds the model that is read ({}); write the package elsewhere", target.string(), source.string());
    if (is_inside(target, source))
      fail(ErrorKind::invalid_argument, "{} lies in the model that is read ({}); write the package elsewhere", target.string(), source.string());
  }
}

void check_writable(const fs::path& target) {
  std::error_code error;
  fs::path parent = target.parent_path();
  while (!fs::exists(parent, error) && parent.has_relative_path()) parent = parent.parent_path();
  if (!fs::is_directory(parent, error)) fail(ErrorKind::io, "{} can't be made: {} is no folder", target.string(), parent.string());
  temporary_sibling(parent / target.filename());
}

// What would be lost with a package that is replaced: anything that building doesn't write.
std::optional<fs::path> foreign_entry(const fs::path& folder, const std::vector<PackagedModel>& models) {
  for (const std::string& name : entries_of(folder)) {
    const fs::path entry = folder / name;
    std::error_code ignored;
    if (!fs::is_directory(fs::symlink_status(entry, ignored))) {
      if (!is_companion(name) && !is_model_file(name)) return entry;
      continue;
    }
    const bool is_component = std::ranges::any_of(models, [&](const auto& model) { return model.path.parent_path() == entry; });
    if (!is_component) return entry;
    for (const std::string& inner : entries_of(entry)) {
      if (!is_model_file(inner)) return entry / inner;
    }
  }
  return std::nullopt;
}

void check_replaceable(const fs::path& target) {
  if (entries_of(target).empty()) return;
  const auto models = packaged_models(target);
  if (models.empty()) {
    fail(ErrorKind::invalid_argument, "{} exists and holds no package of this program; {} replaces it with all its files", target.string(),
         option_name("force"));
  }
  if (const auto foreign = foreign_entry(target, models)) {
    fail(ErrorKind::invalid_argument, "{} is not part of a package and would be lost with the old one; {} replaces {} with all its files", foreign->string(),
         option_name("force"), target.string());
  }
}

}  // namespace

fs::path checked_target(const fs::path& folder, const std::vector<fs::path>& sources, bool force) {
  if (folder.empty()) fail(ErrorKind::invalid_argument, "the output folder's name is empty");
  const fs::path target = without_links(folder);
  if (!target.has_filename()) fail(ErrorKind::invalid_argument, "{} can't be replaced by a package", target.string());
  check_sources(target, sources);
  std::error_code error;
  const auto status = fs::status(target, error);
  const auto unknown = error;
  if (fs::exists(status) && !fs::is_directory(status)) fail(ErrorKind::invalid_argument, "{} is a file, expected a folder or nothing there", target.string());
  if (!fs::exists(status) && fs::is_symlink(fs::symlink_status(target, error)))
    fail(ErrorKind::invalid_argument, "{} is a link that leads nowhere, expected a folder or nothing there", target.string());
  check_writable(target);
  if (!fs::status_known(status)) fail(ErrorKind::io, "{}: {}", target.string(), unknown.message());  // too long a name, for one
  if (!fs::exists(status)) return target;
  if (is_mount_point(target)) fail(ErrorKind::invalid_argument, "{} is a mount point, and can't be replaced; name a folder in it", target.string());

  const fs::path here = without_links(fs::current_path(error));
  if (here != target && is_inside(here, target)) fail(ErrorKind::invalid_argument, "{} holds the current folder, and can't be replaced", target.string());
  if (!force) check_replaceable(target);
  return target;
}

bool is_companion(std::string_view name) {
  return std::ranges::find(companions, name) != companions.end() || std::ranges::any_of(prefixes, [&](auto prefix) { return name.starts_with(prefix); });
}

bool is_model_file(std::string_view name) { return name.starts_with("model") && (name.find(".onnx") != name.npos || name.find(".safetensors") != name.npos); }

}  // namespace mobius::package
