// Quantised blocks of ggml -> float32, bit for bit as the reference (gguf.quants.dequantize of the PyPI package gguf).
//
//   std::vector<float> row(4096);
//   dequantize(GgmlType::q4_k, blocks, row.size() / 256, row.data());
#pragma once
#include <cstddef>

#include "mobius/formats/ggml_types.hpp"

namespace mobius::formats {

// Reads n whole blocks (block_bytes each, in any alignment) and writes n * block_elements floats.
// Error unsupported, by name, for types whose `can_dequantize` is false.
void dequantize(GgmlType type, const std::byte* blocks, std::size_t n, float* out);

}  // namespace mobius::formats
