// What the recipe steps share: checked reads, identities, buffered access to sources.
#include "mobius/ir/recipe_steps.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "mobius/base/error.hpp"

namespace mobius::ir {

std::string dims_text(const Dims& dims) { return fmt::format("[{}]", fmt::join(dims, ", ")); }

std::uint64_t product(const Dims& dims, std::size_t begin, std::size_t end) {
  std::uint64_t result = 1;
  for (std::size_t i = begin; i < end; ++i) result *= static_cast<std::uint64_t>(dims[i]);
  return result;
}

std::uint64_t whole_bytes(DataType dtype, std::uint64_t elements, std::string_view step) {
  const std::uint64_t bits = elements * static_cast<std::uint64_t>(bit_width(dtype));
  if (bits % 8 != 0) fail(ErrorKind::unsupported, "{} would cut {} elements within a byte", step, short_name(dtype));
  return bits / 8;
}

// ── Recipe ───────────────────────────────────────────────────────────────────────────────────────────────────────────────

void Recipe::read(std::uint64_t offset, std::span<std::byte> out) const {
  const std::uint64_t size = byte_size();
  expect(offset <= size && out.size() <= size - offset, "read beyond the end of a tensor");
  const auto width = static_cast<std::uint64_t>(bit_width(dtype()) / 8);
  expect(width <= 1 || (offset % width == 0 && out.size() % width == 0), "read of a part of an element");
  if (!out.empty()) evaluate(offset, out);
}

std::string Recipe::identity() const {
  std::string text = step();
  if (text.empty()) return {};
  text += fmt::format(":{}{}(", short_name(dtype()), dims_text(dims()));
  for (const TensorPtr& source : sources_) {
    const std::string inner = source->identity();
    if (inner.empty()) return {};
    text += inner + ";";
  }
  return text + ")";
}

// ── reading sources ──────────────────────────────────────────────────────────────────────────────────────────────────────

const std::byte* SourceReader::at(std::uint64_t offset, std::uint64_t length, std::uint64_t ahead) {
  if (!memory_.empty()) {
    expect(offset <= memory_.size() && length <= memory_.size() - offset, "read beyond the end of a tensor");
    return memory_.data() + offset;
  }
  if (offset >= begin_ && offset + length <= end_) return buffer_.get() + (offset - begin_);
  const std::uint64_t size = std::max(length, std::min({ahead, block_bytes, source_.byte_size() - std::min(offset, source_.byte_size())}));
  if (size > capacity_) {
    buffer_.reset(new std::byte[static_cast<std::size_t>(size)]);
    capacity_ = size;
  }
  begin_ = end_ = 0;
  source_.read(offset, {buffer_.get(), static_cast<std::size_t>(size)});
  begin_ = offset;
  end_ = offset + size;
  return buffer_.get();
}

const std::byte* LineWindow::line(std::uint64_t i, std::uint64_t end) {
  if (i < first_ || i >= last_) {
    first_ = i;
    last_ = std::min(end, i + std::max<std::uint64_t>(1, budget_ / line_bytes_));
    data_ = reader_.at(i * line_bytes_ + begin_, (last_ - first_ - 1) * line_bytes_ + used_);
  }
  return data_ + (i - first_) * line_bytes_;
}

bool prefers_long_reads(const TensorData& x) {
  if (dynamic_cast<const Transpose*>(&x) || dynamic_cast<const Take*>(&x)) return true;
  return std::ranges::any_of(x.sources(), [](const TensorPtr& source) { return prefers_long_reads(*source); });
}

}  // namespace mobius::ir
