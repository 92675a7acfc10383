// Shape and type inference over symbols: what an operator's outputs are, from what its inputs are.
//
//   TypeInference inference;
//   inference.infer(*node);              // sets node's output types as far as they can be known
//
// Besides shapes it follows the *contents* of small integer tensors (Shape -> Gather -> Concat -> Reshape), so that
// shapes computed in the graph stay symbolic instead of unknown. Where a slice or a minimum depends on which of two symbols is the
// larger, each symbol is taken to be 0 or more and a sum of symbols 1 or more; what that does not decide is unknown.
// Rules: the operator specifications of ONNX (docs/Operators.md) and ONNX Runtime (docs/ContribOperators.md).
#pragma once
#include <optional>
#include <unordered_map>

#include "mobius/ir/graph.hpp"

namespace mobius::ops {

class TypeInference {
 public:
  // Operands that contradict the operator are an Error invalid_argument that names the node, the operator and the shapes:
  // "model.layers.0.mlp/MatMul: [batch, sequence_len, 64] x [32, 16]: inner dimensions 64 and 32 differ".
  // A declared output type is kept where it says more than what was inferred. Unknown operators are left alone.
  void infer(ir::Node& node);
  void infer(ir::Graph& graph);  // all nodes in order, subgraphs too

  // The elements of a small integer tensor (rank 0 or 1) as dimensions; nullopt when not known at all.
  std::optional<ir::Shape> contents(const ir::Value* value) const;
  void set_contents(const ir::Value* value, ir::Shape elements);

 private:
  std::unordered_map<const ir::Value*, ir::Shape> contents_;  // looked up only, never iterated
};

bool has_inference(ir::OpName op);

}  // namespace mobius::ops
