// Arrays of elements converted from any type to any other: what casts and small constants are made of.
//
//   convert_elements(DataType::bfloat16, in, 0, DataType::float16, out, 4096);
//
// Conversions are those of ONNX's Cast: to floats rounded once, to nearest, ties to even; integers to integers keep the low bits;
// to boolean "is not zero". Where Cast leaves the result open, floats to integers stop at the range's ends and NaN becomes 0.
#pragma once
#include <cstddef>
#include <cstdint>

#include "mobius/ir/data_type.hpp"

namespace mobius::ir {

// Every numeric type can be read but complex; those of 8 bits and more, but the float8 kinds, can be written.
bool can_convert(DataType from, DataType to);

// Converts n elements, starting with element `first` of `in` (for sub-byte types, whose elements start within a byte).
// Either array may lie at any address.
void convert_elements(DataType from, const std::byte* in, std::size_t first, DataType to, std::byte* out, std::size_t n);

// The bits of one element with this value, in the low bits. Float8 and float4 take only the values they hold exactly.
// Errors: unsupported for other types and values.
std::uint64_t element_bits(DataType type, double value);

}  // namespace mobius::ir
