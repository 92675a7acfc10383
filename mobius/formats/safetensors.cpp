// Reading .safetensors: the header is validated completely before any view is handed out.
#include "mobius/formats/safetensors.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <tuple>

#include "mobius/base/error.hpp"
#include "mobius/base/json.hpp"
#include "mobius/base/lfs_pointer.hpp"

namespace mobius::formats {
namespace {

using ir::DataType;

constexpr std::uint64_t max_header = 100'000'000;

std::optional<DataType> data_type(std::string_view dtype) {
  static constexpr std::pair<std::string_view, DataType> table[] = {
      {"F32", DataType::float32},
      {"F16", DataType::float16},
      {"BF16", DataType::bfloat16},
      {"F64", DataType::float64},
      {"I8", DataType::int8},
      {"I16", DataType::int16},
      {"I32", DataType::int32},
      {"I64", DataType::int64},
      {"U8", DataType::uint8},
      {"U16", DataType::uint16},
      {"U32", DataType::uint32},
      {"U64", DataType::uint64},
      {"BOOL", DataType::boolean},
      {"F8_E4M3", DataType::float8e4m3fn},
      {"F8_E5M2", DataType::float8e5m2},
      {"F8_E8M0", DataType::float8e8m0},
      {"F8_E4M3FNUZ", DataType::float8e4m3fnuz},
      {"F8_E5M2FNUZ", DataType::float8e5m2fnuz},
      {"F4", DataType::float4e2m1},
      {"C64", DataType::complex64},
  };
  for (const auto& [name, type] : table) {
    if (name == dtype) return type;
  }
  return std::nullopt;
}

// Product of all dims; nullopt when it, or the product of those that are not 0, does not fit int64.
std::optional<std::uint64_t> count(const ir::Dims& dims) {
  std::uint64_t n = 1;
  bool empty = false;
  for (std::int64_t d : dims) {
    empty |= d == 0;
    if (d == 0) continue;
    if (n > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()) / static_cast<std::uint64_t>(d)) return std::nullopt;
    n *= static_cast<std::uint64_t>(d);
  }
  return empty ? 0 : n;
}

std::string dims_text(const ir::Dims& dims) {
  std::string text = "[";
  for (std::size_t i = 0; i < dims.size(); ++i) text += fmt::format("{}{}", i ? ", " : "", dims[i]);
  return text + "]";
}

// A non-negative integer of the header.
std::uint64_t natural(const Json& value, std::string_view tensor, std::string_view field) {
  if (!value.is_int() || value.as_int() < 0) {
    fail(ErrorKind::corrupt_file, "tensor {}: {} must hold non-negative integers, found {}", tensor, field,
         value.is_int() ? value.dump() : std::string(value.kind()));
  }
  return static_cast<std::uint64_t>(value.as_int());
}

const Json& field(const Json& entry, std::string_view tensor, std::string_view key) {
  const Json* value = entry.find(key);
  if (!value) fail(ErrorKind::corrupt_file, "tensor {} has no {}", tensor, key);
  return *value;
}

const Json::Array& array_field(const Json& entry, std::string_view tensor, std::string_view key) {
  const Json& value = field(entry, tensor, key);
  if (!value.is_array()) fail(ErrorKind::corrupt_file, "tensor {}: {} is {}, expected an array", tensor, key, value.kind());
  return value.as_array();
}

SafetensorsEntry parse_entry(const std::string& name, const Json& entry, std::uint64_t data_size) {
  if (!entry.is_object()) fail(ErrorKind::corrupt_file, "tensor {} is described by {}, expected an object", name, entry.kind());
  if (std::ranges::any_of(name, [](char c) { return static_cast<unsigned char>(c) < ' '; }))
    fail(ErrorKind::corrupt_file, "the name of tensor {} has a control character", Json(name).dump());
  SafetensorsEntry e;
  e.name = name;
  const Json& dtype = field(entry, name, "dtype");
  if (!dtype.is_string()) fail(ErrorKind::corrupt_file, "tensor {}: dtype is {}, expected a string", name, dtype.kind());
  e.dtype = dtype.as_string();
  e.type = data_type(e.dtype);
  for (const Json& dim : array_field(entry, name, "shape")) e.dims.push_back(static_cast<std::int64_t>(natural(dim, name, "shape")));

  const Json::Array& offsets = array_field(entry, name, "data_offsets");
  if (offsets.size() != 2) fail(ErrorKind::corrupt_file, "tensor {}: data_offsets has {} numbers, expected 2", name, offsets.size());
  const std::uint64_t begin = natural(offsets[0], name, "data_offsets"), end = natural(offsets[1], name, "data_offsets");
  if (begin > end || end > data_size) {
    fail(ErrorKind::corrupt_file, "tensor {}: data_offsets [{}, {}] lie outside the {} bytes of data", name, begin, end, data_size);
  }
  e.offset = begin;
  e.length = end - begin;
  if (!e.type) return e;

  const std::optional<std::uint64_t> elements = count(e.dims);
  const auto bits = static_cast<std::uint64_t>(ir::bit_width(*e.type));
  if (!elements || *elements > std::numeric_limits<std::uint64_t>::max() / bits) {
    fail(ErrorKind::corrupt_file, "tensor {}: shape {} is too large", name, dims_text(e.dims));
  }
  if (*elements * bits % 8 != 0) fail(ErrorKind::corrupt_file, "tensor {}: {} elements of {} do not fill whole bytes", name, *elements, e.dtype);
  if (*elements * bits / 8 != e.length) {
    fail(ErrorKind::corrupt_file, "tensor {}: {}{} takes {} bytes, its data_offsets hold {}", name, e.dtype, dims_text(e.dims), *elements * bits / 8, e.length);
  }
  return e;
}

std::vector<std::pair<std::string, std::string>> parse_metadata(const Json& value) {
  if (!value.is_object()) fail(ErrorKind::corrupt_file, "__metadata__ is {}, expected an object", value.kind());
  std::vector<std::pair<std::string, std::string>> metadata;
  for (const auto& [key, text] : value.as_object()) {
    if (!text.is_string()) fail(ErrorKind::corrupt_file, "__metadata__: {} is {}, expected a string", key, text.kind());
    metadata.emplace_back(key, text.as_string());
  }
  return metadata;
}

// The header's own keys in the order of its text. A JSON value holds a key that is there twice only once.
std::vector<std::string_view> raw_keys(std::string_view text) {
  std::vector<std::string_view> keys;
  int depth = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    depth += c == '{' || c == '[' ? 1 : 0;
    depth -= c == '}' || c == ']' ? 1 : 0;
    if (c != '"') continue;
    const std::size_t begin = ++i;
    while (i < text.size() && text[i] != '"') i += text[i] == '\\' ? 2 : 1;
    if (depth == 1) keys.push_back(text.substr(begin, std::min(i, text.size()) - begin));  // at this depth all values are objects
  }
  return keys;
}

void check_unique(std::string_view text, std::size_t unique) {
  std::vector<std::string_view> keys = raw_keys(text);
  if (keys.size() == unique) return;
  std::sort(keys.begin(), keys.end());
  const auto twice = std::adjacent_find(keys.begin(), keys.end());
  fail(ErrorKind::corrupt_file, "the header names tensor {} twice", twice != keys.end() ? *twice : "?");
}

// The bytes of all tensors must cover the data from its start to its end without overlap or hole.
void check_coverage(std::vector<SafetensorsEntry>& entries, std::uint64_t data_size) {
  std::sort(entries.begin(), entries.end(),
            [](const auto& a, const auto& b) { return std::tie(a.offset, a.length, a.name) < std::tie(b.offset, b.length, b.name); });
  std::uint64_t at = 0;
  for (const SafetensorsEntry& e : entries) {
    if (e.offset < at)
      fail(ErrorKind::corrupt_file, "tensor {} begins at byte {} of the data, inside the tensor before it (which ends at {})", e.name, e.offset, at);
    if (e.offset > at)
      fail(ErrorKind::corrupt_file, "tensor {} begins at byte {} of the data, expected {}: bytes between tensors belong to none", e.name, e.offset, at);
    at = e.offset + e.length;
  }
  if (at != data_size) fail(ErrorKind::corrupt_file, "the tensors end at byte {} of the data, which has {} bytes", at, data_size);
}

}  // namespace

SafetensorsHeader parse_safetensors(std::span<const std::byte> file) {
  refuse_lfs_pointer(file);
  if (file.size() < 8) fail(ErrorKind::corrupt_file, "{} bytes are too few for a safetensors file", file.size());
  std::uint64_t length = 0;
  for (int i = 7; i >= 0; --i) length = length << 8 | static_cast<std::uint64_t>(file[static_cast<std::size_t>(i)]);
  if (length > max_header) fail(ErrorKind::corrupt_file, "the header length {} is over {}: not a safetensors file", length, max_header);
  if (length > file.size() - 8) {
    fail(ErrorKind::corrupt_file, "the header has {} bytes but only {} are there: the file is truncated", length, file.size() - 8);
  }

  const std::string_view text(reinterpret_cast<const char*>(file.data()) + 8, static_cast<std::size_t>(length));
  if (text.empty() || text.front() != '{') fail(ErrorKind::corrupt_file, "the header is not a JSON object: not a safetensors file");
  Json json;
  try {
    json = Json::parse(text);
  } catch (const Error& e) {
    throw e.within("header");
  }
  if (!json.is_object()) fail(ErrorKind::corrupt_file, "the header is {}, expected an object", json.kind());

  const std::uint64_t data_size = file.size() - 8 - length;
  SafetensorsHeader header;
  for (const auto& [name, entry] : json.as_object()) {
    if (name == "__metadata__") header.metadata = parse_metadata(entry);
    else header.entries.push_back(parse_entry(name, entry, data_size));
  }
  check_unique(text, json.as_object().size());
  check_coverage(header.entries, data_size);

  std::sort(header.entries.begin(), header.entries.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  for (SafetensorsEntry& e : header.entries) e.offset += 8 + length;
  return header;
}

std::shared_ptr<const SafetensorsFile> SafetensorsFile::open(const fs::path& path) {
  std::shared_ptr<SafetensorsFile> file(new SafetensorsFile);
  file->file_ = MappedFile::open(path);
  try {
    file->header_ = parse_safetensors(file->file_->bytes());
  } catch (const Error& e) {
    throw e.within(path.string());
  }
  return file;
}

const SafetensorsEntry* SafetensorsFile::find(std::string_view name) const {
  const auto& entries = header_.entries;
  auto it = std::lower_bound(entries.begin(), entries.end(), name, [](const SafetensorsEntry& e, std::string_view n) { return e.name < n; });
  return it != entries.end() && it->name == name ? &*it : nullptr;
}

ir::TensorPtr SafetensorsFile::tensor(std::string_view name) const {
  const SafetensorsEntry* e = find(name);
  if (!e) return nullptr;
  if (!e->type) fail(ErrorKind::unsupported, "{} has dtype {}, which is not supported ({})", name, e->dtype, path().string());
  return ir::mapped_tensor(*e->type, e->dims, file_, e->offset);
}

}  // namespace mobius::formats
