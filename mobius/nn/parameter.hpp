// Parameter: a weight under its checkpoint name, and Scope: the dotted path that names it.
//
//   Scope layer = Scope(DataType::float16) / "model" / "layers" / 0;
//   Parameter w(layer / "q_proj" / "weight", {64, 64});           // "model.layers.0.q_proj.weight" [64, 64]
//   Parameter q = w.rows("q", 0, 32);                             // a part of it: still the same tensor in the checkpoint
//
// A parameter is bound to checkpoint bytes when weights are opened; until then only its name, dtype and shape exist.
#pragma once
#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "mobius/ir/recipe.hpp"

namespace mobius::nn {

// A dotted path, exactly as in the checkpoint, and the dtype that parameters below it are stored in.
class Scope {
 public:
  explicit Scope(ir::DataType dtype, std::string path = {}) : dtype_(dtype), path_(std::move(path)) {}

  Scope operator/(std::string_view name) const { return {dtype_, path_.empty() ? std::string(name) : path_ + "." + std::string(name), optional_}; }
  Scope operator/(std::int64_t index) const { return *this / std::to_string(index); }

  // The same place, for checkpoints that may leave this path out: those saved from a model without its head name "h.0.ln_1.weight" what
  // is "transformer.h.0.ln_1.weight" in others. Everything below it is looked for under both names.
  Scope or_left_out() const { return Scope(dtype_, path_, path_.size() + 1); }

  // The same place, with parameters in another dtype.
  Scope in(ir::DataType dtype) const { return {dtype, path_, optional_}; }

  const std::string& path() const { return path_; }
  ir::DataType dtype() const { return dtype_; }
  // The path without the part that may be left out; the path itself when there is none.
  std::string short_path() const { return path_.substr(std::min(optional_, path_.size())); }

 private:
  Scope(ir::DataType dtype, std::string path, std::size_t optional) : dtype_(dtype), path_(std::move(path)), optional_(optional) {}

  ir::DataType dtype_;
  std::string path_;
  std::size_t optional_ = 0;  // characters at the start of the path that a checkpoint may lack
};

class Parameter {
 public:
  // A checkpoint tensor of this shape, converted to the scope's dtype. `other_names`: where else it may be stored (tied weights).
  Parameter(const Scope& at, ir::Dims dims, std::vector<std::string> other_names = {});
  // Anything made from other tensors.
  Parameter(std::string name, ir::TensorPtr data) : name_(std::move(name)), data_(std::move(data)) {}

  const std::string& name() const { return name_; }
  const ir::TensorPtr& data() const { return data_; }
  ir::DataType dtype() const { return data_->dtype(); }
  const ir::Dims& dims() const { return data_->dims(); }

  // Rows [begin, end) of axis 0, under another name.
  Parameter rows(std::string name, std::int64_t begin, std::int64_t end) const;
  // Columns [begin, end), of axis 1, likewise.
  Parameter columns(std::string name, std::int64_t begin, std::int64_t end) const;
  // Axis 0 seen as blocks of `size` rows, of which these are taken, in this order.
  Parameter blocks(std::string name, std::int64_t size, std::vector<std::int64_t> order) const;
  // w + offset, computed in double before the weight is rounded to its dtype (Gemma's 1 + w).
  Parameter plus(double offset) const { return affine(1, offset); }
  Parameter scaled(double factor) const { return affine(factor, 0); }  // w · factor, likewise

 private:
  Parameter affine(double factor, double offset) const;

  std::string name_;
  ir::TensorPtr data_;
};

}  // namespace mobius::nn
