// Which version of ai.onnx a node needs.
//
//   least_opset(*attention);      // 23; 24 with nonpad_kv_seqlen, 25 with a window
//   since({"", "Gelu"});          // 20
//
// Known are the changes of meaning from opset 14 to 28, and what is new from 19 on (ONNX docs/Changelog.md); what is older counts as 1.
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

// Written as up to opset 17: a reduction with its axes as an attribute, a Split into equal parts without num_outputs.
bool has_older_form(const ir::Node& node);
inline constexpr std::int64_t older_form_since = 13, newer_form_since = 18;

// The IR version that came with an opset (21: 10, 24: 11), and the first one that has an element type.
std::int64_t ir_version_of(std::int64_t opset);
std::int64_t least_ir_version(ir::DataType type);

// The domains that the standard itself defines: ai.onnx and ai.onnx.ml.
bool is_standard_domain(std::string_view domain);

}  // namespace mobius::ops
