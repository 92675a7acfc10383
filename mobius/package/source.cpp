// Finding config.json and what belongs to it, or saying what is there instead.
#include "mobius/package/source.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "mobius/base/error.hpp"
#include "mobius/base/folder.hpp"
#include "mobius/base/lfs_pointer.hpp"
#include "mobius/formats/gguf.hpp"
#include "mobius/hub/resolve.hpp"
#include "mobius/hub/sha256.hpp"
#include "mobius/package/gguf_files.hpp"
#include "mobius/package/runtime_files.hpp"
#include "mobius/package/target.hpp"

namespace mobius::package {
namespace {

constexpr std::uint64_t max_json = 64 << 20;
constexpr std::uint64_t sampled = 64 << 10;  // bytes at each end of a weight file that tell it from others

bool is_weights(std::string_view name) { return name.ends_with(".safetensors") || name.ends_with(".safetensors.index.json") || name.ends_with(".gguf"); }

bool has(const std::vector<std::string>& names, std::string_view name) { return std::ranges::binary_search(names, name); }

// Of a folder that holds no weights as checkpoints do.
void refuse_package(const fs::path& folder) {
  if (!packaged_models(folder).empty()) fail(ErrorKind::invalid_argument, "{} is a package already; expected the model it was built from", folder.string());
}

[[noreturn]] void fail_without_config(const fs::path& folder, const std::vector<std::string>& entries) {
  const std::string place = folder.string();
  if (has(entries, "config.json")) fail(ErrorKind::not_found, "{}: config.json is a link to a file that is not there; download it again", place);
  if (has(entries, "adapter_config.json"))
    fail(ErrorKind::unsupported, "{} holds an adapter (adapter_config.json), not a model; merge it into its base model", place);
  if (has(entries, "model_index.json")) fail(ErrorKind::unsupported, "{} holds a diffusers pipeline (model_index.json), which can't be built", place);
  if (has(entries, "params.json")) {
    fail(ErrorKind::unsupported, "{} holds a model in its maker's own layout (params.json); convert it to the Hugging Face layout", place);
  }
  refuse_package(folder);
  fail(ErrorKind::not_found, "{} has no config.json: expected a model in the Hugging Face layout, or a .gguf file", place);
}

Json read_config(const fs::path& path) try {
  Json config = Json::parse(read_text_file(path, max_json));
  if (!config.is_object()) fail(ErrorKind::corrupt_file, "found {}, expected a JSON object", config.kind());
  return config;
} catch (const Error& e) {
  // File errors name the path already.
  if (std::string_view(e.what()).starts_with(path.string())) throw;
  throw e.within(path.string());
}

void read_gguf(Source& source, const fs::path& path) {
  source.is_gguf = true;
  source.weights = path;
  source.config_place = path.string();
  const auto gguf = formats::GgufFile::open(path);
  GgufFiles files;
  try {
    files = files_from_gguf(*gguf);
  } catch (const Error& e) {
    throw e.within(path.string());
  }
  source.config = std::move(files.config);
  source.files.push_back({"config.json", source.config.dump(2) + "\n"});
  for (auto& [name, content] : files.files) source.files.push_back({std::move(name), std::move(content)});
  source.originals.clear();
  for (const auto& part : gguf->files()) source.originals.push_back(part->path());
}

// Models among a folder's GGUF files: not the later parts of split ones, nor what only projects images.
std::vector<std::string> gguf_models(const std::vector<std::string>& entries) {
  std::vector<std::string> models;
  for (const auto& name : entries) {
    if (!name.ends_with(".gguf") || name.starts_with("mmproj")) continue;
    const auto of = name.rfind("-of-");
    const bool is_later_part = of != name.npos && of >= 6 && name.size() == of + 14 && name.substr(of - 6, 6) != "-00001";
    if (!is_later_part) models.push_back(name);
  }
  return models;
}

// A file that was cut off or never fetched is found now, not by whoever loads the package. JSON is looked at from both ends only:
// tokenizers are large.
void check_complete(const fs::path& path) {
  const auto file = MappedFile::open(path);
  try {
    refuse_lfs_pointer(file->bytes());
    if (path.extension() != ".json") return;
    std::string_view text(reinterpret_cast<const char*>(file->bytes().data()), file->bytes().size());
    constexpr std::string_view blanks = " \t\r\n";
    text.remove_prefix(std::min(text.find_first_not_of(blanks), text.size()));
    if (text.empty()) fail(ErrorKind::corrupt_file, "is empty, expected JSON");
    const char last = text[text.find_last_not_of(blanks)];
    if ((text.front() == '{' && last != '}') || (text.front() == '[' && last != ']'))
      fail(ErrorKind::corrupt_file, "begins with '{}', but does not end with its counterpart: the file is truncated", text.front());
  } catch (const Error& e) {
    throw e.within(path.string());
  }
}

void read_folder(Source& source) {
  const auto entries = entries_of(source.path);
  if (!has(entries, "config.json")) {
    const auto models = gguf_models(entries);
    if (models.size() == 1) return read_gguf(source, source.path / models.front());
    if (models.size() > 1) {
      fail(ErrorKind::invalid_argument, "{} holds {} GGUF models; name one of them: {}", source.path.string(), models.size(), fmt::join(models, ", "));
    }
    fail_without_config(source.path, entries);
  }
  if (std::ranges::none_of(entries, is_weights)) refuse_package(source.path);
  std::error_code ignored;
  for (const auto& name : entries) {
    const fs::path path = source.path / name;
    if (fs::is_symlink(path, ignored)) source.originals.push_back(fs::weakly_canonical(path, ignored));
    if (!is_companion(name) || is_runtime_file(name)) continue;  // a runtime's files describe other graphs than those that will be built
    if (!fs::exists(path, ignored)) {
      if (name == "config.json") fail_without_config(source.path, entries);
      fail(ErrorKind::not_found, "{}: {} is a link to a file that is not there; download it again", source.path.string(), name);
    }
    if (fs::is_directory(path, ignored) && !name.ends_with(".json")) continue;  // "LICENSES"
    if (name != "config.json") check_complete(path);                            // which is read whole below
    source.files.push_back({name, path});
  }
  source.config_place = (source.path / "config.json").string();
  source.config = read_config(source.path / "config.json");
}

void add_sample(hub::Sha256& hash, const fs::path& path) {
  const auto file = MappedFile::open(path);
  hash.add(fmt::format("{}\n{}\n", path.filename().string(), file->size()));
  std::vector<std::byte> bytes(static_cast<std::size_t>(std::min(sampled, file->size())));
  for (const std::uint64_t offset : {std::uint64_t{0}, file->size() - bytes.size()}) {
    file->read_at(offset, bytes);
    hash.add(bytes);
  }
}

}  // namespace

Source read_source(const std::string& model, const std::string& revision) {
  const auto found = hub::resolve(model, revision);
  Source source;
  source.path = found.path;
  source.name = found.name;
  source.revision = found.revision;
  source.weights = found.path;
  source.originals.push_back(found.path);
  std::error_code ignored;
  if (fs::is_directory(found.path, ignored)) {
    read_folder(source);
  } else if (found.path.extension() == ".gguf") {
    read_gguf(source, found.path);
  } else if (found.path.extension() == ".onnx") {
    fail(ErrorKind::invalid_argument, "{} is an ONNX model already: optimize takes it, build a model's folder, a .gguf file or a model id",
         found.path.string());
  } else {
    fail(ErrorKind::invalid_argument, "{} is a file, expected a model's folder, a .gguf file or a model id", found.path.string());
  }
  return source;
}

Source source_of_package(const fs::path& folder) {
  Source source;
  source.path = source.weights = folder;
  source.name = folder.filename().string();
  source.config_place = (folder / "config.json").string();
  source.config = read_config(folder / "config.json");
  return source;
}

std::string Source::identity() const {
  if (!revision.empty()) return revision;
  hub::Sha256 hash;
  if (is_gguf) {
    for (const auto& part : originals) add_sample(hash, part);
  } else {
    hash.add(config.dump());
    for (const auto& entry : entries_of(path)) {
      std::error_code ignored;
      if (is_weights(entry) && fs::is_regular_file(path / entry, ignored)) add_sample(hash, path / entry);
    }
  }
  return "sha256:" + hash.hex().substr(0, 32);
}

}  // namespace mobius::package
