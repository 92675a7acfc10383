// Where each initializer of a model lies in its data files: one file of aligned tensors, or .safetensors shards.
#pragma once
#include <string>
#include <unordered_map>
#include <vector>

#include "mobius/formats/onnx_serializer.hpp"
#include "mobius/formats/onnx_writer.hpp"

namespace mobius::formats::onnx {

struct Layout {
  struct Blob {
    ir::TensorPtr data;
    std::string name;  // of the first initializer that has it
    std::size_t file = 0;
    std::uint64_t offset = 0, length = 0;
    std::string in_place = {};  // the location of the file that has it already; then it belongs to none of `files`
  };
  struct File {
    std::string name;
    std::string header;  // the bytes before the tensors
    std::uint64_t size = 0;
  };

  std::vector<Blob> blobs;  // in the order of the graph
  std::vector<File> files;
  std::string index_name, index;  // of several .safetensors files: model.safetensors.index.json

  // nullptr: the initializer stays inside the model. Valid as long as the layout and the model.
  const ExternalPlace* place(const ir::Value& value) const;

  std::unordered_map<const ir::Value*, std::size_t> blob_of;  // looked up only
  std::vector<ExternalPlace> places;                          // of each blob
};

// Errors: invalid_argument for options that make no sense.
Layout make_layout(const ir::Model& model, std::string_view file_name, const WriteOptions& options);

}  // namespace mobius::formats::onnx
