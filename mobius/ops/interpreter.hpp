// The reference interpreter: evaluates operators and graphs in double precision. Slow and obvious; it judges rewrite rules
// and function bodies.
//
//   Array x{DataType::float32, {2, 3}, {1, 2, 3, 4, 5, 6}};
//   auto results = interpret(graph, {{"x", x}});          // by output name
//
// Float types are not rounded (a float16 Array holds doubles); integers are exact up to 2^53 and wrap as their type does;
// booleans are 0 and 1. Float to integer casts truncate. Operators are those of ai.onnx 18 to 25 and of com.microsoft as ONNX Runtime's
// CPU provider has them, but for one thing: GroupQueryAttention reads position_ids token by token, also in a first prompt (where that
// provider adds 0, 1, 2, ... to the first one).
#pragma once
#include <map>
#include <span>
#include <string>
#include <vector>

#include "mobius/ir/model.hpp"

namespace mobius::ops {

struct Array {
  ir::DataType dtype = ir::DataType::float32;
  ir::Dims dims;
  std::vector<double> values;  // row-major
};

Array to_array(const ir::TensorData& tensor);

bool has_reference(ir::OpName op);

// One operator; absent optional inputs are nullptr. `outputs` = how many of its outputs are wanted. Error unsupported for operators
// without a reference, invalid_argument for operands that it does not take.
std::vector<Array> interpret(const ir::Node& node, std::span<const Array* const> inputs);

// A graph on named inputs. Model-local functions are used for operators that have no reference of their own; with `prefer_functions`
// also for those that have one (that is how a body is judged).
std::map<std::string, Array> interpret(const ir::Graph& graph, const std::map<std::string, Array>& inputs, const std::vector<ir::Function>* functions = nullptr,
                                       bool prefer_functions = false);

}  // namespace mobius::ops
