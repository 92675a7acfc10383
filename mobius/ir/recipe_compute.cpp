// The steps that compute values: cast, affine, element-wise functions, rows made by a function.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "mobius/base/error.hpp"
#include "mobius/ir/elements.hpp"
#include "mobius/ir/recipe_steps.hpp"

namespace mobius::ir {
namespace {

// Elements worked on at a time: source, numbers and result together stay in the second-level cache.
constexpr std::uint64_t block_elements = 32 << 10;
constexpr std::uint64_t number_block = 4 << 10;

// Calls body(first element, count, where they go) for the parts of a read.
template <class Body>
void in_blocks(DataType dtype, std::uint64_t offset, std::span<std::byte> out, std::uint64_t block, Body body) {
  const auto width = static_cast<std::uint64_t>(bit_width(dtype) / 8);
  std::uint64_t first = offset / width;
  for (std::uint64_t left = out.size() / width; left > 0;) {
    const std::uint64_t n = std::min(left, block);
    body(first, n, out.data() + (out.size() - left * width));
    first += n;
    left -= n;
  }
}

// Reads elements of any type as another one.
class NumberReader {
 public:
  explicit NumberReader(const TensorData& source) : reader_(source), dtype_(source.dtype()) {}
  void read(std::uint64_t first, std::uint64_t n, DataType to, std::byte* out) {
    const auto bits = static_cast<std::uint64_t>(bit_width(dtype_));
    const std::uint64_t begin = first * bits / 8;
    const std::uint64_t end = ((first + n) * bits + 7) / 8;
    const std::byte* in = reader_.at(begin, end - begin);
    convert_elements(dtype_, in, static_cast<std::size_t>(first * bits % 8 / bits), to, out, static_cast<std::size_t>(n));
  }

 private:
  SourceReader reader_;
  DataType dtype_;
};

void check_float(const TensorData& x, std::string_view step) {
  if (!is_floating_point(x.dtype())) fail(ErrorKind::unsupported, "{} of {}, expected a float type", step, short_name(x.dtype()));
}

void check_from_double(DataType dtype, std::string_view step) {
  if (!can_convert(DataType::float64, dtype)) fail(ErrorKind::unsupported, "{} to {} is not supported", step, short_name(dtype));
}

std::string exact_text(double v) { return fmt::format("{:x}", std::bit_cast<std::uint64_t>(v)); }

class Affine final : public Recipe {
 public:
  Affine(TensorPtr x, double scale, double offset) : Recipe(x->dtype(), x->dims(), {x}), scale_(scale), offset_(offset) {
    check_float(*x, "affine");
    check_from_double(dtype(), "affine");
  }

 private:
  void evaluate(std::uint64_t offset, std::span<std::byte> out) const override {
    NumberReader reader(*source());
    std::vector<double> numbers(static_cast<std::size_t>(std::min<std::uint64_t>(out.size(), number_block)));
    auto* bytes = reinterpret_cast<std::byte*>(numbers.data());
    in_blocks(dtype(), offset, out, number_block, [&](std::uint64_t first, std::uint64_t n, std::byte* to) {
      reader.read(first, n, DataType::float64, bytes);
      for (std::size_t i = 0; i < n; ++i) numbers[i] = numbers[i] * scale_ + offset_;
      convert_elements(DataType::float64, bytes, 0, dtype(), to, static_cast<std::size_t>(n));
    });
  }
  std::string step() const override { return fmt::format("affine({},{})", exact_text(scale_), exact_text(offset_)); }

  double scale_, offset_;
};

class Computed final : public Recipe {
 public:
  Computed(DataType dtype, Dims dims, std::string name, RowFunction fill)
      : Recipe(dtype, std::move(dims), {}), name_(std::move(name)), fill_(std::move(fill)) {}

 private:
  void evaluate(std::uint64_t offset, std::span<std::byte> out) const override {
    const auto width = static_cast<std::uint64_t>(bit_width(dtype()) / 8);
    const auto columns = static_cast<std::uint64_t>(dims().back());
    const std::uint64_t begin = offset / width;
    const std::uint64_t end = begin + out.size() / width;
    const std::uint64_t block_rows = std::max<std::uint64_t>(1, block_elements / columns);
    const std::uint64_t last_row = (end - 1) / columns + 1;
    std::vector<float> values;
    for (std::uint64_t row = begin / columns; row < last_row; row += block_rows) {
      const std::uint64_t rows = std::min(block_rows, last_row - row);
      values.resize(static_cast<std::size_t>(rows * columns));
      fill_(static_cast<std::int64_t>(row), static_cast<std::int64_t>(rows), values.data());
      const std::uint64_t from = std::max(begin, row * columns);
      const std::uint64_t to = std::min(end, (row + rows) * columns);
      convert_elements(DataType::float32, reinterpret_cast<const std::byte*>(values.data()), static_cast<std::size_t>(from - row * columns), dtype(),
                       out.data() + (from - begin) * width, static_cast<std::size_t>(to - from));
    }
  }
  std::string step() const override { return name_.empty() ? name_ : "computed(" + name_ + ")"; }

  std::string name_;
  RowFunction fill_;
};

class Elementwise final : public Recipe {
 public:
  Elementwise(std::vector<TensorPtr> xs, DataType dtype, Dims dims, std::string name, ElementFunction f)
      : Recipe(dtype, std::move(dims), std::move(xs)), name_(std::move(name)), f_(std::move(f)) {}

 private:
  void evaluate(std::uint64_t offset, std::span<std::byte> out) const override {
    const std::size_t count = sources().size();
    std::vector<NumberReader> readers;
    for (const TensorPtr& x : sources()) readers.emplace_back(*x);
    std::vector<double> columns(count * number_block);
    std::vector<double> arguments(count);
    std::vector<double> results(number_block);
    in_blocks(dtype(), offset, out, number_block, [&](std::uint64_t first, std::uint64_t n, std::byte* to) {
      for (std::size_t s = 0; s < count; ++s) {
        const bool single = sources()[s]->elements() == 1;
        double* column = columns.data() + s * number_block;
        readers[s].read(single ? 0 : first, single ? 1 : n, DataType::float64, reinterpret_cast<std::byte*>(column));
        if (single) std::fill_n(column, n, *column);
      }
      for (std::size_t i = 0; i < n; ++i) {
        for (std::size_t s = 0; s < count; ++s) arguments[s] = columns[s * number_block + i];
        results[i] = f_(arguments);
      }
      convert_elements(DataType::float64, reinterpret_cast<const std::byte*>(results.data()), 0, dtype(), to, static_cast<std::size_t>(n));
    });
  }
  std::string step() const override { return name_.empty() ? name_ : "elementwise(" + name_ + ")"; }

  std::string name_;
  ElementFunction f_;
};

}  // namespace

Cast::Cast(TensorPtr x, DataType to) : Recipe(to, x->dims(), {x}) {
  if (!can_convert(x->dtype(), to)) fail(ErrorKind::unsupported, "cannot cast {} to {}", short_name(x->dtype()), short_name(to));
}

void Cast::evaluate(std::uint64_t offset, std::span<std::byte> out) const {
  if (bit_width(source()->dtype()) >= 8 && prefers_long_reads(*source())) return read_then_convert(offset, out);
  NumberReader reader(*source());
  in_blocks(dtype(), offset, out, block_elements, [&](std::uint64_t first, std::uint64_t n, std::byte* to) { reader.read(first, n, dtype(), to); });
}

// Reads the source's whole range at once where that fits into `out`, at its end, and converts towards the beginning of it.
void Cast::read_then_convert(std::uint64_t offset, std::span<std::byte> out) const {
  const auto from = static_cast<std::uint64_t>(bit_width(source()->dtype()) / 8);
  const auto to = static_cast<std::uint64_t>(bit_width(dtype()) / 8);
  if (from > to) {
    NumberReader reader(*source());
    return in_blocks(dtype(), offset, out, 4 * block_bytes / from,
                     [&](std::uint64_t first, std::uint64_t n, std::byte* at) { reader.read(first, n, dtype(), at); });
  }
  const std::uint64_t elements = out.size() / to;
  const auto read = out.last(static_cast<std::size_t>(elements * from));
  source()->read(offset / to * from, read);
  // Through a small block, as the last elements of source and result overlap.
  alignas(16) std::byte block[8 * number_block];
  for (std::uint64_t first = 0; first < elements; first += number_block) {
    const std::uint64_t n = std::min(number_block, elements - first);
    std::memcpy(block, read.data() + first * from, static_cast<std::size_t>(n * from));
    convert_elements(source()->dtype(), block, 0, dtype(), out.data() + first * to, static_cast<std::size_t>(n));
  }
}

std::string Cast::step() const { return "cast"; }

TensorPtr make_affine(TensorPtr x, double scale, double offset) { return std::make_shared<Affine>(std::move(x), scale, offset); }

TensorPtr computed(DataType dtype, Dims dims, std::string identity, RowFunction fill) {
  expect(fill != nullptr, "a computed tensor without a function");
  if (dims.empty()) fail(ErrorKind::invalid_argument, "a computed tensor needs at least one dimension");
  element_count(dims);
  check_from_double(dtype, "computing");
  return std::make_shared<Computed>(dtype, std::move(dims), std::move(identity), std::move(fill));
}

TensorPtr elementwise(std::vector<TensorPtr> xs, DataType dtype, std::string identity, ElementFunction f) {
  expect(!xs.empty() && f != nullptr, "an element-wise function without sources or function");
  check_from_double(dtype, "elementwise");
  // The result has the dims of the first source with more than one element.
  const auto full = std::ranges::find_if(xs, [](const TensorPtr& x) { return x->elements() != 1; });
  Dims dims = (full == xs.end() ? xs.front() : *full)->dims();
  for (const TensorPtr& x : xs) {
    check_float(*x, "elementwise");
    if (x->elements() != 1 && x->dims() != dims) fail(ErrorKind::invalid_argument, "elementwise of {} and {}", dims_text(dims), dims_text(x->dims()));
  }
  return std::make_shared<Elementwise>(std::move(xs), dtype, std::move(dims), std::move(identity), std::move(f));
}

}  // namespace mobius::ir
