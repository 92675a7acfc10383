// Lazy dequantisation: a range of float32 bytes -> the blocks that hold it -> chunks small enough for the cache.
#include "mobius/formats/gguf_tensor.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "mobius/base/error.hpp"
#include "mobius/formats/ggml_dequantize.hpp"

namespace mobius::formats {
namespace {

constexpr std::uint64_t chunk_elements = 1 << 15;  // 128 KiB of floats, a multiple of every block

class QuantizedTensor final : public ir::TensorData {
 public:
  QuantizedTensor(GgmlType type, ir::Dims dims, std::shared_ptr<const MappedFile> file, std::uint64_t offset)
      : TensorData(ir::DataType::float32, std::move(dims)), info_(ggml_type_info(type)), file_(std::move(file)), offset_(offset) {}

  void read(std::uint64_t offset, std::span<std::byte> out) const override {
    expect(offset % 4 == 0 && out.size() % 4 == 0 && offset + out.size() <= byte_size(), "a range of a quantised tensor");
    std::vector<std::byte> blocks;
    std::vector<float> values;
    const std::uint64_t end = (offset + out.size()) / 4;
    for (std::uint64_t first = offset / 4; first < end;) {
      const std::uint64_t block = first / info_.block_elements;
      const std::uint64_t stop = std::min(end, (first / chunk_elements + 1) * chunk_elements);
      const std::uint64_t n = (stop + info_.block_elements - 1) / info_.block_elements - block;
      blocks.resize(static_cast<std::size_t>(n * info_.block_bytes));
      file_->read_at(offset_ + block * info_.block_bytes, blocks);

      const auto bytes = static_cast<std::size_t>((stop - first) * 4);
      const bool whole = first % info_.block_elements == 0 && n * info_.block_elements == stop - first;
      if (whole && reinterpret_cast<std::uintptr_t>(out.data()) % alignof(float) == 0) {
        dequantize(info_.type, blocks.data(), static_cast<std::size_t>(n), reinterpret_cast<float*>(out.data()));
      } else {
        values.resize(static_cast<std::size_t>(n * info_.block_elements));
        dequantize(info_.type, blocks.data(), static_cast<std::size_t>(n), values.data());
        std::memcpy(out.data(), values.data() + (first - block * info_.block_elements), bytes);
      }
      out = out.subspan(bytes);
      first = stop;
    }
  }

  void check_inside_file() const {
    const std::uint64_t length = elements() / info_.block_elements * info_.block_bytes;
    if (offset_ > file_->size() || length > file_->size() - offset_) {
      fail(ErrorKind::corrupt_file, "{}: {} blocks at {} need {} bytes, but the file has {}", file_->path().string(), info_.name, offset_, length,
           file_->size());
    }
  }

  std::string identity() const override { return fmt::format("dequantize({}, {}, {}, {})", info_.name, file_->path().string(), offset_, elements()); }

 private:
  const GgmlTypeInfo& info_;
  std::shared_ptr<const MappedFile> file_;
  std::uint64_t offset_;
};

}  // namespace

ir::TensorPtr quantized_tensor(GgmlType type, ir::Dims dims, std::shared_ptr<const MappedFile> file, std::uint64_t offset) {
  const GgmlTypeInfo& info = ggml_type_info(type);
  if (!info.can_dequantize) fail(ErrorKind::unsupported, "{} is not a ggml type that can be dequantised", info.name);
  expect(!dims.empty() && dims.back() % info.block_elements == 0, "a row of a quantised tensor is whole blocks");
  auto tensor = std::make_shared<QuantizedTensor>(type, std::move(dims), std::move(file), offset);
  tensor->check_inside_file();
  return tensor;
}

}  // namespace mobius::formats
