// TensorData: the bytes of a tensor, or how to make them. Immutable, shared, and never loaded before it is read.
//
//   TensorPtr w = mapped_tensor(DataType::bfloat16, {4096, 4096}, file, offset);     // a view into a mapped file
//   TensorPtr h = cast(transpose(w, {1, 0}), DataType::float16);                    // recipes, see recipe.hpp
//   h->read(0, chunk);                                                                // evaluates just that range
//
// Layout of the bytes: row-major, little-endian, sub-byte elements packed low nibble first (as ONNX raw_data).
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "mobius/base/file.hpp"
#include "mobius/ir/data_type.hpp"

namespace mobius::ir {

class TensorData;
using TensorPtr = std::shared_ptr<const TensorData>;
using Dims = std::vector<std::int64_t>;

std::int64_t element_count(const Dims& dims);

// A contiguous run of bytes in a file.
struct FileRange {
  std::shared_ptr<const MappedFile> file;
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
};

class TensorData {
 public:
  TensorData(DataType dtype, Dims dims) : dtype_(dtype), dims_(std::move(dims)) {}
  virtual ~TensorData() = default;
  TensorData(const TensorData&) = delete;
  TensorData& operator=(const TensorData&) = delete;

  DataType dtype() const { return dtype_; }
  const Dims& dims() const { return dims_; }
  std::uint64_t elements() const { return static_cast<std::uint64_t>(element_count(dims_)); }
  std::uint64_t byte_size() const { return ir::byte_size(dtype_, elements()); }

  // Writes bytes [offset, offset + out.size()) of the tensor to `out`. Both are whole elements (whole bytes for sub-byte
  // types). May be called from many threads at once.
  virtual void read(std::uint64_t offset, std::span<std::byte> out) const = 0;

  // Where the bytes already lie: in memory, or unchanged in files (in order). Empty when they have to be computed.
  virtual std::span<const std::byte> in_memory() const { return {}; }
  virtual std::optional<std::vector<FileRange>> in_files() const { return std::nullopt; }

  // What this recipe reads from; empty for a leaf.
  virtual std::span<const TensorPtr> sources() const { return {}; }
  // A string that is equal for two tensors only if their dtype, dims and bytes are equal whatever the leaves hold; "" when unknown.
  // Leaves answer with their identity, recipes with step and sources; used to store equal tensors once.
  virtual std::string identity() const { return {}; }

  // The whole tensor, for small ones.
  std::vector<std::byte> bytes() const;

 private:
  DataType dtype_;
  Dims dims_;
};

// A tensor that owns its bytes.
TensorPtr make_tensor(DataType dtype, Dims dims, std::vector<std::byte> bytes);
TensorPtr make_tensor(Dims dims, std::span<const std::int64_t> values);
TensorPtr make_tensor(Dims dims, std::span<const float> values);                      // float32
TensorPtr make_tensor_of(DataType dtype, Dims dims, std::span<const double> values);  // each value converted to dtype
TensorPtr make_scalar(DataType dtype, double value);                                  // rank 0, value converted to dtype
TensorPtr make_filled(DataType dtype, Dims dims, double value);
TensorPtr make_string_tensor(Dims dims, std::vector<std::string> values);
const std::vector<std::string>* string_values(const TensorData& tensor);  // nullptr unless a string tensor

// A view into a mapped file; the range must lie inside it (Error corrupt_file otherwise).
TensorPtr mapped_tensor(DataType dtype, Dims dims, std::shared_ptr<const MappedFile> file, std::uint64_t offset);

// A tensor that is known by name and bound later, when a checkpoint is opened: the leaf of every weight recipe.
// `names` are the checkpoint names it may be stored under, the preferred one first.
class Placeholder final : public TensorData {
 public:
  Placeholder(std::vector<std::string> names, DataType dtype, Dims dims);

  const std::string& name() const { return names_.front(); }
  const std::vector<std::string>& names() const { return names_; }
  bool is_bound() const { return source_ != nullptr; }
  const TensorPtr& source() const { return source_; }

  // The source must have this tensor's dims; another dtype is cast. Binding again replaces. Not thread-safe.
  void bind(TensorPtr source) const;

  void read(std::uint64_t offset, std::span<std::byte> out) const override;  // Error not_found while unbound
  std::span<const std::byte> in_memory() const override;
  std::optional<std::vector<FileRange>> in_files() const override;
  std::span<const TensorPtr> sources() const override;
  std::string identity() const override;

 private:
  std::vector<std::string> names_;
  mutable TensorPtr source_;
};

// Elements as numbers, for tensors up to a few thousand elements (shapes, scalars); nullopt for larger or unbound ones and other types.
std::optional<std::vector<std::int64_t>> as_integers(const TensorData& tensor);
std::optional<std::vector<double>> as_doubles(const TensorData& tensor);
std::optional<double> as_scalar(const TensorData& tensor);  // of a tensor with one element

}  // namespace mobius::ir
