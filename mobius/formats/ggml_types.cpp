// The table of ggml's tensor types.
#include "mobius/formats/ggml_types.hpp"

#include <fmt/core.h>

#include "mobius/base/error.hpp"

namespace mobius::formats {
namespace {

using ir::DataType;

constexpr GgmlTypeInfo plain(std::uint32_t type, std::string_view name, std::uint32_t bytes, DataType same) {
  return {static_cast<GgmlType>(type), name, 1, bytes, same, false};
}
constexpr GgmlTypeInfo block(std::uint32_t type, std::string_view name, std::uint32_t elements, std::uint32_t bytes, bool can_dequantize = false) {
  return {static_cast<GgmlType>(type), name, elements, bytes, DataType::undefined, can_dequantize};
}

constexpr GgmlTypeInfo types[] = {
    plain(0, "F32", 4, DataType::float32),
    plain(1, "F16", 2, DataType::float16),
    plain(30, "BF16", 2, DataType::bfloat16),
    plain(28, "F64", 8, DataType::float64),
    plain(24, "I8", 1, DataType::int8),
    plain(25, "I16", 2, DataType::int16),
    plain(26, "I32", 4, DataType::int32),
    plain(27, "I64", 8, DataType::int64),
    block(2, "Q4_0", 32, 18, true),
    block(3, "Q4_1", 32, 20, true),
    block(6, "Q5_0", 32, 22, true),
    block(7, "Q5_1", 32, 24, true),
    block(8, "Q8_0", 32, 34, true),
    block(10, "Q2_K", 256, 84, true),
    block(11, "Q3_K", 256, 110, true),
    block(12, "Q4_K", 256, 144, true),
    block(13, "Q5_K", 256, 176, true),
    block(14, "Q6_K", 256, 210, true),
    block(9, "Q8_1", 32, 36),
    block(15, "Q8_K", 256, 292),
    block(16, "IQ2_XXS", 256, 66),
    block(17, "IQ2_XS", 256, 74),
    block(18, "IQ3_XXS", 256, 98),
    block(19, "IQ1_S", 256, 50),
    block(20, "IQ4_NL", 32, 18),
    block(21, "IQ3_S", 256, 110),
    block(22, "IQ2_S", 256, 82),
    block(23, "IQ4_XS", 256, 136),
    block(29, "IQ1_M", 256, 56),
    block(34, "TQ1_0", 256, 54),
    block(35, "TQ2_0", 256, 66),
    block(39, "MXFP4", 32, 17),
    block(40, "NVFP4", 64, 36),
    block(41, "Q1_0", 128, 18),
};

}  // namespace

const GgmlTypeInfo* find_ggml_type(std::uint32_t type) {
  for (const GgmlTypeInfo& info : types) {
    if (static_cast<std::uint32_t>(info.type) == type) return &info;
  }
  return nullptr;
}

const GgmlTypeInfo& ggml_type_info(GgmlType type) {
  const GgmlTypeInfo* info = find_ggml_type(static_cast<std::uint32_t>(type));
  expect(info != nullptr, "a ggml type outside the table");
  return *info;
}

std::string ggml_type_name(std::uint32_t type) {
  const GgmlTypeInfo* info = find_ggml_type(type);
  return info ? std::string(info->name) : fmt::format("type {}", type);
}

std::string readable_ggml_types() {
  std::string names;
  for (const GgmlTypeInfo& info : types) {
    if (!info.can_read()) continue;
    if (!names.empty()) names += ", ";
    names += info.name;
  }
  return names;
}

}  // namespace mobius::formats
