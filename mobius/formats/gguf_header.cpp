// Reading the start of a GGUF file. Every count is checked against the bytes that are left before anything is allocated.
#include "mobius/formats/gguf_header.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <tuple>
#include <unordered_set>

#include "mobius/base/error.hpp"
#include "mobius/base/json.hpp"
#include "mobius/base/lfs_pointer.hpp"

namespace mobius::formats {
namespace {

enum ValueType : std::uint32_t { u8, i8, u16, i16, u32, i32, f32, boolean, string, array, u64, i64, f64 };

constexpr std::uint64_t max_elements = 1 << 24;  // of all arrays together: a vocabulary has 2^18
constexpr std::uint64_t max_arrays = 1 << 16;
constexpr int max_depth = 4;

// Positions in the file, with the place named in every error.
class Cursor {
 public:
  explicit Cursor(std::span<const std::byte> bytes) : bytes_(bytes) {}

  std::uint64_t at() const { return at_; }
  std::uint64_t left() const { return bytes_.size() - at_; }

  template <class T>
  T take(std::string_view what) {
    need(sizeof(T), what);
    T value;
    std::memcpy(&value, bytes_.data() + at_, sizeof(T));
    at_ += sizeof(T);
    return value;
  }

  std::string text(std::string_view what) {
    const auto length = take<std::uint64_t>(what);
    need(length, what);
    std::string s(reinterpret_cast<const char*>(bytes_.data() + at_), static_cast<std::size_t>(length));
    at_ += length;
    return s;
  }

  // A count of items that take at least `least` bytes each.
  std::uint64_t count(std::uint64_t least, std::string_view what) {
    const auto n = take<std::uint64_t>(what);
    if (n > left() / least) fail(ErrorKind::corrupt_file, "{} says {} at byte {}, but only {} bytes are left", what, n, at_ - 8, left());
    return n;
  }

 private:
  void need(std::uint64_t n, std::string_view what) const {
    if (n > left()) fail(ErrorKind::corrupt_file, "{} needs {} bytes at byte {}, but only {} are left: the file is truncated", what, n, at_, left());
  }

  std::span<const std::byte> bytes_;
  std::uint64_t at_ = 0;
};

// The shortest decimal number that reads back as the same float32.
double decimal(float value) {
  if (!std::isfinite(value)) return value;
  return std::strtod(fmt::format("{}", value).c_str(), nullptr);
}

std::int64_t to_signed(std::uint64_t value, std::string_view key) {
  if (value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
    fail(ErrorKind::corrupt_file, "metadata {}: {} is beyond what is allowed here", key, value);
  }
  return static_cast<std::int64_t>(value);
}

class ValueReader {
 public:
  explicit ValueReader(Cursor& cursor) : in_(cursor) {}

  GgufValue read(std::string_view key) {
    const auto type = in_.take<std::uint32_t>(key);
    switch (type) {
      case f32: return decimal(in_.take<float>(key));
      case f64: return in_.take<double>(key);
      case boolean: return read_bool(key);
      case string: return in_.text(key);
      case array: return read_array(key, 1);
      default: return read_integer(type, key);
    }
  }

 private:
  bool read_bool(std::string_view key) {
    const auto byte = in_.take<std::uint8_t>(key);
    if (byte > 1) fail(ErrorKind::corrupt_file, "metadata {}: a boolean is {}, expected 0 or 1", key, byte);
    return byte != 0;
  }

  std::int64_t read_integer(std::uint32_t type, std::string_view key) {
    switch (type) {
      case u8: return in_.take<std::uint8_t>(key);
      case i8: return in_.take<std::int8_t>(key);
      case u16: return in_.take<std::uint16_t>(key);
      case i16: return in_.take<std::int16_t>(key);
      case u32: return in_.take<std::uint32_t>(key);
      case i32: return in_.take<std::int32_t>(key);
      case u64: return to_signed(in_.take<std::uint64_t>(key), key);
      case i64: return in_.take<std::int64_t>(key);
      default: fail(ErrorKind::corrupt_file, "metadata {} has value type {}, expected 0 to 12", key, type);
    }
  }

  static std::uint64_t least_bytes(std::uint32_t type) {
    static constexpr std::uint8_t sizes[] = {1, 1, 2, 2, 4, 4, 4, 1, 8, 12, 8, 8, 8};
    return type < std::size(sizes) ? sizes[type] : 1;
  }

  GgufArray read_array(std::string_view key, int depth) {
    if (depth > max_depth) fail(ErrorKind::corrupt_file, "metadata {}: arrays are nested deeper than {}", key, max_depth);
    const auto type = in_.take<std::uint32_t>(key);
    GgufArray a;
    a.size = in_.count(least_bytes(type), key);
    elements_ += a.size;
    if (elements_ > max_elements) fail(ErrorKind::corrupt_file, "metadata {}: arrays hold over {} elements", key, max_elements);
    const auto n = static_cast<std::size_t>(a.size);
    switch (type) {
      case f32:
        a.numbers.reserve(n);
        for (std::size_t i = 0; i < n; ++i) a.numbers.push_back(in_.take<float>(key));
        break;
      case f64:
        a.numbers.reserve(n);
        for (std::size_t i = 0; i < n; ++i) a.numbers.push_back(in_.take<double>(key));
        break;
      case boolean:
        a.integers.reserve(n);
        for (std::size_t i = 0; i < n; ++i) a.integers.push_back(read_bool(key));
        break;
      case string:
        a.strings.reserve(n);
        for (std::size_t i = 0; i < n; ++i) a.strings.push_back(in_.text(key));
        break;
      case array:
        arrays_ += a.size;
        if (arrays_ > max_arrays) fail(ErrorKind::corrupt_file, "metadata {}: over {} arrays within arrays", key, max_arrays);
        for (std::size_t i = 0; i < n; ++i) a.arrays.push_back(read_array(key, depth + 1));
        break;
      default:
        if (n == 0) break;
        a.integers.reserve(n);
        for (std::size_t i = 0; i < n; ++i) a.integers.push_back(read_integer(type, key));
    }
    return a;
  }

  Cursor& in_;
  std::uint64_t elements_ = 0;
  std::uint64_t arrays_ = 0;
};

std::uint32_t read_version(Cursor& in) {
  static constexpr char magic[] = {'G', 'G', 'U', 'F'};
  const auto found = in.take<std::uint32_t>("the magic number");
  if (std::memcmp(&found, magic, 4) != 0) fail(ErrorKind::corrupt_file, "not a GGUF file: it begins with {:#010x}", found);
  const auto version = in.take<std::uint32_t>("the version");
  if ((version & 0xffff) == 0 && version != 0) fail(ErrorKind::unsupported, "a big-endian GGUF file is not supported");
  if (version == 1) fail(ErrorKind::unsupported, "GGUF version 1 is not supported (2 and 3 are)");
  if (version != 2 && version != 3) fail(ErrorKind::unsupported, "GGUF version {} is not supported (2 and 3 are)", version);
  return version;
}

std::vector<std::pair<std::string, GgufValue>> read_metadata(Cursor& in, std::uint64_t count) {
  std::vector<std::pair<std::string, GgufValue>> metadata;
  std::unordered_set<std::string> seen;
  ValueReader values(in);
  for (std::uint64_t i = 0; i < count; ++i) {
    std::string key = in.text("a metadata key");
    if (!seen.insert(key).second) fail(ErrorKind::corrupt_file, "metadata {} is there twice", key);
    GgufValue value = values.read(key);
    metadata.emplace_back(std::move(key), std::move(value));
  }
  return metadata;
}

// Elements and bytes of a tensor, checked for overflow.
std::uint64_t tensor_bytes(const GgufTensorInfo& t) {
  const GgmlTypeInfo* type = find_ggml_type(t.type);
  std::uint64_t elements = 1;
  for (std::int64_t d : t.dims) {
    const auto dim = static_cast<std::uint64_t>(d);
    if (dim != 0 && elements > (std::uint64_t{1} << 62) / dim) fail(ErrorKind::corrupt_file, "tensor {} has too many elements", t.name);
    elements *= dim;
  }
  if (!type) return 0;
  const auto row = static_cast<std::uint64_t>(t.dims.empty() ? 1 : t.dims.back());
  if (row % type->block_elements != 0) {
    fail(ErrorKind::corrupt_file, "tensor {}: a row has {} elements, not a multiple of the {} in a block of {}", t.name, row, type->block_elements, type->name);
  }
  const std::uint64_t blocks = elements / type->block_elements;
  if (blocks > std::numeric_limits<std::uint64_t>::max() / type->block_bytes) fail(ErrorKind::corrupt_file, "tensor {} is too large", t.name);
  return blocks * type->block_bytes;
}

GgufTensorInfo read_tensor(Cursor& in) {
  GgufTensorInfo t;
  t.name = in.text("a tensor name");
  const auto rank = in.take<std::uint32_t>("a tensor's rank");
  if (rank > 4) fail(ErrorKind::corrupt_file, "tensor {} has {} dimensions, expected at most 4", t.name, rank);
  for (std::uint32_t i = 0; i < rank; ++i) {
    const auto dim = in.take<std::uint64_t>("a tensor's shape");
    if (dim > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
      fail(ErrorKind::corrupt_file, "tensor {}: dimension {} is too large", t.name, dim);
    t.dims.push_back(static_cast<std::int64_t>(dim));
  }
  std::reverse(t.dims.begin(), t.dims.end());
  t.type = in.take<std::uint32_t>("a tensor's type");
  t.offset = in.take<std::uint64_t>("a tensor's offset");
  t.length = tensor_bytes(t);
  return t;
}

std::uint64_t alignment_of(const GgufHeader& header) {
  const GgufValue* value = header.find("general.alignment");
  if (!value) return 32;
  const auto* n = std::get_if<std::int64_t>(value);
  if (!n || *n <= 0 || *n > (1 << 30) || (*n & (*n - 1)) != 0) fail(ErrorKind::corrupt_file, "general.alignment is not a power of two");
  return static_cast<std::uint64_t>(*n);
}

// Makes the tensors' offsets positions in the file.
void place_tensors(GgufHeader& header, std::uint64_t header_end, std::uint64_t file_size) {
  const std::uint64_t data = (header_end + header.alignment - 1) / header.alignment * header.alignment;
  for (GgufTensorInfo& t : header.tensors) {
    if (t.offset % header.alignment != 0) fail(ErrorKind::corrupt_file, "tensor {}: offset {} is not a multiple of {}", t.name, t.offset, header.alignment);
    if (data > file_size || t.offset > file_size - data || t.length > file_size - data - t.offset) {
      fail(ErrorKind::corrupt_file, "tensor {} has {} bytes at {} of the data, which ends at {}: the file is truncated", t.name, t.length, t.offset,
           file_size > data ? file_size - data : 0);
    }
    t.offset += data;
  }

  std::vector<const GgufTensorInfo*> order;
  for (const GgufTensorInfo& t : header.tensors) order.push_back(&t);
  std::sort(order.begin(), order.end(), [](const auto* a, const auto* b) { return std::tie(a->offset, a->length) < std::tie(b->offset, b->length); });
  for (std::size_t i = 1; i < order.size(); ++i) {
    const GgufTensorInfo& before = *order[i - 1];
    if (order[i]->offset < before.offset + before.length) fail(ErrorKind::corrupt_file, "tensors {} and {} overlap", before.name, order[i]->name);
  }
}

}  // namespace

std::string_view kind(const GgufValue& value) {
  static constexpr std::string_view names[] = {"an integer", "a number", "a boolean", "a string", "an array"};
  return names[value.index()];
}

const GgufValue* GgufHeader::find(std::string_view key) const {
  for (const auto& [name, value] : metadata) {
    if (name == key) return &value;
  }
  return nullptr;
}

GgufHeader parse_gguf(std::span<const std::byte> file) {
  refuse_lfs_pointer(file);
  Cursor in(file);
  GgufHeader header;
  header.version = read_version(in);
  const std::uint64_t tensors = in.count(24, "the number of tensors");
  const std::uint64_t keys = in.count(13, "the number of metadata keys");
  header.metadata = read_metadata(in, keys);

  std::unordered_set<std::string_view> names;
  for (std::uint64_t i = 0; i < tensors; ++i) header.tensors.push_back(read_tensor(in));
  for (const GgufTensorInfo& t : header.tensors) {
    if (!names.insert(t.name).second) fail(ErrorKind::corrupt_file, "tensor {} is there twice", t.name);
    if (std::ranges::any_of(t.name, [](char c) { return static_cast<unsigned char>(c) < ' '; }))
      fail(ErrorKind::corrupt_file, "the name of tensor {} has a control character", Json(t.name).dump());
  }
  header.alignment = alignment_of(header);
  place_tensors(header, in.at(), file.size());
  return header;
}

}  // namespace mobius::formats
