// The steps that move bytes without changing them: reshape, slice, concat, take.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "mobius/base/error.hpp"
#include "mobius/ir/recipe_steps.hpp"

namespace mobius::ir {
namespace {

std::uint64_t unsigned_of(std::int64_t v) { return static_cast<std::uint64_t>(v); }

// The part [offset, offset + length) of ranges that follow each other.
std::vector<FileRange> part_of(const std::vector<FileRange>& ranges, std::uint64_t offset, std::uint64_t length) {
  std::vector<FileRange> result;
  for (const FileRange& range : ranges) {
    if (length == 0) break;
    if (offset >= range.length) {
      offset -= range.length;
      continue;
    }
    const std::uint64_t n = std::min(length, range.length - offset);
    result.push_back({range.file, range.offset + offset, n});
    length -= n;
    offset = 0;
  }
  return result;
}

// Adds a range, as part of the last one where it continues that.
void append(std::vector<FileRange>& ranges, const FileRange& next) {
  if (next.length == 0) return;
  if (!ranges.empty()) {
    FileRange& last = ranges.back();
    if (last.file == next.file && last.offset + last.length == next.offset) {
      last.length += next.length;
      return;
    }
  }
  ranges.push_back(next);
}

Dims with_axis(Dims dims, std::size_t axis, std::int64_t size) {
  dims[axis] = size;
  return dims;
}

void copy(std::byte* to, const std::byte* from, std::uint64_t n) { std::memcpy(to, from, static_cast<std::size_t>(n)); }

}  // namespace

Reshape::Reshape(TensorPtr x, Dims dims) : Recipe(x->dtype(), std::move(dims), {x}) {}

// ── Slice ────────────────────────────────────────────────────────────────────────────────────────────────────────────────

Slice::Slice(TensorPtr x, std::size_t axis, std::int64_t begin, std::int64_t end)
    : Recipe(x->dtype(), with_axis(x->dims(), axis, end - begin), {x}), axis_(axis), begin_(begin), end_(end) {
  const Dims& d = x->dims();
  const std::uint64_t inner = product(d, axis + 1, d.size());
  lines_ = product(d, 0, axis);
  begin_bytes_ = whole_bytes(dtype(), unsigned_of(begin) * inner, "slice");
  if (lines_ == 1) {  // one run of bytes, whose last one may be partly filled
    line_bytes_ = x->byte_size();
    run_bytes_ = end == d[axis] ? line_bytes_ - begin_bytes_ : whole_bytes(dtype(), unsigned_of(end - begin) * inner, "slice");
  } else {
    line_bytes_ = whole_bytes(dtype(), unsigned_of(d[axis]) * inner, "slice");
    run_bytes_ = whole_bytes(dtype(), unsigned_of(end - begin) * inner, "slice");
  }
}

std::span<const std::byte> Slice::in_memory() const {
  const auto all = source()->in_memory();
  if (lines_ != 1 || all.empty()) return {};
  return all.subspan(static_cast<std::size_t>(begin_bytes_), static_cast<std::size_t>(run_bytes_));
}

std::optional<std::vector<FileRange>> Slice::in_files() const {
  if (lines_ != 1) return std::nullopt;
  const auto ranges = source()->in_files();
  return ranges ? std::optional(part_of(*ranges, begin_bytes_, run_bytes_)) : std::nullopt;
}

void Slice::evaluate(std::uint64_t offset, std::span<std::byte> out) const {
  const bool sparse = run_bytes_ * 4 < line_bytes_;
  const bool directly = run_bytes_ >= long_run || (sparse && source()->in_memory().empty());
  LineWindow window(*source(), line_bytes_, begin_bytes_, run_bytes_);
  const std::uint64_t end = (offset + out.size() - 1) / run_bytes_ + 1;
  for (std::uint64_t line = offset / run_bytes_, within = offset % run_bytes_; !out.empty(); ++line, within = 0) {
    const std::span<std::byte> part = out.first(static_cast<std::size_t>(std::min<std::uint64_t>(out.size(), run_bytes_ - within)));
    if (directly) source()->read(line * line_bytes_ + begin_bytes_ + within, part);
    else copy(part.data(), window.line(line, end) + within, part.size());
    out = out.subspan(part.size());
  }
}

std::string Slice::step() const { return fmt::format("slice({},{},{})", axis_, begin_, end_); }

// ── Concat ───────────────────────────────────────────────────────────────────────────────────────────────────────────────

Concat::Concat(std::vector<TensorPtr> xs, Dims dims, std::size_t axis) : Recipe(xs.front()->dtype(), std::move(dims), xs), axis_(axis) {
  const Dims& d = this->dims();
  const std::uint64_t inner = product(d, axis + 1, d.size());
  lines_ = product(d, 0, axis);
  std::uint64_t elements = 0;
  for (const TensorPtr& x : xs) {
    starts_.push_back(whole_bytes(dtype(), elements * inner, "concat"));
    elements += unsigned_of(x->dims()[axis]);
  }
  starts_.push_back(lines_ == 1 ? byte_size() : whole_bytes(dtype(), elements * inner, "concat"));
}

std::optional<std::vector<FileRange>> Concat::in_files() const {
  if (lines_ != 1) return std::nullopt;
  std::vector<FileRange> result;
  for (const TensorPtr& x : sources()) {
    const auto ranges = x->in_files();
    if (!ranges) return std::nullopt;
    for (const FileRange& range : *ranges) append(result, range);
  }
  return result;
}

void Concat::evaluate(std::uint64_t offset, std::span<std::byte> out) const {
  const std::uint64_t line_bytes = starts_.back();
  std::uint64_t line = offset / line_bytes;
  if (const std::uint64_t within = offset % line_bytes; within != 0) {
    const auto part = out.first(static_cast<std::size_t>(std::min<std::uint64_t>(out.size(), line_bytes - within)));
    copy_part(line++, within, part);
    out = out.subspan(part.size());
  }
  const std::uint64_t whole = out.size() / line_bytes;
  copy_lines(line, line + whole, out.data());
  out = out.subspan(static_cast<std::size_t>(whole * line_bytes));
  if (!out.empty()) copy_part(line + whole, 0, out);
}

// A range within one line.
void Concat::copy_part(std::uint64_t line, std::uint64_t begin, std::span<std::byte> out) const {
  auto piece = static_cast<std::size_t>(std::upper_bound(starts_.begin(), starts_.end(), begin) - starts_.begin()) - 1;
  for (; !out.empty(); ++piece) {
    const std::uint64_t run = starts_[piece + 1] - starts_[piece];
    const std::uint64_t within = begin - starts_[piece];
    const auto part = out.first(static_cast<std::size_t>(std::min<std::uint64_t>(out.size(), run - within)));
    if (!part.empty()) sources()[piece]->read(line * run + within, part);
    out = out.subspan(part.size());
    begin += part.size();
  }
}

void Concat::copy_lines(std::uint64_t first, std::uint64_t last, std::byte* out) const {
  if (first == last) return;
  const std::size_t pieces = sources().size();
  const std::uint64_t budget = std::max<std::uint64_t>(4 * block_bytes / pieces, 64 << 10);
  std::vector<LineWindow> windows;
  windows.reserve(pieces);
  for (std::size_t p = 0; p < pieces; ++p) {
    const std::uint64_t run = starts_[p + 1] - starts_[p];
    windows.emplace_back(*sources()[p], run, 0, run, budget);
  }
  for (std::uint64_t line = first; line < last; ++line) {
    for (std::size_t p = 0; p < pieces; ++p) {
      const std::uint64_t run = starts_[p + 1] - starts_[p];
      if (run >= long_run) sources()[p]->read(line * run, {out, static_cast<std::size_t>(run)});
      else if (run > 0) copy(out, windows[p].line(line, last), run);
      out += run;
    }
  }
}

std::string Concat::step() const { return fmt::format("concat({})", axis_); }

// ── Take ─────────────────────────────────────────────────────────────────────────────────────────────────────────────────

Take::Take(TensorPtr x, Dims dims, std::size_t axis, std::vector<std::int64_t> indices)
    : Recipe(x->dtype(), std::move(dims), {x}), axis_(axis), indices_(std::move(indices)) {
  const Dims& d = x->dims();
  row_bytes_ = whole_bytes(dtype(), product(d, axis + 1, d.size()), "take");
  source_line_bytes_ = unsigned_of(d[axis]) * row_bytes_;
  line_bytes_ = indices_.size() * row_bytes_;
}

void Take::evaluate(std::uint64_t offset, std::span<std::byte> out) const {
  // Short rows are picked from whole lines in memory; not when that would read far more than is wanted.
  constexpr std::uint64_t short_row = 1024;
  constexpr std::uint64_t longest_line = 64 << 20;
  const std::uint64_t wanted = std::min<std::uint64_t>(out.size(), line_bytes_);
  const bool in_memory = !source()->in_memory().empty();
  const bool directly = !in_memory && (row_bytes_ >= short_row || source_line_bytes_ > longest_line || source_line_bytes_ / 16 > wanted);
  LineWindow window(*source(), source_line_bytes_, 0, source_line_bytes_);
  const std::uint64_t end = (offset + out.size() - 1) / line_bytes_ + 1;
  for (std::uint64_t line = offset / line_bytes_, within = offset % line_bytes_; !out.empty(); ++line, within = 0) {
    const auto part = out.first(static_cast<std::size_t>(std::min<std::uint64_t>(out.size(), line_bytes_ - within)));
    if (directly) copy_directly(line, within, part);
    else copy_from_line(window.line(line, end), within, part);
    out = out.subspan(part.size());
  }
}

// Rows that follow each other in the source are read together.
void Take::copy_directly(std::uint64_t line, std::uint64_t begin, std::span<std::byte> out) const {
  while (!out.empty()) {
    const std::uint64_t row = begin / row_bytes_;
    const std::uint64_t within = begin % row_bytes_;
    std::uint64_t rows = 1;
    while (row + rows < indices_.size() && rows * row_bytes_ - within < out.size() && indices_[row + rows] == indices_[row] + static_cast<std::int64_t>(rows)) {
      ++rows;
    }
    const auto part = out.first(static_cast<std::size_t>(std::min<std::uint64_t>(out.size(), rows * row_bytes_ - within)));
    source()->read(line * source_line_bytes_ + unsigned_of(indices_[row]) * row_bytes_ + within, part);
    out = out.subspan(part.size());
    begin += part.size();
  }
}

void Take::copy_from_line(const std::byte* line, std::uint64_t begin, std::span<std::byte> out) const {
  for (std::uint64_t row = begin / row_bytes_, within = begin % row_bytes_; !out.empty(); ++row, within = 0) {
    const auto part = out.first(static_cast<std::size_t>(std::min<std::uint64_t>(out.size(), row_bytes_ - within)));
    copy(part.data(), line + unsigned_of(indices_[row]) * row_bytes_ + within, part.size());
    out = out.subspan(part.size());
  }
}

std::string Take::step() const { return fmt::format("take({};{})", axis_, fmt::join(indices_, ",")); }

}  // namespace mobius::ir
