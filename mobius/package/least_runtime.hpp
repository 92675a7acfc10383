// The oldest ONNX Runtime that runs a model right.
//
//   least_onnxruntime(model);        // "1.24"; "unknown" for opsets and IR versions that no release was seen to take
//
// By opset and IR version, and by operators: releases have refused forms of them, or got them wrong without a word. All of it was
// measured: the packages of all golden cases by the CPU provider of 1.18 to 1.24 and 1.32, what failed there on the releases between.
#pragma once
#include <string>

#include "mobius/ir/model.hpp"

namespace mobius::package {

std::string least_onnxruntime(const ir::Model& model);

}  // namespace mobius::package
