// Paths, model ids, and the Hugging Face cache.
#include "mobius/hub/resolve.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "mobius/base/error.hpp"
#include "mobius/base/folder.hpp"

namespace mobius::hub {
namespace {

bool is_folder(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

// The path's last name, also of "." and "models/".
std::string name_of(const fs::path& path) {
  std::error_code ignored;
  fs::path full = fs::absolute(path, ignored).lexically_normal();
  if (!full.has_filename()) full = full.parent_path();
  return full.filename().string();
}

// "org/name" or "name": letters, digits, '-', '_', '.'; a name neither begins nor ends with '-' or '.'.
bool is_model_id(std::string_view text) {
  const auto is_name = [](std::string_view s) {
    const auto is_edge = [](char c) { return c == '.' || c == '-'; };
    const auto is_fine = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.'; };
    return !s.empty() && s.size() <= 96 && std::ranges::all_of(s, is_fine) && !is_edge(s.front()) && !is_edge(s.back()) && s.find("--") == s.npos &&
           s.find("..") == s.npos;
  };
  const auto slash = text.find('/');
  if (slash == text.npos) return is_name(text);
  return is_name(text.substr(0, slash)) && is_name(text.substr(slash + 1));
}

bool is_commit(std::string_view text) {
  return text.size() == 40 && std::ranges::all_of(text, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

std::string folder_name(std::string_view id) {
  std::string name = "models--";
  for (const char c : id) name += c == '/' ? std::string("--") : std::string(1, c);
  return name;
}

// A revision is a path below refs/ ("main", "refs/pr/3"): it must stay there.
bool stays_inside(std::string_view revision) {
  const fs::path path(revision);
  return !path.is_absolute() && std::ranges::none_of(path, [](const fs::path& part) { return part == ".." || part == "."; });
}

std::optional<std::string> commit_of(const fs::path& repository, const std::string& revision) {
  if (is_commit(revision)) return revision;
  const fs::path ref = repository / "refs" / revision;
  std::error_code ignored;
  if (!fs::is_regular_file(ref, ignored)) return std::nullopt;
  std::string text = read_text_file(ref, 4096);
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r' || text.back() == ' ')) text.pop_back();
  if (!is_commit(text)) fail(ErrorKind::corrupt_file, "{}: found '{}', expected a commit hash", ref.string(), text.substr(0, 60));
  return text;
}

// Of an id whose first part is a folder here, or is called as everybody calls the folder of models, a path was meant.
bool is_meant_as_path(std::string_view id) {
  const auto slash = id.find('/');
  return slash != id.npos && (id.substr(0, slash) == "models" || is_folder(id.substr(0, slash)));
}

// "models/Qwen2 is no folder or file here (models holds gpt2, Qwen2.5-0.5B)"
std::string not_here(std::string_view id) {
  constexpr std::size_t most = 8;
  const std::string text = fmt::format("{} is no folder or file here", id);
  if (!is_meant_as_path(id)) return text;
  const auto folder = id.substr(0, id.find('/'));
  auto there = readable_entries_of(folder);
  if (there.empty()) return fmt::format("{} ({} {})", text, folder, is_folder(folder) ? "is empty" : "is no folder either");
  if (there.size() > most) {
    const auto others = there.size() - most + 1;
    there.resize(most - 1);
    there.push_back(fmt::format("and {} more", others));
  }
  return fmt::format("{} ({} holds {})", text, folder, fmt::join(there, ", "));
}

[[noreturn]] void fail_revision_of_path(std::string_view path, std::string_view revision) {
  fail(ErrorKind::invalid_argument, "{} is a path: a revision ({}) can only be chosen for a model id", path, revision);
}

[[noreturn]] void fail_not_cached(std::string_view id, const std::string& revision, const fs::path& repository) {
  const std::string option = revision == "main" ? "" : " --revision " + revision;
  const std::string advice = fmt::format("get it with: hf download {}{}", id, option);
  if (!is_folder(repository)) {
    fail(ErrorKind::not_found, "{}, and no such model is in the Hugging Face cache {}{}", not_here(id), cache_folder().string(),
         is_meant_as_path(id) ? "" : "; " + advice);
  }
  const auto there = readable_entries_of(repository / "refs");
  const std::string known = there.empty() ? "none" : fmt::format("{}", fmt::join(there, ", "));
  fail(ErrorKind::not_found, "{}: revision {} is not in the Hugging Face cache {} (there: {}); {}", id, revision, cache_folder().string(), known, advice);
}

ModelSource from_cache(const std::string& id, std::string revision) {
  if (revision.empty()) revision = "main";
  if (!stays_inside(revision)) fail(ErrorKind::invalid_argument, "{}: '{}' is not a revision; expected a branch, a tag or a commit", id, revision);
  const fs::path repository = cache_folder() / folder_name(id);
  const auto commit = commit_of(repository, revision);
  if (!commit || !is_folder(repository / "snapshots" / *commit)) fail_not_cached(id, revision, repository);
  return {repository / "snapshots" / *commit, id, *commit};
}

// A folder of the cache that was named by its path is a snapshot all the same.
ModelSource from_path(const fs::path& path) {
  ModelSource source{path, name_of(path), ""};
  std::error_code ignored;
  fs::path full = fs::absolute(path, ignored).lexically_normal();
  if (!full.has_filename()) full = full.parent_path();
  const std::string repository = full.parent_path().parent_path().filename().string();
  if (!is_commit(source.name) || full.parent_path().filename() != "snapshots" || !repository.starts_with("models--")) return source;
  source.revision = source.name;
  source.name = repository.substr(8);
  if (const auto dashes = source.name.find("--"); dashes != source.name.npos) source.name.replace(dashes, 2, "/");
  return source;
}

}  // namespace

ModelSource resolve(std::string_view model, std::string_view revision) {
  if (model.empty()) fail(ErrorKind::invalid_argument, "the model's name is empty");
  if (const fs::path path(model); is_there(path)) {
    if (!revision.empty()) fail_revision_of_path(model, revision);
    return from_path(path);
  }
  std::string id(model);
  std::string chosen(revision);
  if (const auto at = id.find('@'); at != id.npos) {
    if (!chosen.empty()) fail(ErrorKind::invalid_argument, "{}: the revision is given twice, here and as {}", model, revision);
    chosen = id.substr(at + 1);
    id.resize(at);
    if (chosen.empty()) fail(ErrorKind::invalid_argument, "{}: nothing follows the '@', expected a branch, a tag or a commit", model);
    if (is_there(id)) fail_revision_of_path(id, chosen);
  }
  const bool looks_like_path = id.ends_with(".gguf") || id.ends_with(".safetensors") || id.ends_with(".json");
  if (looks_like_path || !is_model_id(id)) fail(ErrorKind::not_found, "{} does not exist", model);
  return from_cache(id, std::move(chosen));
}

fs::path cache_folder() {
  const auto set = [](const char* name) {
    auto value = environment(name);
    if (!value || value->empty()) return std::optional<std::string>();
    if (const auto home = environment("HOME"); home && (*value == "~" || value->starts_with("~/"))) value->replace(0, 1, *home);
    return value;
  };
  if (const auto folder = set("HF_HUB_CACHE")) return *folder;
  if (const auto folder = set("HUGGINGFACE_HUB_CACHE")) return *folder;
  if (const auto folder = set("HF_HOME")) return fs::path(*folder) / "hub";
  if (const auto folder = set("XDG_CACHE_HOME")) return fs::path(*folder) / "huggingface" / "hub";
  auto home = set("HOME");
  if (!home) home = set("USERPROFILE");
  return fs::path(home.value_or(".")) / ".cache" / "huggingface" / "hub";
}

}  // namespace mobius::hub
