// A quantised tensor of a GGUF file as a lazy float32 tensor.
#pragma once
#include "mobius/formats/ggml_types.hpp"
#include "mobius/ir/tensor_data.hpp"

namespace mobius::formats {

// The blocks at `offset` of `file`, dequantised range by range when they are read (read_at, not the map: memory stays flat).
// dims.back() is a multiple of the type's block. Error unsupported, by name, when the type can't be dequantised; corrupt_file
// when the blocks do not lie inside the file.
ir::TensorPtr quantized_tensor(GgmlType type, ir::Dims dims, std::shared_ptr<const MappedFile> file, std::uint64_t offset);

}  // namespace mobius::formats
