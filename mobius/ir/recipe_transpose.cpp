// Transposition of any rank in tiles of bounded size.
//
// Axes that stay neighbours are merged, and the innermost part that does not move is one "cell". What remains is a batch of
// matrices: the source's innermost axis gives the columns c, all output axes behind it the rows m, and
//   output[batch][c][m] = source[base(batch) + row_position(m) + c].
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "mobius/base/error.hpp"
#include "mobius/ir/recipe_steps.hpp"

namespace mobius::ir {
namespace {

constexpr std::uint64_t cache_line = 64;
constexpr std::uint64_t column_block = 256;
constexpr std::uint64_t tile_row_bytes = 2048;  // of the source, read at once
constexpr std::uint64_t longest_row = 16 << 10;
constexpr std::uint64_t tiny_row = 256;
constexpr std::uint64_t max_tile_rows = 8192;

Dims permuted(const Dims& dims, const std::vector<std::int64_t>& perm) {
  Dims result;
  for (const std::int64_t p : perm) result.push_back(dims[static_cast<std::size_t>(p)]);
  return result;
}

// 16 bytes of cells, as the compilers' vector extension has them on every machine.
template <class T>
using Line __attribute__((vector_size(16))) = T;

// The cells of both lines in turn, from place `first` on.
template <std::size_t first, class T, std::size_t... i>
Line<T> interleave(Line<T> a, Line<T> b, std::index_sequence<i...>) {
  constexpr std::size_t n = sizeof...(i);
  return __builtin_shufflevector(a, b, (i % 2 * n + first + i / 2)...);
}

// As many lines as one has cells; in the functions below all places are constants, so that the lines live in registers.
template <class T>
struct Square {
  static constexpr std::size_t size = 16 / sizeof(T);
  using Places = std::make_index_sequence<size>;
  Line<T> lines[size];
};

// Line i is followed by line i + size/2, cell by cell. This turns the bits of (line, place) by one: after log2(size) times line and
// place have changed roles.
template <class T, std::size_t... i>
Square<T> shuffled(const Square<T>& s, std::index_sequence<i...>) {
  constexpr std::size_t half = sizeof...(i) / 2;
  return {{interleave<i % 2 * half, T>(s.lines[i / 2], s.lines[i / 2 + half], typename Square<T>::Places())...}};
}

template <class T, std::size_t... i>
Square<T> load_square(const std::byte* const* rows, std::uint64_t column, std::index_sequence<i...>) {
  Square<T> s;
  (std::memcpy(&s.lines[i], rows[i] + column * sizeof(T), 16), ...);
  return s;
}

template <class T, std::size_t... i>
void store_square(const Square<T>& s, std::byte* out, std::uint64_t pitch, std::index_sequence<i...>) {
  (std::memcpy(out + i * pitch * sizeof(T), &s.lines[i], 16), ...);
}

template <class T>
void transpose_square(const std::byte* const* rows, std::uint64_t column, std::byte* out, std::uint64_t pitch) {
  constexpr typename Square<T>::Places places;
  Square<T> s = shuffled(load_square<T>(rows, column, places), places);
  if constexpr (Square<T>::size >= 4) s = shuffled(s, places);
  if constexpr (Square<T>::size >= 8) s = shuffled(s, places);
  if constexpr (Square<T>::size >= 16) s = shuffled(s, places);
  store_square(s, out, pitch, places);
}

template <class T>
void transpose_rest(const std::byte* const* rows, std::uint64_t m0, std::uint64_t m1, std::uint64_t c0, std::uint64_t c1, std::byte* out, std::uint64_t pitch) {
  for (std::uint64_t c = c0; c < c1; ++c) {
    for (std::uint64_t m = m0; m < m1; ++m) std::memcpy(out + (c * pitch + m) * sizeof(T), rows[m] + c * sizeof(T), sizeof(T));
  }
}

// Writes out[c · pitch + m] = rows[m][c] for cells of type T: in blocks of columns, so that the pages of their output lines stay
// known to the processor, and in them panels of rows as wide as a cache line, so that lines of the output are written whole.
template <class T>
void transpose_cells(const std::vector<const std::byte*>& rows, std::uint64_t columns, std::byte* out, std::uint64_t pitch) {
  constexpr std::uint64_t square = 16 / sizeof(T);
  constexpr std::uint64_t panel = cache_line / sizeof(T);
  const std::uint64_t whole_rows = rows.size() / square * square;
  const std::uint64_t whole_columns = columns / square * square;
  for (std::uint64_t c0 = 0; c0 < whole_columns; c0 += column_block) {
    const std::uint64_t c1 = std::min(whole_columns, c0 + column_block);
    for (std::uint64_t m0 = 0; m0 < whole_rows; m0 += panel) {
      const std::uint64_t m1 = std::min(whole_rows, m0 + panel);
      for (std::uint64_t c = c0; c < c1; c += square) {
        for (std::uint64_t m = m0; m < m1; m += square) transpose_square<T>(rows.data() + m, c, out + (c * pitch + m) * sizeof(T), pitch);
      }
    }
  }
  transpose_rest<T>(rows.data(), 0, whole_rows, whole_columns, columns, out, pitch);
  transpose_rest<T>(rows.data(), whole_rows, rows.size(), 0, columns, out, pitch);
}

void transpose_wide_cells(const std::vector<const std::byte*>& rows, std::uint64_t columns, std::byte* out, std::uint64_t pitch, std::uint64_t cell) {
  for (std::uint64_t c = 0; c < columns; ++c) {
    for (std::uint64_t m = 0; m < rows.size(); ++m) {
      std::memcpy(out + (c * pitch + m) * cell, rows[m] + c * cell, static_cast<std::size_t>(cell));
    }
  }
}

}  // namespace

struct Transpose::Workspace {
  SourceReader reader;
  std::vector<std::byte> buffer;
  std::vector<std::uint64_t> positions;
  std::vector<const std::byte*> rows;  // of the current tile, from its first column
  std::uint64_t bytes_left = 0;        // of this read, from the current batch entry on
};

Transpose::Transpose(TensorPtr x, std::vector<std::int64_t> perm) : Recipe(x->dtype(), permuted(x->dims(), perm), {x}), perm_(std::move(perm)) {
  const Dims& d = x->dims();
  std::int64_t previous = -1;  // the last source axis merged
  std::vector<std::uint64_t> inner(d.size(), 1);
  for (std::size_t i = d.size(); i-- > 1;) inner[i - 1] = inner[i] * static_cast<std::uint64_t>(d[i]);
  for (const std::int64_t p : perm_) {
    const auto axis = static_cast<std::size_t>(p);
    const auto size = static_cast<std::uint64_t>(d[axis]);
    if (size == 1) continue;
    const bool follows = previous >= 0 && p > previous && product(d, static_cast<std::size_t>(previous) + 1, axis) == 1;
    if (follows) sizes_.back() *= size;
    else sizes_.push_back(size);
    if (follows) strides_.back() = inner[axis];
    else strides_.push_back(inner[axis]);
    previous = p;
  }
  std::uint64_t cell_elements = 1;
  if (!sizes_.empty() && strides_.back() == 1) {
    cell_elements = sizes_.back();
    sizes_.pop_back();
    strides_.pop_back();
    for (std::uint64_t& stride : strides_) stride /= std::max<std::uint64_t>(cell_elements, 1);
  }
  cell_bytes_ = whole_bytes(dtype(), cell_elements, "transpose");
  if (sizes_.empty()) return;
  column_axis_ = static_cast<std::size_t>(std::min_element(strides_.begin(), strides_.end()) - strides_.begin());
  columns_ = sizes_[column_axis_];
  for (std::size_t i = column_axis_ + 1; i < sizes_.size(); ++i) rows_ *= sizes_[i];
  std::uint64_t entry = columns_ * rows_;
  for (std::size_t i = column_axis_; i-- > 0; entry *= sizes_[i]) batches_in_order_ = batches_in_order_ && strides_[i] == entry;
}

std::string Transpose::step() const { return fmt::format("transpose({})", fmt::join(perm_, ",")); }

// Where row m starts, in cells.
std::uint64_t Transpose::row_position(std::uint64_t m) const {
  std::uint64_t position = 0;
  for (std::size_t i = sizes_.size(); i-- > column_axis_ + 1;) {
    position += m % sizes_[i] * strides_[i];
    m /= sizes_[i];
  }
  return position;
}

// Where the output's cell number `cell` lies in the source, in cells.
std::uint64_t Transpose::cell_position(std::uint64_t cell) const {
  std::uint64_t position = 0;
  for (std::size_t i = sizes_.size(); i-- > 0;) {
    position += cell % sizes_[i] * strides_[i];
    cell /= sizes_[i];
  }
  return position;
}

void Transpose::evaluate(std::uint64_t offset, std::span<std::byte> out) const {
  Workspace work{SourceReader(*source()), {}, {}, {}, 0};
  std::uint64_t cell = offset / cell_bytes_;
  if (const std::uint64_t within = offset % cell_bytes_; within != 0) {
    const auto part = out.first(static_cast<std::size_t>(std::min<std::uint64_t>(out.size(), cell_bytes_ - within)));
    source()->read(cell_position(cell++) * cell_bytes_ + within, part);
    out = out.subspan(part.size());
  }
  const std::uint64_t whole = out.size() / cell_bytes_;
  copy_cells(work, cell, whole, out.data());
  out = out.subspan(static_cast<std::size_t>(whole * cell_bytes_));
  if (!out.empty()) source()->read(cell_position(cell + whole) * cell_bytes_, out);
}

// Cells [first, first + count) of the output: at most a partial line, whole lines and a partial line in each batch entry.
void Transpose::copy_cells(Workspace& work, std::uint64_t first, std::uint64_t count, std::byte* out) const {
  const auto copy_part = [&](std::uint64_t base, std::uint64_t c0, std::uint64_t c1, std::uint64_t m0, std::uint64_t m1) {
    if (c0 == c1 || m0 == m1) return;
    copy_rectangle(work, {base, c0, c1, m0, m1}, out);
    out += (c1 - c0) * (m1 - m0) * cell_bytes_;
  };
  while (count > 0) {
    const std::uint64_t batch = first / (columns_ * rows_);
    const std::uint64_t begin = first % (columns_ * rows_);
    const std::uint64_t end = std::min(begin + count, columns_ * rows_);
    work.bytes_left = count * cell_bytes_;
    const std::uint64_t base = cell_position(batch * columns_ * rows_);
    const std::uint64_t c0 = begin / rows_;
    const std::uint64_t c1 = end / rows_;
    if (c0 == c1) {
      copy_part(base, c0, c0 + 1, begin % rows_, end % rows_);
    } else {
      const bool partial = begin % rows_ != 0;
      if (partial) copy_part(base, c0, c0 + 1, begin % rows_, rows_);
      copy_part(base, c0 + (partial ? 1 : 0), c1, 0, rows_);
      copy_part(base, c1, c1 + 1, 0, end % rows_);
    }
    first += end - begin;
    count -= end - begin;
  }
}

// `out` is the place of the rectangle's first cell; lines of the output are m1 - m0 cells long (the rectangle's only line, or rows_).
void Transpose::copy_rectangle(Workspace& work, const Rectangle& r, std::byte* out) const {
  const std::uint64_t pitch = r.m1 - r.m0;
  if (cell_bytes_ >= long_run) {
    for (std::uint64_t c = r.c0; c < r.c1; ++c) {
      for (std::uint64_t m = r.m0; m < r.m1; ++m, out += cell_bytes_) {
        source()->read((r.base + row_position(m) + c) * cell_bytes_, {out, static_cast<std::size_t>(cell_bytes_)});
      }
    }
    return;
  }
  const std::uint64_t budget = std::max<std::uint64_t>(block_bytes / cell_bytes_, 1);
  // Whole rows are one range of the source; parts of rows should not be too short to read.
  const bool whole_rows = columns_ * cell_bytes_ <= longest_row && (r.c1 - r.c0) * 2 > columns_;
  const std::uint64_t tile_columns = whole_rows ? r.c1 - r.c0 : std::min(r.c1 - r.c0, std::max<std::uint64_t>(tile_row_bytes / cell_bytes_, 1));
  const std::uint64_t tile_rows = std::clamp<std::uint64_t>(budget / tile_columns, 1, max_tile_rows);
  for (std::uint64_t m = r.m0; m < r.m1; m += tile_rows) {
    for (std::uint64_t c = r.c0; c < r.c1; c += tile_columns) {
      const Rectangle tile{r.base, c, std::min(c + tile_columns, r.c1), m, std::min(m + tile_rows, r.m1)};
      copy_tile(work, tile, out + ((c - r.c0) * pitch + (m - r.m0)) * cell_bytes_, pitch);
    }
  }
}

// Where the rows of a tile lie close together they are read as one range, holes included; else one by one.
void Transpose::gather_rows(Workspace& work, const Rectangle& tile) const {
  const std::uint64_t columns = tile.c1 - tile.c0;
  const std::uint64_t row_bytes = columns * cell_bytes_;
  const auto count = static_cast<std::size_t>(tile.m1 - tile.m0);
  work.positions.resize(count);
  work.rows.resize(count);
  for (std::size_t i = 0; i < count; ++i) work.positions[i] = tile.base + tile.c0 + row_position(tile.m0 + i);
  const auto [low, high] = std::minmax_element(work.positions.begin(), work.positions.end());
  const std::uint64_t span = *high - *low + columns;
  const bool as_one = row_bytes < tiny_row ? span <= 4 * columns * count : span * 4 <= 5 * columns * count;
  if (!as_one && !work.reader.is_in_memory()) return read_rows(work, row_bytes);
  const std::byte* block = work.reader.at(*low * cell_bytes_, span * cell_bytes_, batches_in_order_ ? work.bytes_left : 0);
  for (std::size_t i = 0; i < count; ++i) work.rows[i] = block + (work.positions[i] - *low) * cell_bytes_;
}

void Transpose::read_rows(Workspace& work, std::uint64_t row_bytes) const {
  // One cache line more, so that rows whose length is a power of two do not all compete for the same places in the cache.
  const std::uint64_t pitch = row_bytes + cache_line;
  work.buffer.resize(static_cast<std::size_t>(work.rows.size() * pitch));
  for (std::size_t i = 0; i < work.rows.size(); ++i) {
    std::byte* row = work.buffer.data() + i * pitch;
    source()->read(work.positions[i] * cell_bytes_, {row, static_cast<std::size_t>(row_bytes)});
    work.rows[i] = row;
  }
}

void Transpose::copy_tile(Workspace& work, const Rectangle& tile, std::byte* out, std::uint64_t pitch) const {
  gather_rows(work, tile);
  const std::uint64_t columns = tile.c1 - tile.c0;
  switch (cell_bytes_) {
    case 1: return transpose_cells<std::uint8_t>(work.rows, columns, out, pitch);
    case 2: return transpose_cells<std::uint16_t>(work.rows, columns, out, pitch);
    case 4: return transpose_cells<std::uint32_t>(work.rows, columns, out, pitch);
    case 8: return transpose_cells<std::uint64_t>(work.rows, columns, out, pitch);
    default: return transpose_wide_cells(work.rows, columns, out, pitch, cell_bytes_);
  }
}

}  // namespace mobius::ir
