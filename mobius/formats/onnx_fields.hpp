// The field numbers of onnx.proto (ONNX 1.23) that are read and written here.
#pragma once
#include <protozero/types.hpp>

#include <cstdint>

namespace mobius::formats::onnx {

// Labels for switch (reader.tag_and_type()): a field counts only in the wire type it may have.
constexpr std::uint32_t varint(std::uint32_t field) { return protozero::tag_and_type(field, protozero::pbf_wire_type::varint); }
constexpr std::uint32_t bytes(std::uint32_t field) { return protozero::tag_and_type(field, protozero::pbf_wire_type::length_delimited); }
constexpr std::uint32_t fixed32(std::uint32_t field) { return protozero::tag_and_type(field, protozero::pbf_wire_type::fixed32); }
constexpr std::uint32_t fixed64(std::uint32_t field) { return protozero::tag_and_type(field, protozero::pbf_wire_type::fixed64); }

namespace model {
enum : std::uint32_t {
  ir_version = 1,
  producer_name = 2,
  producer_version = 3,
  domain = 4,
  model_version = 5,
  doc_string = 6,
  graph = 7,
  opset_import = 8,
  metadata_props = 14,
  training_info = 20,
  functions = 25,
  configuration = 26,
};
}
namespace opset {
enum : std::uint32_t { domain = 1, version = 2 };
}
namespace entry {
enum : std::uint32_t { key = 1, value = 2 };
}
namespace graph {
enum : std::uint32_t {
  node = 1,
  name = 2,
  initializer = 5,
  doc_string = 10,
  input = 11,
  output = 12,
  value_info = 13,
  quantization_annotation = 14,
  sparse_initializer = 15,
  metadata_props = 16,
};
}
namespace node {
enum : std::uint32_t {
  input = 1,
  output = 2,
  name = 3,
  op_type = 4,
  attribute = 5,
  doc_string = 6,
  domain = 7,
  overload = 8,
  metadata_props = 9,
  device_configurations = 10,
};
}
namespace attribute {
enum : std::uint32_t {
  name = 1,
  f = 2,
  i = 3,
  s = 4,
  t = 5,
  g = 6,
  floats = 7,
  ints = 8,
  strings = 9,
  tensors = 10,
  graphs = 11,
  tp = 14,
  type_protos = 15,
  type = 20,
  ref_attr_name = 21,
  sparse_tensor = 22,
  sparse_tensors = 23,
};
// AttributeProto.AttributeType
enum Type : int {
  type_undefined,
  type_float,
  type_int,
  type_string,
  type_tensor,
  type_graph,
  type_floats,
  type_ints,
  type_strings,
  type_tensors,
  type_graphs,
  type_sparse_tensor,
  type_sparse_tensors,
  type_type_proto,
  type_type_protos,
};
}  // namespace attribute
namespace tensor {
enum : std::uint32_t {
  dims = 1,
  data_type = 2,
  segment = 3,
  float_data = 4,
  int32_data = 5,
  string_data = 6,
  int64_data = 7,
  name = 8,
  raw_data = 9,
  double_data = 10,
  uint64_data = 11,
  doc_string = 12,
  external_data = 13,
  data_location = 14,
  metadata_props = 16,
};
}
namespace value_info {
enum : std::uint32_t { name = 1, type = 2, doc_string = 3, metadata_props = 4 };
}
namespace type {
enum : std::uint32_t { tensor_type = 1, sequence_type = 4, map_type = 5, opaque_type = 7, sparse_tensor_type = 8, optional_type = 9 };
enum : std::uint32_t { elem_type = 1, shape = 2 };      // of a tensor, sparse tensor, sequence or optional
enum : std::uint32_t { key_type = 1, value_type = 2 };  // of a map
}  // namespace type
namespace shape {
enum : std::uint32_t { dim = 1 };
enum : std::uint32_t { dim_value = 1, dim_param = 2 };  // of a dimension
}  // namespace shape
namespace function {
enum : std::uint32_t {
  name = 1,
  input = 4,
  output = 5,
  attribute = 6,
  node = 7,
  doc_string = 8,
  opset_import = 9,
  domain = 10,
  attribute_proto = 11,
  value_info = 12,
  overload = 13,
  metadata_props = 14,
};
}

}  // namespace mobius::formats::onnx
