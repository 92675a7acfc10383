// Where each initializer lies in the data files.
#include "mobius/formats/onnx_layout.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <map>
#include <optional>
#include <unordered_set>

#include "mobius/base/error.hpp"
#include "mobius/base/json.hpp"
#include "mobius/ir/unbound.hpp"

namespace mobius::formats::onnx {

using ir::DataType;

namespace {

constexpr std::uint64_t small_list = 64;  // elements of an integer tensor that is likely a shape

bool is_small_list(const ir::TensorData& tensor) {
  return (tensor.dtype() == DataType::int64 || tensor.dtype() == DataType::int32) && tensor.dims().size() <= 1 && tensor.elements() <= small_list;
}

bool stays_inline(const ir::TensorData& tensor, const WriteOptions& options) {
  if (tensor.dtype() == DataType::string || tensor.elements() == 0) return true;
  if (tensor.byte_size() >= options.inline_limit && !is_small_list(tensor)) return false;
  return options.write_data || !ir::unbound_leaf(tensor);
}

// ── what is external, each tensor once ───────────────────────────────────────────────────────────────────────────────────

class Collector {
 public:
  Collector(Layout& layout, const WriteOptions& options) : layout_(layout), options_(options) {}

  void graph(const ir::Graph& graph) {
    for (const ir::Value* v : graph.initializers()) add(*v);
    for (const ir::Node* n : graph.nodes())
      for (const ir::Graph* g : n->subgraphs()) this->graph(*g);
  }

 private:
  void add(const ir::Value& value) {
    const ir::TensorPtr& data = value.data();
    if (stays_inline(*data, options_)) return;
    const auto [it, is_new] = by_object_.emplace(data.get(), layout_.blobs.size());
    if (is_new) {
      it->second = blob_by_identity(*data);
      if (it->second == layout_.blobs.size()) layout_.blobs.push_back(blob(data, value.name));
    }
    layout_.blob_of.emplace(&value, it->second);
  }

  Layout::Blob blob(const ir::TensorPtr& data, const std::string& name) const {
    Layout::Blob blob{.data = data, .name = name, .length = data->byte_size()};
    if (options_.external != WriteOptions::External::onnx) return blob;
    const auto ranges = data->in_files();
    if (!ranges || ranges->size() != 1) return blob;
    for (const auto& [location, file] : options_.in_place) {
      if (file != ranges->front().file) continue;
      blob.in_place = location;
      blob.offset = ranges->front().offset;
    }
    return blob;
  }

  std::size_t blob_by_identity(const ir::TensorData& data) {
    const std::string identity = data.identity();
    if (identity.empty()) return layout_.blobs.size();
    const std::string key = fmt::format("{} {} {}", ir::short_name(data.dtype()), fmt::join(data.dims(), ","), identity);
    return by_identity_.emplace(key, layout_.blobs.size()).first->second;
  }

  Layout& layout_;
  const WriteOptions& options_;
  std::unordered_map<const ir::TensorData*, std::size_t> by_object_;
  std::map<std::string, std::size_t> by_identity_;
};

std::uint64_t align(std::uint64_t offset, std::uint64_t alignment) { return (offset + alignment - 1) / alignment * alignment; }

// ── model.onnx.data ──────────────────────────────────────────────────────────────────────────────────────────────────────

void place_in_one_file(Layout& layout, const std::string& name, std::uint64_t alignment) {
  std::uint64_t end = 0;
  for (Layout::Blob& blob : layout.blobs) {
    if (!blob.in_place.empty()) continue;
    blob.offset = align(end, alignment);
    end = blob.offset + blob.length;
  }
  if (end > 0) layout.files.push_back({.name = name, .header = {}, .size = end});
}

// ── .safetensors ─────────────────────────────────────────────────────────────────────────────────────────────────────────

// The name of the dtype in the format. Types that it lacks are stored as their bytes: model.onnx says what they are.
std::string_view safetensors_dtype(DataType type) {
  switch (type) {
    case DataType::float32: return "F32";
    case DataType::float64: return "F64";
    case DataType::float16: return "F16";
    case DataType::bfloat16: return "BF16";
    case DataType::int8: return "I8";
    case DataType::uint8: return "U8";
    case DataType::int16: return "I16";
    case DataType::uint16: return "U16";
    case DataType::int32: return "I32";
    case DataType::uint32: return "U32";
    case DataType::int64: return "I64";
    case DataType::uint64: return "U64";
    case DataType::boolean: return "BOOL";
    case DataType::float8e4m3fn: return "F8_E4M3";
    case DataType::float8e5m2: return "F8_E5M2";
    default: return {};
  }
}

// Blobs in the order of the file.
std::string safetensors_header(const std::vector<const Layout::Blob*>& blobs) {
  Json::Object header;
  std::uint64_t end = 0;
  for (const Layout::Blob* blob : blobs) {
    const std::string_view dtype = safetensors_dtype(blob->data->dtype());
    Json::Array shape;
    if (dtype.empty()) shape.emplace_back(blob->length);
    else
      for (const std::int64_t d : blob->data->dims()) shape.emplace_back(d);
    Json::Object entry;
    entry.emplace_back("dtype", dtype.empty() ? std::string_view("U8") : dtype);
    entry.emplace_back("shape", std::move(shape));
    entry.emplace_back("data_offsets", Json::Array{Json(end), Json(end + blob->length)});
    header.emplace_back(blob->name, std::move(entry));
    end += blob->length;
  }
  std::string text = Json(std::move(header)).dump();
  text.resize(align(8 + text.size(), 64) - 8, ' ');
  std::string out(8, '\0');
  for (std::size_t i = 0; i < 8; ++i) out[i] = static_cast<char>((static_cast<std::uint64_t>(text.size()) >> (8 * i)) & 0xFF);
  return out + text;
}

std::string shard_name(const std::string& name, std::size_t index, std::size_t count) {
  constexpr std::string_view suffix = ".safetensors";
  if (count == 1) return name;
  const std::string stem = name.ends_with(suffix) ? name.substr(0, name.size() - suffix.size()) : name;
  return fmt::format("{}-{:05}-of-{:05}{}", stem, index + 1, count, suffix);
}

void add_index(Layout& layout, const std::string& name) {
  Json::Object map;
  std::uint64_t total = 0;
  for (const Layout::Blob& blob : layout.blobs) {
    map.emplace_back(blob.name, layout.files[blob.file].name);
    total += blob.length;
  }
  Json index;
  index.set("metadata", Json(Json::Object{{"total_size", Json(total)}}));
  index.set("weight_map", Json(std::move(map)));
  layout.index_name = name + ".index.json";
  layout.index = index.dump(2) + "\n";
}

// Two subgraphs may have initializers of one name; a file may not.
void make_names_unique(std::vector<Layout::Blob>& blobs) {
  std::unordered_set<std::string> names;
  for (Layout::Blob& blob : blobs) {
    const std::string name = blob.name;
    for (int i = 2; !names.insert(blob.name).second; ++i) blob.name = fmt::format("{}.{}", name, i);
  }
}

// The number of shards; a tensor larger than the limit has one for itself.
std::size_t assign_shards(std::vector<Layout::Blob>& blobs, std::uint64_t max_shard_size) {
  std::size_t file = 0;
  std::uint64_t used = 0;
  for (Layout::Blob& blob : blobs) {
    if (max_shard_size > 0 && used > 0 && used + blob.length > max_shard_size) {
      ++file;
      used = 0;
    }
    blob.file = file;
    used += blob.length;
  }
  return file + 1;
}

// Readers of the format refuse gaps, so tensors are ordered by element width: each is then aligned to its elements.
void place_in_safetensors(Layout& layout, const std::string& name, std::uint64_t max_shard_size) {
  if (layout.blobs.empty()) return;
  make_names_unique(layout.blobs);
  const std::size_t count = assign_shards(layout.blobs, max_shard_size);
  std::vector<std::vector<Layout::Blob*>> shards(count);
  for (Layout::Blob& blob : layout.blobs) shards[blob.file].push_back(&blob);
  for (std::size_t i = 0; i < count; ++i) {
    auto& shard = shards[i];
    std::stable_sort(shard.begin(), shard.end(),
                     [](const auto* a, const auto* b) { return ir::bit_width(a->data->dtype()) > ir::bit_width(b->data->dtype()); });
    Layout::File file{.name = shard_name(name, i, count), .header = safetensors_header({shard.begin(), shard.end()})};
    file.size = file.header.size();
    for (Layout::Blob* blob : shard) {
      blob->offset = file.size;
      file.size += blob->length;
    }
    layout.files.push_back(std::move(file));
  }
  if (count > 1) add_index(layout, name);
}

std::string data_name(std::string_view file_name, const WriteOptions& options) {
  if (!options.data_name.empty()) return options.data_name;
  if (options.external == WriteOptions::External::onnx) return std::string(file_name) + ".data";
  return fs::path(file_name).stem().string() + ".safetensors";
}

void check_file_name(std::string_view name) {
  const fs::path path(name);
  if (name.empty() || path.filename() != path || path == "." || path == "..") fail(ErrorKind::invalid_argument, "\"{}\" is not a file name", name);
}

}  // namespace

const ExternalPlace* Layout::place(const ir::Value& value) const {
  const auto it = blob_of.find(&value);
  return it == blob_of.end() ? nullptr : &places[it->second];
}

Layout make_layout(const ir::Model& model, std::string_view file_name, const WriteOptions& options) {
  const std::string name = data_name(file_name, options);
  check_file_name(file_name);
  check_file_name(name);
  if (name == file_name) fail(ErrorKind::invalid_argument, "the model and its data can't both be called \"{}\"", name);
  if (options.in_place.contains(name)) fail(ErrorKind::invalid_argument, "\"{}\" holds weights that stay where they are, so it can't be written", name);
  if (!std::has_single_bit(options.alignment)) fail(ErrorKind::invalid_argument, "alignment is {}, expected a power of two", options.alignment);
  Layout layout;
  Collector(layout, options).graph(*model.graph);
  if (options.external == WriteOptions::External::onnx) place_in_one_file(layout, name, options.alignment);
  else place_in_safetensors(layout, name, options.max_shard_size);
  for (const Layout::Blob& blob : layout.blobs) {
    layout.places.push_back({blob.in_place.empty() ? layout.files[blob.file].name : blob.in_place, blob.offset, blob.length});
  }
  return layout;
}

}  // namespace mobius::formats::onnx
