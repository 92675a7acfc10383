// Which version of ai.onnx a node needs.
//
//   least_opset(*attention);      // 23; 24 with nonpad_kv_seqlen, 25 with a window
//   since({"", "Gelu"});          // 20
//
// Known are the changes of meaning from opset 10 to 28, and what is new from 19 on (ONNX docs/Changelog.md); what is older counts as 1.
#pragma once
#include <cstdint>

#include "mobius/ir/graph.hpp"

namespace mobius::ops {

// The first opset that has the operator at all.
std::int64_t since(ir::OpName op);

// The first opset that has the node as it stands: with its operands, attributes and element types.
std::int64_t least_opset(const ir::Node& node);

// Whether the same node means something else in the two opsets, or is written in another way.
bool differs_between(const ir::Node& node, std::int64_t a, std::int64_t b);

// The opset from which on the node is written in another way: 18 for a reduction with its axes as an attribute, 13 for such a Squeeze; 0: it is written
// so today. A Softmax has the same form with another meaning: 13.
std::int64_t newer_form_since(const ir::Node& node);
inline constexpr std::int64_t oldest_known = 9;  // what came to be, and what changed, before this opset is not known here

// The IR version that came with an opset (21: 10, 24: 11), and the first one that has an element type.
std::int64_t ir_version_of(std::int64_t opset);
std::int64_t least_ir_version(ir::DataType type);

// The domains that the standard itself defines: ai.onnx and ai.onnx.ml.
bool is_standard_domain(std::string_view domain);

}  // namespace mobius::ops
