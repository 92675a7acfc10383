// Puts a function's body in the place of a call.
//
//   Inserter at(graph, node, node->name);
//   auto results = insert_body(at, *node, *ops::function_body(*node, 21));      // one value per output of the node
//
// Nodes are named after the call, have inferred types and the call's metadata. Constants become initializers, attributes that refer to
// the call's are resolved, subgraphs are copied. The call itself stays: who calls redirects its users and erases it.
#pragma once
#include "mobius/ir/model.hpp"
#include "mobius/rewrite/rule.hpp"

namespace mobius::rewrite {

// nullptr for outputs that the call omits. Errors invalid_argument: more operands than the function has inputs, or more results.
std::vector<ir::Value*> insert_body(Inserter& at, const ir::Node& call, const ir::Function& function);

// Puts the operator's function body in its place, wherever it has one in that form; in ai.onnx of at most `opset`.
Rule body_rule(std::string name, ir::OpName op, std::size_t results, std::int64_t opset, std::function<bool(const Target&)> when);

// The tensor of a Constant node with these attributes; nullptr for the kinds that stay nodes.
ir::TensorPtr constant_of(const ir::Attributes& attributes);

// The name under which the nodes of its body stand: the node's own, or that of its first output.
std::string scope_of_call(const ir::Node& call);

// `type`, and what only `other` knows: the element type, the rank, single dimensions.
ir::Type joined(ir::Type type, const ir::Type& other);

}  // namespace mobius::rewrite
