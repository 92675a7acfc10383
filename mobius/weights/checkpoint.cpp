// Opening checkpoints: which file to open, and what to say when there is none.
#include "mobius/weights/checkpoint.hpp"

#include <algorithm>
#include <map>
#include <optional>

#include "mobius/base/error.hpp"
#include "mobius/base/folder.hpp"
#include "mobius/base/json.hpp"
#include "mobius/formats/gguf.hpp"
#include "mobius/formats/safetensors.hpp"
#include "mobius/weights/gguf_names.hpp"

namespace mobius::weights {

struct Checkpoint::GgufWeights {
  std::vector<GgufWeight> weights;  // sorted by name
};

namespace {

using formats::GgufFile;
using formats::SafetensorsFile;

constexpr std::string_view index_name = "model.safetensors.index.json";

bool is_pickle(std::string_view name) {
  // Files beside the weights that are no weights.
  for (std::string_view other : {"training_args.bin", "optimizer.bin", "scheduler.bin", "optimizer.pt", "scheduler.pt", "rng_state.pth"}) {
    if (name == other) return false;
  }
  for (std::string_view end : {".bin", ".pt", ".pth", ".ckpt"}) {
    if (name.ends_with(end)) return true;
  }
  return false;
}

// The base model that an adapter's config names, for the message.
std::string base_model(const fs::path& folder) {
  const fs::path config = folder / "adapter_config.json";
  if (!is_there(config)) return "";
  try {
    const Json json = Json::parse(read_text_file(config, 1 << 24));
    const Json* name = json.find("base_model_name_or_path");
    return name && name->is_string() ? name->as_string() : "";
  } catch (const Error&) {
    return "";
  }
}

// The one GGUF model among the entries; later parts of a split model do not count.
std::optional<std::string> gguf_of(const fs::path& folder, const std::vector<std::string>& entries) {
  std::vector<std::string> models;
  for (const std::string& name : entries) {
    if (!name.ends_with(".gguf") || name.starts_with("mmproj")) continue;
    const std::size_t of = name.rfind("-of-");
    const bool is_part = of != name.npos && of >= 6 && name.size() == of + 4 + 5 + 5;
    if (is_part && name.substr(of - 6, 6) != "-00001") continue;
    models.push_back(name);
  }
  if (models.empty()) return std::nullopt;
  if (models.size() > 1) {
    fail(ErrorKind::invalid_argument, "{} holds {} GGUF models; name one of them: {}, {}{}", folder.string(), models.size(), models[0], models[1],
         models.size() > 2 ? ", ..." : "");
  }
  return models.front();
}

[[noreturn]] void no_weights(const fs::path& folder, const std::vector<std::string>& entries) {
  const auto has = [&](std::string_view name) { return std::find(entries.begin(), entries.end(), name) != entries.end(); };
  if (has("adapter_config.json") || has("adapter_model.safetensors") || has("adapter_model.bin")) {
    const std::string base = base_model(folder);
    fail(ErrorKind::unsupported, "{} holds a LoRA adapter, not a model; its base model is {}", folder.string(), base.empty() ? "not named" : base);
  }
  if (has("model.safetensors")) {
    fail(ErrorKind::not_found, "{}: model.safetensors is a link to a file that is not there; download it again", folder.string());
  }
  const auto pickle = std::find_if(entries.begin(), entries.end(), is_pickle);
  if (pickle != entries.end()) {
    fail(ErrorKind::unsupported, "{} holds weights in {} only, which can't be read safely; convert them to safetensors", folder.string(), *pickle);
  }
  fail(ErrorKind::not_found, "{} holds no weights: expected model.safetensors, {} with its shards, or a .gguf file", folder.string(), index_name);
}

// A shard's name in an index must stay inside the folder.
void check_shard_name(const std::string& shard, std::string_view tensor) {
  const fs::path path(shard);
  bool inside = !shard.empty() && !path.is_absolute() && !path.has_root_name();
  for (const fs::path& part : path) inside &= part != "..";
  inside &= std::ranges::none_of(shard, [](char c) { return static_cast<unsigned char>(c) < ' '; });
  if (!inside) fail(ErrorKind::corrupt_file, "weight_map: tensor {} is said to be in {}, which is not a file name", tensor, Json(shard).dump());
}

// Shard -> its tensors, from an index.
std::map<std::string, std::vector<std::string>> shards_of(const std::string& index) {
  const Json json = Json::parse(index);
  const Json* map = json.find("weight_map");
  if (!map || !map->is_object()) fail(ErrorKind::corrupt_file, "weight_map is {}, expected an object", map ? map->kind() : "absent");
  std::map<std::string, std::vector<std::string>> shards;
  for (const auto& [tensor, shard] : map->as_object()) {
    if (!shard.is_string()) fail(ErrorKind::corrupt_file, "weight_map: the file of tensor {} is {}, expected a string", tensor, shard.kind());
    check_shard_name(shard.as_string(), tensor);
    shards[shard.as_string()].push_back(tensor);
  }
  if (shards.empty()) fail(ErrorKind::corrupt_file, "weight_map names no tensors");
  return shards;
}

std::map<std::string, std::vector<std::string>> read_index(const fs::path& index) {
  const auto text = read_text_file(index);
  try {
    return shards_of(text);
  } catch (const Error& e) {
    throw e.within(index.string());
  }
}

std::string first_few(std::vector<std::string> names) {
  std::sort(names.begin(), names.end());
  std::string text;
  for (std::size_t i = 0; i < names.size() && i < 3; ++i) text += (i ? ", " : "") + names[i];
  return names.size() > 3 ? text + ", ..." : text;
}

void check_shards_exist(const fs::path& folder, const std::map<std::string, std::vector<std::string>>& shards) {
  std::vector<std::string> missing;
  for (const auto& [shard, tensors] : shards) {
    if (!is_there(folder / shard)) missing.push_back(shard);
  }
  if (missing.empty()) return;
  const auto& tensors = shards.at(missing.front());
  std::string message = fmt::format("{} is missing; it should hold {} tensors ({})", (folder / missing.front()).string(), tensors.size(), first_few(tensors));
  if (missing.size() > 1) message += fmt::format("; {} of {} shards are missing: {}", missing.size(), shards.size(), first_few(missing));
  fail(ErrorKind::not_found, "{}", message);
}

std::string revision_of(const fs::path& folder) {
  std::error_code ignored;
  const fs::path path = fs::absolute(folder, ignored).lexically_normal();
  const fs::path snapshot = path.has_filename() ? path : path.parent_path();
  return snapshot.parent_path().filename() == "snapshots" ? snapshot.filename().string() : "";
}

bool begins_with_gguf(const fs::path& path) {
  const auto file = MappedFile::open(path);
  if (file->size() < 4) return false;
  const auto* p = reinterpret_cast<const char*>(file->bytes().data());
  return std::string_view(p, 4) == "GGUF";
}

}  // namespace

Checkpoint::Checkpoint(Checkpoint&&) noexcept = default;
Checkpoint& Checkpoint::operator=(Checkpoint&&) noexcept = default;
Checkpoint::~Checkpoint() = default;

Checkpoint Checkpoint::open(const fs::path& path) {
  if (!is_there(path)) fail(ErrorKind::not_found, "{} does not exist", path.string());
  Checkpoint c;
  std::error_code ignored;
  const bool is_folder = fs::is_directory(path, ignored);
  c.provenance_.revision = revision_of(is_folder ? path : path.parent_path());
  if (!is_folder) {
    if (path.extension() == ".safetensors") c.open_safetensors(path);
    else if (path.filename().string().ends_with(".safetensors.index.json")) c.open_sharded(path);
    else if (path.extension() == ".gguf" || begins_with_gguf(path)) c.open_gguf(path);
    else fail(ErrorKind::unsupported, "{} is not a checkpoint: expected a folder, a .safetensors or a .gguf file", path.string());
  } else {
    const std::vector<std::string> entries = entries_of(path);
    if (is_there(path / "model.safetensors")) c.open_safetensors(path / "model.safetensors");
    else if (is_there(path / index_name)) c.open_sharded(path / index_name);
    else if (const auto gguf = gguf_of(path, entries)) c.open_gguf(path / *gguf);
    else no_weights(path, entries);
  }
  std::sort(c.provenance_.files.begin(), c.provenance_.files.end());
  return c;
}

void Checkpoint::add_file(const fs::path& path, std::uint64_t size) { provenance_.files.emplace_back(path.filename().string(), size); }

void Checkpoint::open_safetensors(const fs::path& path) {
  safetensors_.push_back(SafetensorsFile::open(path));
  add_file(path, safetensors_.front()->size());
  for (const auto& entry : safetensors_.front()->entries()) names_.push_back(entry.name);
  file_of_.assign(names_.size(), 0);
}

void Checkpoint::open_sharded(const fs::path& index) {
  const auto shards = read_index(index);
  check_shards_exist(index.parent_path(), shards);

  std::vector<std::pair<std::string, std::size_t>> found;
  for (const auto& [shard, tensors] : shards) {
    const auto file = SafetensorsFile::open(index.parent_path() / shard);
    for (const std::string& name : tensors) {
      if (!file->find(name)) fail(ErrorKind::corrupt_file, "{} says that {} holds tensor {}, but it does not", index.string(), shard, name);
      found.emplace_back(name, safetensors_.size());
    }
    add_file(file->path(), file->size());
    safetensors_.push_back(file);
  }
  std::sort(found.begin(), found.end());
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (i > 0 && found[i].first == found[i - 1].first) fail(ErrorKind::corrupt_file, "{}: tensor {} is there twice", index.string(), found[i].first);
    names_.push_back(found[i].first);
    file_of_.push_back(found[i].second);
  }
}

void Checkpoint::open_gguf(const fs::path& path) {
  gguf_ = GgufFile::open(path);
  for (const auto& file : gguf_->files()) add_file(file->path(), file->size());
  gguf_weights_ = std::make_unique<GgufWeights>();
  try {
    gguf_weights_->weights = hugging_face_weights(*gguf_);
  } catch (const Error& e) {
    throw e.within(path.string());
  }
  for (const GgufWeight& w : gguf_weights_->weights) names_.push_back(w.name);
}

std::size_t Checkpoint::position(std::string_view name) const {
  const auto it = std::lower_bound(names_.begin(), names_.end(), name, [](const std::string& a, std::string_view b) { return a < b; });
  return it != names_.end() && *it == name ? static_cast<std::size_t>(it - names_.begin()) : names_.size();
}

bool Checkpoint::contains(std::string_view name) const { return position(name) < names_.size(); }

ir::TensorPtr Checkpoint::find(std::string_view name) const {
  const std::size_t i = position(name);
  if (i == names_.size()) return nullptr;
  return gguf_ ? load(*gguf_, gguf_weights_->weights[i]) : safetensors_[file_of_[i]]->tensor(name);
}

std::string Checkpoint::origin(std::string_view name) const {
  const std::size_t i = position(name);
  if (i == names_.size()) return "";
  if (!gguf_) return safetensors_[file_of_[i]]->path().filename().string();
  const auto* tensor = gguf_->find_tensor(gguf_weights_->weights[i].source);
  return gguf_->files()[tensor->file]->path().filename().string();
}

std::string Provenance::text() const {
  std::string text = revision.empty() ? "" : fmt::format("revision {}: ", revision);
  for (std::size_t i = 0; i < files.size(); ++i) text += fmt::format("{}{} ({} bytes)", i ? ", " : "", files[i].first, files[i].second);
  return text;
}

}  // namespace mobius::weights
