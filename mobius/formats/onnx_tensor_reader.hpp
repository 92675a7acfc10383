// TensorProto to TensorData: inline bytes, typed data fields and external files.
#pragma once
#include <map>
#include <memory>
#include <protozero/pbf_reader.hpp>
#include <span>
#include <string>

#include "mobius/base/file.hpp"
#include "mobius/ir/graph.hpp"

namespace mobius::formats::onnx {

struct NamedTensor {
  std::string name, doc;
  ir::Metadata metadata;
  ir::TensorPtr data;
};

// Reads the tensors of one model file. Inline bytes are views into `file` when there is one (small ones are copied), external
// ones always views. External data must lie beside the model: no absolute path, no "..", no symbolic link that leads elsewhere;
// a link is followed to the folder that the model file itself links to (that is how the Hugging Face cache stores files).
class TensorReader {
 public:
  // `folder`: where external data is looked up; empty = there is none.
  // `skip_external`: external tensors become unbound placeholders.
  TensorReader(std::shared_ptr<const MappedFile> file, fs::path folder, bool skip_external = false)
      : file_(std::move(file)), folder_(std::move(folder)), skip_external_(skip_external) {}

  // Errors: corrupt_file, unsupported, not_found; each names the tensor.
  NamedTensor read(protozero::data_view proto);

  const std::map<std::string, std::shared_ptr<const MappedFile>>& external_files() const { return external_; }  // so far, by location

 private:
  struct Fields;
  static Fields scan(protozero::data_view proto, NamedTensor& tensor);
  ir::TensorPtr decode(const Fields& fields);
  ir::TensorPtr inline_tensor(const Fields& fields, std::uint64_t size);
  ir::TensorPtr external_tensor(const Fields& fields, std::uint64_t size);
  std::shared_ptr<const MappedFile> external_file(const std::string& location);

  std::shared_ptr<const MappedFile> file_;
  fs::path folder_;
  bool skip_external_;
  std::map<std::string, std::shared_ptr<const MappedFile>> external_;
};

// The element type with this number in TensorProto.DataType; unknown ones are an Error unsupported.
ir::DataType data_type_from_number(std::int32_t number);

// StringStringEntryProto into a map; the last of equal keys counts.
void read_entry(protozero::data_view proto, ir::Metadata& metadata);

}  // namespace mobius::formats::onnx
