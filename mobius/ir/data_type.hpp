// Element types, numbered as in ONNX's TensorProto.DataType.
//
//   const auto type = data_type_from_user("bf16");   // DataType::bfloat16
//   onnx_name(*type)                                 // "BFLOAT16"
//   byte_size(DataType::int4, 3)                     // 2
#pragma once
#include <cstdint>
#include <optional>
#include <string_view>

namespace mobius::ir {

enum class DataType : std::uint8_t {
  undefined = 0,
  float32 = 1,
  uint8 = 2,
  int8 = 3,
  uint16 = 4,
  int16 = 5,
  int32 = 6,
  int64 = 7,
  string = 8,
  boolean = 9,
  float16 = 10,
  float64 = 11,
  uint32 = 12,
  uint64 = 13,
  complex64 = 14,
  complex128 = 15,
  bfloat16 = 16,
  float8e4m3fn = 17,
  float8e4m3fnuz = 18,
  float8e5m2 = 19,
  float8e5m2fnuz = 20,
  uint4 = 21,
  int4 = 22,
  float4e2m1 = 23,
  float8e8m0 = 24,
  uint2 = 25,
  int2 = 26,
};
inline constexpr int last_data_type = 26;

int bit_width(DataType type);                                    // 0 for undefined and string
std::uint64_t byte_size(DataType type, std::uint64_t elements);  // sub-byte types are packed, rounded up

bool is_floating_point(DataType type);
bool is_integer(DataType type);  // signed or unsigned; not boolean

// The ONNX name: "FLOAT", "FLOAT16", "BFLOAT16", "INT64", ...; the textual syntax' name: "float", "float16", "int64", ...
std::string_view onnx_name(DataType type);
std::string_view text_name(DataType type);
std::optional<DataType> data_type_from_text(std::string_view text_name);
// What users write: f32, f16, bf16, float32, float16, bfloat16, FLOAT, half, torch.float16, ...
std::optional<DataType> data_type_from_user(std::string_view name);
// The short name that users see: "f32", "f16", "bf16", "i64", ...
std::string_view short_name(DataType type);

}  // namespace mobius::ir
