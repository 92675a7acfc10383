// Nodes as ai.onnx wrote them from opset 9 on, in the form that newer opsets have.
//
//   Squeeze<axes = [1]>(x)      ⟶   Squeeze(x, [1])                                           (13; likewise Unsqueeze, ReduceSum, and others at 18)
//   Clip<max = 6.0>(x)          ⟶   Clip(x, "", 6)                                            (11)
//   Softmax<axis = 1>(x)        ⟶   Reshape(Softmax<axis = -1>(Flatten<axis = 1>(x)), Shape(x))     (13: it was over all axes from this one on)
//
// What they compute stays what it was, for any input. Which forms there are: ops/versions.hpp.
#pragma once
#include <optional>
#include <string>

#include "mobius/ir/model.hpp"

namespace mobius::passes {

// Why the node, which is in an older form, can't be written anew; nullopt: it can.
std::optional<std::string> why_no_newer_form(const ir::Node& node);

// Writes anew the nodes of a model's graph, or of a function's body, whose operators changed their form after opset `own` and up to `opset`;
// returns how many. There is no why_no_newer_form for any of them.
std::size_t write_newer_forms(ir::Graph& graph, std::int64_t own, std::int64_t opset);

}  // namespace mobius::passes
