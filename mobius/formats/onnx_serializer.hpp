// ir::Model to the bytes of a ModelProto.
#pragma once
#include <functional>
#include <string>

#include "mobius/ir/model.hpp"

namespace mobius::formats::onnx {

struct ExternalPlace {
  std::string_view location;  // file name
  std::uint64_t offset = 0, length = 0;
};

struct SerializeOptions {
  // Where an initializer's data lies; nullptr = inside the message.
  std::function<const ExternalPlace*(const ir::Value&)> external = {};
  bool value_info = false;
  bool read_values = true;  // false: zeros in place of inline data, for a message of the right size
};

// A function body's initializers, for which FunctionProto has no place, become Constant nodes.
// Errors: invalid_argument when the message would reach 2 GiB, naming the largest tensors in it.
std::string serialize(const ir::Model& model, const SerializeOptions& options);

}  // namespace mobius::formats::onnx
