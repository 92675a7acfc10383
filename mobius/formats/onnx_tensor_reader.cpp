// TensorProto to TensorData.
#include "mobius/formats/onnx_tensor_reader.hpp"

#include <charconv>
#include <cstring>
#include <system_error>
#include <vector>

#include "mobius/base/error.hpp"
#include "mobius/formats/onnx_fields.hpp"
#include "mobius/ir/graph_draft.hpp"

namespace mobius::formats::onnx {

using ir::DataType;
using protozero::data_view;
using protozero::pbf_reader;

namespace {

constexpr std::size_t copied_size = 4096;  // inline data up to this size is copied: small constants are read often

std::vector<std::byte> copy_bytes(data_view view) {
  const auto* from = reinterpret_cast<const std::byte*>(view.data());
  return {from, from + view.size()};
}

// A packed or single value of fixed width, as its bytes.
template <class T>
void append_fixed(std::vector<std::byte>& out, T value) {
  const auto* raw = reinterpret_cast<const std::byte*>(&value);
  out.insert(out.end(), raw, raw + sizeof value);
}

void append_packed(std::vector<std::byte>& out, data_view view, std::size_t width) {
  if (view.size() % width != 0) fail(ErrorKind::corrupt_file, "a packed list has {} bytes, which is not a multiple of {}", view.size(), width);
  const auto* from = reinterpret_cast<const std::byte*>(view.data());
  out.insert(out.end(), from, from + view.size());
}

std::uint64_t parse_number(const std::string& key, const std::string& text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) fail(ErrorKind::corrupt_file, "external data: {} is \"{}\", expected a number", key, text);
  return value;
}

// Narrows what int32_data holds to elements of the type.
std::vector<std::byte> narrow(const std::vector<std::int32_t>& values, std::size_t width) {
  std::vector<std::byte> out(values.size() * width);
  for (std::size_t i = 0; i < values.size(); ++i) std::memcpy(out.data() + i * width, &values[i], width);  // little-endian: the low bytes
  return out;
}

}  // namespace

struct TensorReader::Fields {
  ir::Dims dims;
  std::int32_t data_type = 0;
  std::int32_t location = 0;
  bool has_raw = false;
  data_view raw;
  std::vector<std::byte> floats, doubles;  // bytes of the elements
  std::vector<std::int32_t> int32s;
  std::vector<std::byte> int64s;
  std::vector<std::uint64_t> uint64s;
  std::vector<std::string> strings;
  ir::Metadata external;
};

DataType data_type_from_number(std::int32_t number) {
  if (number == 27 || number == 28) fail(ErrorKind::unsupported, "element type {} is not supported", number == 27 ? "FLOAT6E2M3" : "FLOAT6E3M2");
  if (number < 0 || number > ir::last_data_type) fail(ErrorKind::corrupt_file, "element type {} is not one of ONNX (0 to {})", number, ir::last_data_type);
  return static_cast<DataType>(number);
}

void read_entry(data_view proto, ir::Metadata& metadata) {
  std::string key, value;
  for (pbf_reader r(proto); r.next();) {
    switch (r.tag_and_type()) {
      case bytes(entry::key): key = r.get_string(); break;
      case bytes(entry::value): value = r.get_string(); break;
      default: r.skip();
    }
  }
  metadata[std::move(key)] = std::move(value);
}

TensorReader::Fields TensorReader::scan(data_view proto, NamedTensor& tensor) {
  Fields f;
  for (pbf_reader r(proto); r.next();) {
    switch (r.tag_and_type()) {
      case varint(tensor::dims): f.dims.push_back(r.get_int64()); break;
      case bytes(tensor::dims):
        for (const std::int64_t d : r.get_packed_int64()) f.dims.push_back(d);
        break;
      case varint(tensor::data_type): f.data_type = r.get_int32(); break;
      case bytes(tensor::segment): fail(ErrorKind::unsupported, "tensors in segments are not supported");
      case fixed32(tensor::float_data): append_fixed(f.floats, r.get_float()); break;
      case bytes(tensor::float_data): append_packed(f.floats, r.get_view(), 4); break;
      case fixed64(tensor::double_data): append_fixed(f.doubles, r.get_double()); break;
      case bytes(tensor::double_data): append_packed(f.doubles, r.get_view(), 8); break;
      case varint(tensor::int32_data): f.int32s.push_back(r.get_int32()); break;
      case bytes(tensor::int32_data):
        for (const std::int32_t v : r.get_packed_int32()) f.int32s.push_back(v);
        break;
      case varint(tensor::int64_data): append_fixed(f.int64s, r.get_int64()); break;
      case bytes(tensor::int64_data):
        for (const std::int64_t v : r.get_packed_int64()) append_fixed(f.int64s, v);
        break;
      case varint(tensor::uint64_data): f.uint64s.push_back(r.get_uint64()); break;
      case bytes(tensor::uint64_data):
        for (const std::uint64_t v : r.get_packed_uint64()) f.uint64s.push_back(v);
        break;
      case bytes(tensor::string_data): f.strings.push_back(r.get_string()); break;
      case bytes(tensor::name): tensor.name = r.get_string(); break;
      case bytes(tensor::doc_string): tensor.doc = r.get_string(); break;
      case bytes(tensor::raw_data):
        f.raw = r.get_view();
        f.has_raw = true;
        break;
      case bytes(tensor::external_data): read_entry(r.get_view(), f.external); break;
      case varint(tensor::data_location): f.location = r.get_int32(); break;
      case bytes(tensor::metadata_props): read_entry(r.get_view(), tensor.metadata); break;
      default: r.skip();
    }
  }
  return f;
}

NamedTensor TensorReader::read(data_view proto) {
  NamedTensor tensor;
  try {
    tensor.data = decode(scan(proto, tensor));
  } catch (const protozero::exception& e) {
    fail(ErrorKind::corrupt_file, "tensor \"{}\": damaged protobuf message ({})", tensor.name, e.what());
  } catch (const Error& e) {
    throw e.within(fmt::format("tensor \"{}\"", tensor.name));
  }
  return tensor;
}

ir::TensorPtr TensorReader::decode(const Fields& f) {
  const DataType dtype = data_type_from_number(f.data_type);
  if (dtype == DataType::undefined) fail(ErrorKind::corrupt_file, "has no element type");
  const auto count = ir::checked_element_count(dtype, f.dims);
  if (!count) fail(ErrorKind::corrupt_file, "its dimensions are negative or too large");
  if (dtype == DataType::string) {
    if (f.location != 0 || f.has_raw) fail(ErrorKind::corrupt_file, "strings can't be stored as raw or external data");
    if (f.strings.size() != *count) fail(ErrorKind::corrupt_file, "has {} strings, its dimensions say {}", f.strings.size(), *count);
    return ir::make_string_tensor(f.dims, f.strings);
  }
  const std::uint64_t size = ir::byte_size(dtype, *count);
  if (f.location == 1) return external_tensor(f, size);
  if (f.location != 0) fail(ErrorKind::corrupt_file, "data_location is {}, expected 0 or 1", f.location);
  return inline_tensor(f, size);
}

ir::TensorPtr TensorReader::inline_tensor(const Fields& f, std::uint64_t size) {
  const auto dtype = static_cast<DataType>(f.data_type);
  if (f.has_raw) {
    if (f.raw.size() != size) fail(ErrorKind::corrupt_file, "has {} bytes of data, its type and dimensions say {}", f.raw.size(), size);
    if (!file_ || size <= copied_size) return ir::make_tensor(dtype, f.dims, copy_bytes(f.raw));
    const auto offset = reinterpret_cast<const std::byte*>(f.raw.data()) - file_->bytes().data();
    return ir::mapped_tensor(dtype, f.dims, file_, static_cast<std::uint64_t>(offset));
  }
  std::vector<std::byte> data;
  switch (dtype) {
    case DataType::float32:
    case DataType::complex64: data = f.floats; break;
    case DataType::float64:
    case DataType::complex128: data = f.doubles; break;
    case DataType::int64: data = f.int64s; break;
    case DataType::uint32:
      for (const std::uint64_t v : f.uint64s) append_fixed(data, static_cast<std::uint32_t>(v));
      break;
    case DataType::uint64:
      for (const std::uint64_t v : f.uint64s) append_fixed(data, v);
      break;
    default: data = narrow(f.int32s, std::max<std::size_t>(1, static_cast<std::size_t>(ir::bit_width(dtype)) / 8));
  }
  if (data.size() != size) fail(ErrorKind::corrupt_file, "has {} bytes of data, its type and dimensions say {}", data.size(), size);
  return ir::make_tensor(dtype, f.dims, std::move(data));
}

ir::TensorPtr TensorReader::external_tensor(const Fields& f, std::uint64_t size) {
  const auto find = [&](const char* key) -> const std::string* {
    const auto it = f.external.find(key);
    return it == f.external.end() ? nullptr : &it->second;
  };
  const std::string* location = find("location");
  const std::string* offset_text = find("offset");
  const std::string* length_text = find("length");
  if (!location || location->empty()) fail(ErrorKind::corrupt_file, "external data has no location");
  const std::uint64_t offset = offset_text ? parse_number("offset", *offset_text) : 0;
  const std::uint64_t length = length_text ? parse_number("length", *length_text) : size;
  if (length != size) fail(ErrorKind::corrupt_file, "external data has length {}, its type and dimensions say {}", length, size);
  if (skip_external_)
    return std::make_shared<ir::Placeholder>(std::vector{fmt::format("{}@{}", *location, offset)}, static_cast<DataType>(f.data_type), f.dims);
  return ir::mapped_tensor(static_cast<DataType>(f.data_type), f.dims, external_file(*location), offset);
}

std::shared_ptr<const MappedFile> TensorReader::external_file(const std::string& location) {
  if (const auto it = external_.find(location); it != external_.end()) return it->second;
  if (folder_.empty()) fail(ErrorKind::unsupported, "external data \"{}\": the model was not read from a file", location);
  const fs::path relative(location);
  bool is_inside = !relative.is_absolute() && !relative.has_root_path() && location.find('\0') == std::string::npos;
  for (const auto& part : relative) is_inside = is_inside && part != "..";
  if (!is_inside) fail(ErrorKind::corrupt_file, "external data \"{}\" is not beside the model", location);

  const fs::path path = folder_ / relative;
  std::error_code error;
  const fs::path real = fs::canonical(path, error);
  if (error) fail(ErrorKind::not_found, "external data {}: {}", path.string(), error.message());
  const auto holds = [&](const fs::path& folder) {
    const fs::path from = real.lexically_relative(folder);
    return !from.empty() && *from.begin() != "..";
  };
  const fs::path linked = file_ ? fs::canonical(file_->path(), error).parent_path() : fs::path();
  if (!holds(fs::canonical(folder_, error)) && (linked.empty() || !holds(linked)))
    fail(ErrorKind::corrupt_file, "external data \"{}\" is a link that leaves the model's folder, to {}", location, real.string());
  return external_[location] = MappedFile::open(real);
}

}  // namespace mobius::formats::onnx
