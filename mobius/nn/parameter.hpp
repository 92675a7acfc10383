// Parameter: a weight under its checkpoint name, and Scope: the dotted path that names it.
//
//   Scope layer = Scope(DataType::float16) / "model" / "layers" / 0;
//   Parameter w(layer / "q_proj" / "weight", {64, 64});           // "model.layers.0.q_proj.weight" [64, 64]
//   Parameter q = w.rows(0, 32);                                  // a part of it: still the same tensor in the checkpoint
//
// A parameter is bound to checkpoint bytes when weights are opened; until then only its name, dtype and shape exist.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "mobius/ir/recipe.hpp"

namespace mobius::nn {

// A dotted path, exactly as in the checkpoint, and the dtype that parameters below it are stored in.
class Scope {
 public:
  explicit Scope(ir::DataType dtype, std::string path = {}) : dtype_(dtype), path_(std::move(path)) {}

  Scope operator/(std::string_view name) const { return Scope(dtype_, path_.empty() ? std::string(name) : path_ + "." + std::string(name)); }
  Scope operator/(std::int64_t index) const { return *this / std::to_string(index); }

  const std::string& path() const { return path_; }
  ir::DataType dtype() const { return dtype_; }

 private:
  ir::DataType dtype_;
  std::string path_;
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
  // w + offset, computed in double before the weight is rounded to its dtype (Gemma's 1 + w).
  Parameter plus(double offset) const;

 private:
  std::string name_;
  ir::TensorPtr data_;
};

}  // namespace mobius::nn
