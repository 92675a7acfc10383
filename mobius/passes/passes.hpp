// The whole-graph passes. Each says how many nodes it removed or changed; 0 means that there was nothing to do.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "mobius/ir/model.hpp"

namespace mobius::passes {

// Types and symbolic shapes of all values. Where operands contradict an operator, its results stay as they are: models that others
// wrote are taken as they come.
std::size_t infer_shapes(ir::Graph& graph);  // how many values have a shape that had none
void infer_types(ir::Node& node);            // of one node, likewise

// Constant nodes become initializers.
std::size_t lift_constants(ir::Graph& graph);

// Nodes and initializers that nothing uses. Graph inputs stay: they are the interface.
std::size_t remove_dead_code(ir::Graph& graph);

// Inputs that nothing reads (position_ids, once rope is inside the attention op), but for the cache's: runtimes feed those by name.
// Returns their names.
std::vector<std::string> remove_dead_inputs(ir::Graph& graph);

// Identity, and Cast, Reshape, Transpose, Expand ... that provably change nothing.
std::size_t remove_identities(ir::Graph& graph);

// Equal nodes on equal operands become one (not random ones, not those with subgraphs).
std::size_t eliminate_common_subexpressions(ir::Graph& graph);

// Initializers with provably equal content become one.
std::size_t deduplicate_initializers(ir::Graph& graph);

// Nodes of one name, which runtimes refuse: the later ones get another.
std::size_t make_node_names_unique(ir::Graph& graph);

// Operators on constants: data movement (Transpose, Cast, Reshape, Slice, Concat ...) becomes a step of the weight's recipe, whatever
// its size; small results are computed.
std::size_t fold_constants(ir::Graph& graph);

// Gives every com.microsoft operator its function body where it has one and is in the graph in one form only, and the model the opset
// imports it needs.
void attach_function_bodies(ir::Model& model, std::int64_t opset);

// Writes the model for another ai.onnx opset. `check_raise` finds out beforehand whether all nodes mean the same there; `set_opset`
// refuses nodes that a lower opset lacks, and adapts the IR version, at most `max_ir`. Error unsupported, with the node's name.
void check_raise(const ir::Model& model, std::int64_t opset);
void set_opset(ir::Model& model, std::int64_t opset, std::int64_t max_ir);

}  // namespace mobius::passes
