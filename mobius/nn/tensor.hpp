// Tensor: a value in a graph under construction. Copying it copies a handle, never data. Shapes and dtypes are inferred as
// each operator is applied, so a mistake surfaces at the line that made it.
//
//   Builder b(*model.graph, DataType::float16);
//   Tensor x = b.input("x", DataType::float16, {"batch", 64});
//   Tensor y = sigmoid(x) * x + 1.0;                            // constants take the dtype of the other operand
//   b.output("y", y);
#pragma once
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "mobius/ir/model.hpp"
#include "mobius/nn/parameter.hpp"
#include "mobius/ops/infer.hpp"
#include "mobius/ops/vocabulary.hpp"

namespace mobius::nn {

class Tensor;

// What a graph is built with: the graph, the current scope (names of nodes), and what was made so far.
class Builder {
 public:
  Builder(ir::Graph& graph, ir::DataType dtype) : graph_(graph), dtype_(dtype) {}

  ir::Graph& graph() { return graph_; }
  ir::DataType dtype() const { return dtype_; }  // the float type that the graph computes in

  Tensor input(std::string name, ir::DataType dtype, ir::Shape shape);
  void output(std::string name, Tensor value);
  ir::Value* value_of(const Parameter& parameter);               // one initializer per name
  ir::Value* scalar(ir::DataType dtype, double value);           // one initializer per dtype and value
  ir::Value* integers(const std::vector<std::int64_t>& values);  // int64 [n]
  ops::TypeInference& inference() { return inference_; }

  // The dotted path of the module being called; nodes are named after it.
  std::string scope;

 private:
  ir::Graph& graph_;
  ir::DataType dtype_;
  ops::TypeInference inference_;
  std::map<std::pair<ir::DataType, double>, ir::Value*> scalars_;
  std::map<std::vector<std::int64_t>, ir::Value*> integers_;
};

class Tensor {
 public:
  using AttrArgs = ir::Attributes;

  // What may stand where an operand is expected.
  struct Arg {
    Arg() = default;  // absent
    Arg(const Tensor& tensor);
    Arg(const Parameter& p) : what(&p) {}
    Arg(double number) : what(number) {}
    Arg(int number) : what(static_cast<double>(number)) {}
    Arg(std::int64_t number) : what(static_cast<double>(number)) {}
    Arg(std::vector<std::int64_t> list) : what(std::move(list)) {}
    Arg(std::initializer_list<std::int64_t> list) : what(std::vector<std::int64_t>(list)) {}

    std::variant<std::monostate, ir::Value*, const Parameter*, double, std::vector<std::int64_t>> what;
    Builder* builder = nullptr;
  };

  Tensor(Builder& builder, ir::Value* value) : builder_(&builder), value_(value) {}

  Builder& builder() const { return *builder_; }
  ir::Value* value() const { return value_; }
  ir::DataType dtype() const { return value_->dtype(); }
  // Errors with the value's name when the rank is unknown or too small. Negative i counts from the end.
  ir::Dim dim(int i) const;

  Tensor with(const Parameter& p) const { return {*builder_, builder_->value_of(p)}; }  // p as a tensor of the same graph
  Tensor constant(std::vector<std::int64_t> list) const { return {*builder_, builder_->integers(list)}; }

  static std::vector<Tensor> apply(ir::OpName op, const std::vector<Arg>& in, ir::Attributes attributes, std::size_t results);

 private:
  Builder* builder_;
  ir::Value* value_;
};

static_assert(Expr<Tensor>);

}  // namespace mobius::nn
