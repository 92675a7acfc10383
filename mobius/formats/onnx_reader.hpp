// Reads ONNX models. Weights are views into mapped files: nothing is loaded.
//
//   ir::Model model = read_onnx("model.onnx");            // external data is looked up beside it
//   ir::Model model = parse_onnx(bytes);                  // a model in memory
//
// Everything of onnx.proto that has a place in the ir is kept: all element types but the 6-bit floats, sequences, maps, optionals,
// functions with overloads, subgraphs, metadata and documentation. Fields of later versions are skipped; quantization annotations
// and device configurations are dropped with a warning.
// Errors: corrupt_file (damaged or contradictory bytes, undefined or doubly defined names, external data elsewhere),
// unsupported (sparse initializers, training information, opaque types, 6-bit floats), not_found and io; each with its place.
#pragma once
#include <cstddef>
#include <map>
#include <memory>
#include <span>
#include <string>

#include "mobius/base/file.hpp"
#include "mobius/ir/model.hpp"

namespace mobius::formats {

// What becomes of tensors whose bytes are in other files.
enum class ExternalData {
  read,
  skip,  // unbound placeholders named by file and offset: for looking at a graph whose data may be absent
};

// Files of external data, by the locations that the model gives them.
using ExternalFiles = std::map<std::string, std::shared_ptr<const MappedFile>>;

// `files` gets those that were found.
ir::Model read_onnx(const fs::path& path, ExternalData external = ExternalData::read, ExternalFiles* files = nullptr);

// `folder`: where external data lies; without it external data is an error unless it is skipped. Tensors are copied out of `bytes`.
ir::Model parse_onnx(std::span<const std::byte> bytes, const fs::path& folder = {}, ExternalData external = ExternalData::read);

}  // namespace mobius::formats
