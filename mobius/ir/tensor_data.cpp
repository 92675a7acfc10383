// The leaves: tensors in memory, in files, of one value, of strings, and placeholders.
#include "mobius/ir/tensor_data.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <limits>
#include <type_traits>

#include "mobius/base/error.hpp"
#include "mobius/ir/elements.hpp"
#include "mobius/ir/recipe.hpp"

namespace mobius::ir {
namespace {

constexpr std::size_t max_content_identity = 64;
constexpr std::uint64_t max_filled_in_memory = 4096;
constexpr std::uint64_t max_numbers = 8192;

std::string type_text(const TensorData& t) { return fmt::format("{}[{}]", short_name(t.dtype()), fmt::join(t.dims(), ",")); }

void check_dims(DataType dtype, const Dims& dims) {
  if (dtype == DataType::undefined) fail(ErrorKind::invalid_argument, "a tensor needs an element type");
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max() / 16;  // so that sizes in bytes fit too
  if (element_count(dims) > most) fail(ErrorKind::invalid_argument, "[{}] has too many elements", fmt::join(dims, ","));
}

void check_range(const TensorData& t, std::uint64_t offset, std::size_t length) {
  const std::uint64_t size = t.byte_size();
  expect(offset <= size && length <= size - offset, "read beyond the end of a tensor");
}

class OwnedTensor final : public TensorData {
 public:
  OwnedTensor(DataType dtype, Dims dims, std::vector<std::byte> bytes) : TensorData(dtype, std::move(dims)), bytes_(std::move(bytes)) {
    static std::atomic<std::uint64_t> count = 0;
    number_ = ++count;
  }

  void read(std::uint64_t offset, std::span<std::byte> out) const override {
    check_range(*this, offset, out.size());
    if (!out.empty()) std::memcpy(out.data(), bytes_.data() + offset, out.size());
  }
  std::span<const std::byte> in_memory() const override { return bytes_; }
  std::string identity() const override {
    if (bytes_.size() > max_content_identity) return fmt::format("owned#{}", number_);
    std::string text = type_text(*this) + "=";
    for (const std::byte b : bytes_) text += fmt::format("{:02x}", std::to_integer<unsigned>(b));
    return text;
  }

 private:
  std::vector<std::byte> bytes_;
  std::uint64_t number_;
};

class MappedTensor final : public TensorData {
 public:
  MappedTensor(DataType dtype, Dims dims, std::shared_ptr<const MappedFile> file, std::uint64_t offset)
      : TensorData(dtype, std::move(dims)), file_(std::move(file)), offset_(offset) {}

  // Not through the map: pages read through it would count as this process's memory until given back.
  void read(std::uint64_t offset, std::span<std::byte> out) const override {
    check_range(*this, offset, out.size());
    file_->read_at(offset_ + offset, out);
  }
  std::optional<std::vector<FileRange>> in_files() const override { return std::vector<FileRange>{{file_, offset_, byte_size()}}; }
  std::string identity() const override { return fmt::format("{}@{}:{}", file_->path().string(), offset_, type_text(*this)); }

 private:
  std::shared_ptr<const MappedFile> file_;
  std::uint64_t offset_;
};

// One value, however many elements.
class FilledTensor final : public TensorData {
 public:
  FilledTensor(DataType dtype, Dims dims, std::uint64_t bits) : TensorData(dtype, std::move(dims)), bits_(bits) {
    const int width = bit_width(dtype);
    for (int at = 0; at < 8; at += width) pattern_ |= static_cast<std::uint8_t>((bits & ((1u << std::min(width, 8)) - 1u)) << at);
  }

  void read(std::uint64_t offset, std::span<std::byte> out) const override {
    check_range(*this, offset, out.size());
    const auto width = static_cast<std::size_t>(bit_width(dtype()) / 8);
    if (width <= 1) {
      std::fill(out.begin(), out.end(), std::byte{pattern_});
    } else {
      for (std::size_t i = 0; i < out.size(); i += width) std::memcpy(out.data() + i, &bits_, width);
    }
  }
  std::string identity() const override { return fmt::format("filled:{}={:x}", type_text(*this), bits_); }

 private:
  std::uint64_t bits_;
  std::uint8_t pattern_ = 0;  // a byte of elements narrower than one
};

class StringTensor final : public TensorData {
 public:
  StringTensor(Dims dims, std::vector<std::string> values) : TensorData(DataType::string, std::move(dims)), values_(std::move(values)) {}

  void read(std::uint64_t, std::span<std::byte> out) const override {
    if (!out.empty()) fail(ErrorKind::unsupported, "a string tensor has no bytes to read");
  }
  const std::vector<std::string>& values() const { return values_; }

 private:
  std::vector<std::string> values_;
};

template <class T>
TensorPtr tensor_of(DataType dtype, Dims dims, std::span<const T> values) {
  const auto bytes = std::as_bytes(values);
  return make_tensor(dtype, std::move(dims), std::vector<std::byte>(bytes.begin(), bytes.end()));
}

bool is_readable(const TensorData& tensor) {
  if (const auto* placeholder = dynamic_cast<const Placeholder*>(&tensor); placeholder && !placeholder->is_bound()) return false;
  return std::ranges::all_of(tensor.sources(), [](const TensorPtr& source) { return is_readable(*source); });
}

template <class T>
std::optional<std::vector<T>> numbers(const TensorData& tensor, DataType as) {
  if (tensor.elements() > max_numbers || !can_convert(tensor.dtype(), as) || !is_readable(tensor)) return std::nullopt;
  const std::vector<std::byte> bytes = tensor.bytes();
  std::vector<T> values(static_cast<std::size_t>(tensor.elements()));
  convert_elements(tensor.dtype(), bytes.data(), 0, as, reinterpret_cast<std::byte*>(values.data()), values.size());
  return values;
}

}  // namespace

std::int64_t element_count(const Dims& dims) {
  std::int64_t count = 1;
  bool overflow = false;
  bool empty = false;
  for (const std::int64_t dim : dims) {
    if (dim < 0) fail(ErrorKind::invalid_argument, "[{}] has a negative dimension", fmt::join(dims, ","));
    empty = empty || dim == 0;
    overflow = __builtin_mul_overflow(count, dim, &count) || overflow;
  }
  if (empty) return 0;
  if (overflow) fail(ErrorKind::invalid_argument, "[{}] has too many elements", fmt::join(dims, ","));
  return count;
}

std::vector<std::byte> TensorData::bytes() const {
  std::vector<std::byte> result(static_cast<std::size_t>(byte_size()));
  if (!result.empty()) read(0, result);
  return result;
}

TensorPtr make_tensor(DataType dtype, Dims dims, std::vector<std::byte> bytes) {
  check_dims(dtype, dims);
  const std::uint64_t want = byte_size(dtype, static_cast<std::uint64_t>(element_count(dims)));
  if (dtype == DataType::string || bytes.size() != want) {
    fail(ErrorKind::invalid_argument, "{} bytes for a tensor {}[{}], expected {}", bytes.size(), short_name(dtype), fmt::join(dims, ","), want);
  }
  return std::make_shared<OwnedTensor>(dtype, std::move(dims), std::move(bytes));
}

TensorPtr make_tensor(Dims dims, std::span<const std::int64_t> values) { return tensor_of(DataType::int64, std::move(dims), values); }
TensorPtr make_tensor(Dims dims, std::span<const float> values) { return tensor_of(DataType::float32, std::move(dims), values); }
TensorPtr make_tensor_of(DataType dtype, Dims dims, std::span<const double> values) {
  if (bit_width(dtype) < 8) fail(ErrorKind::unsupported, "computed values of type {}", short_name(dtype));
  std::vector<std::byte> bytes(static_cast<std::size_t>(byte_size(dtype, values.size())));
  convert_elements(DataType::float64, reinterpret_cast<const std::byte*>(values.data()), 0, dtype, bytes.data(), values.size());
  return make_tensor(dtype, std::move(dims), std::move(bytes));
}

TensorPtr make_scalar(DataType dtype, double value) { return make_filled(dtype, {}, value); }

TensorPtr make_filled(DataType dtype, Dims dims, double value) {
  check_dims(dtype, dims);
  auto filled = std::make_shared<FilledTensor>(dtype, std::move(dims), element_bits(dtype, value));
  if (filled->byte_size() > max_filled_in_memory) return filled;
  return make_tensor(dtype, filled->dims(), filled->bytes());
}

TensorPtr make_string_tensor(Dims dims, std::vector<std::string> values) {
  if (static_cast<std::uint64_t>(element_count(dims)) != values.size()) {
    fail(ErrorKind::invalid_argument, "{} strings for a tensor of dims [{}]", values.size(), fmt::join(dims, ","));
  }
  return std::make_shared<StringTensor>(std::move(dims), std::move(values));
}

const std::vector<std::string>* string_values(const TensorData& tensor) {
  const auto* strings = dynamic_cast<const StringTensor*>(&tensor);
  return strings ? &strings->values() : nullptr;
}

TensorPtr mapped_tensor(DataType dtype, Dims dims, std::shared_ptr<const MappedFile> file, std::uint64_t offset) {
  expect(file != nullptr, "a mapped tensor without a file");
  check_dims(dtype, dims);
  if (dtype == DataType::string) fail(ErrorKind::unsupported, "{}: string tensors cannot be mapped", file->path().string());
  const std::uint64_t length = byte_size(dtype, static_cast<std::uint64_t>(element_count(dims)));
  if (offset > file->size() || length > file->size() - offset) {
    fail(ErrorKind::corrupt_file, "{}: a tensor {}[{}] at {} needs {} bytes, but the file has {}", file->path().string(), short_name(dtype),
         fmt::join(dims, ","), offset, length, file->size());
  }
  return std::make_shared<MappedTensor>(dtype, std::move(dims), std::move(file), offset);
}

// ── Placeholder ──────────────────────────────────────────────────────────────────────────────────────────────────────────

Placeholder::Placeholder(std::vector<std::string> names, DataType dtype, Dims dims) : TensorData(dtype, std::move(dims)), names_(std::move(names)) {
  expect(!names_.empty(), "a placeholder without a name");
  check_dims(dtype, this->dims());
}

void Placeholder::bind(TensorPtr source) const {
  expect(source != nullptr && source.get() != this, "a placeholder bound to nothing");
  if (source->dims() != dims()) {
    fail(ErrorKind::invalid_argument, "{} is [{}], expected [{}]", name(), fmt::join(source->dims(), ", "), fmt::join(dims(), ", "));
  }
  source_ = cast(std::move(source), dtype());
}

void Placeholder::read(std::uint64_t offset, std::span<std::byte> out) const {
  if (!source_) fail(ErrorKind::not_found, "{} has no values: no checkpoint was given for it", name());
  source_->read(offset, out);
}

std::span<const std::byte> Placeholder::in_memory() const { return source_ ? source_->in_memory() : std::span<const std::byte>(); }
std::optional<std::vector<FileRange>> Placeholder::in_files() const { return source_ ? source_->in_files() : std::nullopt; }
std::span<const TensorPtr> Placeholder::sources() const { return source_ ? std::span(&source_, 1) : std::span<const TensorPtr>(); }
std::string Placeholder::identity() const { return source_ ? source_->identity() : fmt::format("{}:{}", name(), type_text(*this)); }

// ── numbers ──────────────────────────────────────────────────────────────────────────────────────────────────────────────

std::optional<std::vector<std::int64_t>> as_integers(const TensorData& tensor) {
  if (!is_integer(tensor.dtype()) && tensor.dtype() != DataType::boolean) return std::nullopt;
  auto values = numbers<std::int64_t>(tensor, DataType::int64);
  const bool too_large = values && tensor.dtype() == DataType::uint64 && std::ranges::any_of(*values, [](std::int64_t v) { return v < 0; });
  return too_large ? std::nullopt : std::move(values);
}

std::optional<std::vector<double>> as_doubles(const TensorData& tensor) { return numbers<double>(tensor, DataType::float64); }

std::optional<double> as_scalar(const TensorData& tensor) {
  if (tensor.elements() != 1) return std::nullopt;
  const auto values = as_doubles(tensor);
  return values ? std::optional(values->front()) : std::nullopt;
}

}  // namespace mobius::ir
