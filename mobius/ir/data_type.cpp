// The table of element types: names in every spelling, widths.
#include "mobius/ir/data_type.hpp"

#include <algorithm>
#include <array>
#include <string>

namespace mobius::ir {
namespace {

struct Row {
  std::string_view onnx, text, brief;
  int bits;
};

// Indexed by the enumerator's value.
constexpr std::array<Row, last_data_type + 1> table{{
    {"UNDEFINED", "undefined", "undefined", 0},
    {"FLOAT", "float", "f32", 32},
    {"UINT8", "uint8", "u8", 8},
    {"INT8", "int8", "i8", 8},
    {"UINT16", "uint16", "u16", 16},
    {"INT16", "int16", "i16", 16},
    {"INT32", "int32", "i32", 32},
    {"INT64", "int64", "i64", 64},
    {"STRING", "string", "string", 0},
    {"BOOL", "bool", "bool", 8},
    {"FLOAT16", "float16", "f16", 16},
    {"DOUBLE", "double", "f64", 64},
    {"UINT32", "uint32", "u32", 32},
    {"UINT64", "uint64", "u64", 64},
    {"COMPLEX64", "complex64", "c64", 64},
    {"COMPLEX128", "complex128", "c128", 128},
    {"BFLOAT16", "bfloat16", "bf16", 16},
    {"FLOAT8E4M3FN", "float8e4m3fn", "f8e4m3fn", 8},
    {"FLOAT8E4M3FNUZ", "float8e4m3fnuz", "f8e4m3fnuz", 8},
    {"FLOAT8E5M2", "float8e5m2", "f8e5m2", 8},
    {"FLOAT8E5M2FNUZ", "float8e5m2fnuz", "f8e5m2fnuz", 8},
    {"UINT4", "uint4", "u4", 4},
    {"INT4", "int4", "i4", 4},
    {"FLOAT4E2M1", "float4e2m1", "f4e2m1", 4},
    {"FLOAT8E8M0", "float8e8m0", "f8e8m0", 8},
    {"UINT2", "uint2", "u2", 2},
    {"INT2", "int2", "i2", 2},
}};

const Row& row(DataType type) { return table[std::min<std::size_t>(static_cast<std::size_t>(type), last_data_type)]; }

template <class Column>
std::optional<DataType> find(std::string_view name, Column column) {
  for (std::size_t i = 1; i < table.size(); ++i)
    if (table[i].*column == name) return static_cast<DataType>(i);
  return std::nullopt;
}

}  // namespace

int bit_width(DataType type) { return row(type).bits; }

std::uint64_t byte_size(DataType type, std::uint64_t elements) {
  const auto bits = static_cast<std::uint64_t>(bit_width(type));
  return bits >= 8 ? elements * (bits / 8) : (elements * bits + 7) / 8;
}

bool is_floating_point(DataType type) {
  switch (type) {
    case DataType::float32:
    case DataType::float64:
    case DataType::float16:
    case DataType::bfloat16:
    case DataType::float8e4m3fn:
    case DataType::float8e4m3fnuz:
    case DataType::float8e5m2:
    case DataType::float8e5m2fnuz:
    case DataType::float8e8m0:
    case DataType::float4e2m1: return true;
    default: return false;
  }
}

bool is_integer(DataType type) {
  switch (type) {
    case DataType::int2:
    case DataType::uint2:
    case DataType::int4:
    case DataType::uint4:
    case DataType::int8:
    case DataType::uint8:
    case DataType::int16:
    case DataType::uint16:
    case DataType::int32:
    case DataType::uint32:
    case DataType::int64:
    case DataType::uint64: return true;
    default: return false;
  }
}

std::string_view onnx_name(DataType type) { return row(type).onnx; }
std::string_view text_name(DataType type) { return row(type).text; }
std::string_view short_name(DataType type) { return row(type).brief; }
std::optional<DataType> data_type_from_text(std::string_view name) { return find(name, &Row::text); }

std::optional<DataType> data_type_from_user(std::string_view name) {
  std::string lower(name.starts_with("torch.") ? name.substr(6) : name);
  std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : static_cast<char>(c); });
  if (lower == "float32") return DataType::float32;
  if (lower == "float64") return DataType::float64;
  if (lower == "half") return DataType::float16;
  if (lower == "boolean") return DataType::boolean;
  if (auto t = find(lower, &Row::text)) return t;
  return find(lower, &Row::brief);
}

}  // namespace mobius::ir
