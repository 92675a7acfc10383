// The steps behind recipe.hpp, one class each, and what they share. Only recipe*.cpp include this.
//
// All positions and lengths here are in bytes of the row-major tensor unless they say otherwise.
#pragma once
#include <memory>
#include <string>

#include "mobius/ir/recipe.hpp"

namespace mobius::ir {

// How much of a source is read at once when it cannot be read straight to where it goes. Fits the second-level cache.
inline constexpr std::uint64_t block_bytes = 1 << 20;
// Pieces at least this long are read straight to where they go.
inline constexpr std::uint64_t long_run = 4096;

std::string dims_text(const Dims& dims);  // "[4096, 64]"
// The bytes of `elements` elements. Errors: unsupported when they are not whole bytes (sub-byte types).
std::uint64_t whole_bytes(DataType dtype, std::uint64_t elements, std::string_view step);
std::uint64_t product(const Dims& dims, std::size_t begin, std::size_t end);

class Recipe : public TensorData {
 public:
  std::span<const TensorPtr> sources() const final { return sources_; }
  std::string identity() const final;
  void read(std::uint64_t offset, std::span<std::byte> out) const final;

  const TensorPtr& source() const { return sources_.front(); }

 protected:
  Recipe(DataType dtype, Dims dims, std::vector<TensorPtr> sources) : TensorData(dtype, std::move(dims)), sources_(std::move(sources)) {}

 private:
  // The range is not empty, inside the tensor, and whole elements.
  virtual void evaluate(std::uint64_t offset, std::span<std::byte> out) const = 0;
  // The step and its parameters: "slice(0,64,128)"; "" when it can't be told.
  virtual std::string step() const = 0;

  std::vector<TensorPtr> sources_;
};

// Ranges of a source: in place when they are in memory, else read into a buffer.
class SourceReader {
 public:
  explicit SourceReader(const TensorData& source) : source_(source), memory_(source.in_memory()) {}
  bool is_in_memory() const { return !memory_.empty(); }
  // Aligned as the source's elements; holds until the next call. `ahead` says how many bytes from offset on will be asked for.
  const std::byte* at(std::uint64_t offset, std::uint64_t length, std::uint64_t ahead = 0);

 private:
  const TensorData& source_;
  std::span<const std::byte> memory_;
  std::unique_ptr<std::byte[]> buffer_;
  std::uint64_t capacity_ = 0;
  std::uint64_t begin_ = 0, end_ = 0;  // what buffer_ holds
};

// A source seen as lines of equal length, of which one part is wanted; reads many lines at once.
class LineWindow {
 public:
  LineWindow(const TensorData& source, std::uint64_t line_bytes, std::uint64_t begin, std::uint64_t used, std::uint64_t budget = block_bytes)
      : reader_(source), line_bytes_(line_bytes), begin_(begin), used_(used), budget_(budget) {}
  // The wanted part of line i; lines from i to end will be asked for, in this order.
  const std::byte* line(std::uint64_t i, std::uint64_t end);

 private:
  SourceReader reader_;
  std::uint64_t line_bytes_, begin_, used_, budget_;
  std::uint64_t first_ = 0, last_ = 0;  // the lines that data_ holds
  const std::byte* data_ = nullptr;
};

class Cast final : public Recipe {
 public:
  Cast(TensorPtr x, DataType to);

 private:
  void evaluate(std::uint64_t offset, std::span<std::byte> out) const override;
  std::string step() const override;
  void read_then_convert(std::uint64_t offset, std::span<std::byte> out) const;
};

class Reshape final : public Recipe {
 public:
  Reshape(TensorPtr x, Dims dims);
  std::span<const std::byte> in_memory() const override { return source()->in_memory(); }
  std::optional<std::vector<FileRange>> in_files() const override { return source()->in_files(); }

 private:
  void evaluate(std::uint64_t offset, std::span<std::byte> out) const override { source()->read(offset, out); }
  std::string step() const override { return "reshape"; }
};

class Transpose final : public Recipe {
 public:
  Transpose(TensorPtr x, std::vector<std::int64_t> perm);
  const std::vector<std::int64_t>& perm() const { return perm_; }

 private:
  struct Workspace;
  // Columns [c0, c1) and rows [m0, m1) of the batch entry that starts at `base` of the source; see recipe_transpose.cpp.
  struct Rectangle {
    std::uint64_t base, c0, c1, m0, m1;
  };

  void evaluate(std::uint64_t offset, std::span<std::byte> out) const override;
  std::string step() const override;
  void copy_cells(Workspace& work, std::uint64_t first, std::uint64_t count, std::byte* out) const;
  void copy_rectangle(Workspace& work, const Rectangle& r, std::byte* out) const;
  void copy_tile(Workspace& work, const Rectangle& tile, std::byte* out, std::uint64_t pitch) const;
  void gather_rows(Workspace& work, const Rectangle& tile) const;
  void read_rows(Workspace& work, std::uint64_t row_bytes) const;
  std::uint64_t row_position(std::uint64_t m) const;
  std::uint64_t cell_position(std::uint64_t cell) const;

  std::vector<std::int64_t> perm_;
  // The output's axes after merging those that stay together, without the innermost ones that do not move: those form a cell.
  std::vector<std::uint64_t> sizes_, strides_;  // strides in cells of the source
  std::uint64_t cell_bytes_ = 0;
  std::size_t column_axis_ = 0;  // the axis that is the source's innermost
  std::uint64_t columns_ = 1, rows_ = 1;
  bool batches_in_order_ = true;  // one batch entry after the other in the source too
};

class Slice final : public Recipe {
 public:
  Slice(TensorPtr x, std::size_t axis, std::int64_t begin, std::int64_t end);
  std::size_t axis() const { return axis_; }
  std::int64_t begin() const { return begin_; }
  std::int64_t end() const { return end_; }
  std::span<const std::byte> in_memory() const override;
  std::optional<std::vector<FileRange>> in_files() const override;

 private:
  void evaluate(std::uint64_t offset, std::span<std::byte> out) const override;
  std::string step() const override;

  std::size_t axis_;
  std::int64_t begin_, end_;
  std::uint64_t lines_, line_bytes_, begin_bytes_, run_bytes_;
};

class Concat final : public Recipe {
 public:
  Concat(std::vector<TensorPtr> xs, Dims dims, std::size_t axis);
  std::size_t axis() const { return axis_; }
  std::optional<std::vector<FileRange>> in_files() const override;

 private:
  void evaluate(std::uint64_t offset, std::span<std::byte> out) const override;
  std::string step() const override;
  void copy_part(std::uint64_t line, std::uint64_t begin, std::span<std::byte> out) const;
  void copy_lines(std::uint64_t first, std::uint64_t last, std::byte* out) const;

  std::size_t axis_;
  std::uint64_t lines_;
  std::vector<std::uint64_t> starts_;  // of each source within a line, and the line's length
};

class Take final : public Recipe {
 public:
  Take(TensorPtr x, Dims dims, std::size_t axis, std::vector<std::int64_t> indices);
  std::size_t axis() const { return axis_; }
  const std::vector<std::int64_t>& indices() const { return indices_; }

 private:
  void evaluate(std::uint64_t offset, std::span<std::byte> out) const override;
  std::string step() const override;
  void copy_directly(std::uint64_t line, std::uint64_t begin, std::span<std::byte> out) const;
  void copy_from_line(const std::byte* line, std::uint64_t begin, std::span<std::byte> out) const;

  std::size_t axis_;
  std::vector<std::int64_t> indices_;
  std::uint64_t row_bytes_, source_line_bytes_, line_bytes_;
};

// Whether reading long ranges of x costs much less than the same in parts: transpose and take gather each range from all over.
bool prefers_long_reads(const TensorData& x);

// recipe_compute.cpp
TensorPtr make_affine(TensorPtr x, double scale, double offset);

}  // namespace mobius::ir
