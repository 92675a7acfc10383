// Function bodies: what com.microsoft operators (and newer ai.onnx ones) mean, in plain ONNX operators.
//
//   if (auto body = function_body(*node, 24)) model.functions.push_back(std::move(*body));
//
// A body holds for one form of the operator: the inputs and outputs that are present, and the attributes that shape it. Attributes
// that only carry a number (epsilon, alpha) stay attributes of the function.
#pragma once
#include <optional>

#include "mobius/ir/model.hpp"

namespace mobius::ops {

// nullopt: no body is known for this operator, or not in this form. `opset`: the ai.onnx version the body may use.
std::optional<ir::Function> function_body(const ir::Node& node, std::int64_t opset);

bool has_function_body(ir::OpName op);  // in some form

// Two nodes with equal keys share one body; a model can hold one form per operator name.
std::string function_form(const ir::Node& node);

}  // namespace mobius::ops
