// The tensor types of ggml: how a GGUF file stores elements, plainly or in quantised blocks.
//
//   const GgmlTypeInfo* t = find_ggml_type(12);      // Q4_K: 256 elements in 144 bytes
//   if (t && t->can_read()) ...
//
// Numbers and block sizes: enum ggml_type of ggml.h.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "mobius/ir/data_type.hpp"

namespace mobius::formats {

enum class GgmlType : std::uint32_t {
  f32 = 0,
  f16 = 1,
  q4_0 = 2,
  q4_1 = 3,
  q5_0 = 6,
  q5_1 = 7,
  q8_0 = 8,
  q2_k = 10,
  q3_k = 11,
  q4_k = 12,
  q5_k = 13,
  q6_k = 14,
  i8 = 24,
  i16 = 25,
  i32 = 26,
  i64 = 27,
  f64 = 28,
  bf16 = 30,
};

struct GgmlTypeInfo {
  GgmlType type;
  std::string_view name;         // "Q4_K"
  std::uint32_t block_elements;  // 1 for plain types
  std::uint32_t block_bytes;
  ir::DataType plain;  // the same type of this program, or undefined when elements have to be computed
  bool can_dequantize;

  bool is_plain() const { return plain != ir::DataType::undefined; }
  bool can_read() const { return is_plain() || can_dequantize; }
};

// nullptr for a number that ggml doesn't define (any more).
const GgmlTypeInfo* find_ggml_type(std::uint32_t type);
const GgmlTypeInfo& ggml_type_info(GgmlType type);
// "Q4_K", or "type 31" when the number is unknown.
std::string ggml_type_name(std::uint32_t type);
// "F32, F16, ...": the types whose elements can be read.
std::string readable_ggml_types();

}  // namespace mobius::formats
