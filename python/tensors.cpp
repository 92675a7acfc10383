// Weights: the library's tensors as buffers of Python, and buffers of Python as tensors; neither is copied.
#include <cstring>

#include "mobius/ir/unbound.hpp"
#include "python/bindings.hpp"

namespace mobius::python {
namespace {

// Bytes that something keeps alive. numpy.frombuffer makes an array of them.
struct Bytes {
  std::shared_ptr<const void> owner;
  std::span<const std::byte> bytes;
};

// A Python object with the buffer protocol: a numpy array that is contiguous and little-endian.
class BufferTensor final : public ir::TensorData {
 public:
  BufferTensor(std::unique_ptr<py::buffer_info, WithLock> buffer, ir::DataType dtype, ir::Dims dims)
      : TensorData(dtype, std::move(dims)), buffer_(std::move(buffer)) {
    static std::atomic<std::uint64_t> count = 0;
    number_ = ++count;
  }

  void read(std::uint64_t offset, std::span<std::byte> out) const override {
    const auto bytes = in_memory();
    expect(offset <= bytes.size() && out.size() <= bytes.size() - offset, "read beyond the end of a tensor");
    if (!out.empty()) std::memcpy(out.data(), bytes.data() + offset, out.size());
  }
  std::span<const std::byte> in_memory() const override { return {static_cast<const std::byte*>(buffer_->ptr), static_cast<std::size_t>(byte_size())}; }
  std::string identity() const override { return "buffer#" + std::to_string(number_); }

 private:
  std::unique_ptr<py::buffer_info, WithLock> buffer_;
  std::uint64_t number_;
};

ir::TensorPtr tensor_of(const py::buffer& buffer, ir::DataType dtype, ir::Dims dims) {
  std::unique_ptr<py::buffer_info, WithLock> info(new py::buffer_info(buffer.request()));
  const auto size = static_cast<std::uint64_t>(info->size) * static_cast<std::uint64_t>(info->itemsize);
  const auto wanted = ir::byte_size(dtype, static_cast<std::uint64_t>(ir::element_count(dims)));
  if (size != wanted) fail(ErrorKind::invalid_argument, "the array has {} bytes, its type and shape say {}", size, wanted);
  return std::make_shared<BufferTensor>(std::move(info), dtype, std::move(dims));
}

Bytes bytes_of(const ir::TensorPtr& tensor) {
  if (const auto* leaf = ir::unbound_leaf(*tensor))
    fail(ErrorKind::not_found, "{} has no data: the model was built without weights, or they were not applied yet", leaf->name());
  if (const auto bytes = tensor->in_memory(); !bytes.empty()) return {tensor, bytes};
  if (const auto ranges = tensor->in_files(); ranges && ranges->size() == 1) {
    const auto& range = ranges->front();
    return {range.file, range.file->bytes().subspan(range.offset, range.length)};
  }
  const py::gil_scoped_release unlocked;
  const auto computed = std::make_shared<const std::vector<std::byte>>(tensor->bytes());
  return {computed, *computed};
}

// A tensor of the library. The class of its own keeps pybind11 from asking for a holder of constant objects.
struct Tensor {
  ir::TensorPtr data;
};

}  // namespace

py::object to_python(const ir::TensorPtr& tensor) { return py::cast(Tensor{tensor}); }
ir::TensorPtr tensor_from_python(const py::handle& object) { return object.cast<const Tensor&>().data; }

void bind_tensors(py::module_& m) {
  py::class_<Bytes>(m, "Bytes", py::buffer_protocol()).def_buffer([](Bytes& b) {
    return py::buffer_info(const_cast<std::byte*>(b.bytes.data()), 1, "B", 1, {static_cast<py::ssize_t>(b.bytes.size())}, {py::ssize_t{1}}, true);
  });

  py::class_<Tensor>(m, "TensorData")
      .def(py::init([](const py::buffer& buffer, ir::DataType dtype, ir::Dims dims) { return Tensor{tensor_of(buffer, dtype, std::move(dims))}; }))
      .def_static("of_strings",
                  [](ir::Dims dims, std::vector<std::string> values) { return Tensor{ir::make_string_tensor(std::move(dims), std::move(values))}; })
      .def_static("mapped", [](const std::string& path, std::uint64_t offset, ir::DataType dtype,
                               ir::Dims dims) { return Tensor{ir::mapped_tensor(dtype, std::move(dims), MappedFile::open(path), offset)}; })
      .def_property_readonly("dtype", [](const Tensor& t) { return t.data->dtype(); })
      .def_property_readonly("dims", [](const Tensor& t) { return t.data->dims(); })
      .def_property_readonly("byte_size", [](const Tensor& t) { return t.data->byte_size(); })
      .def_property_readonly("is_bound", [](const Tensor& t) { return ir::unbound_leaf(*t.data) == nullptr; })
      .def("bytes", [](const Tensor& t) { return bytes_of(t.data); })
      .def("strings", [](const Tensor& t) {
        py::list out;
        if (const auto* values = ir::string_values(*t.data))
          for (const auto& s : *values) out.append(text_or_bytes(s));
        return out;
      });
}

}  // namespace mobius::python
