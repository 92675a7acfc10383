// The whole-graph passes. Each says how many nodes it removed or changed; 0 means that there was nothing to do.
//
//   infer_shapes(graph);
//   while (remove_identities(graph) + eliminate_common_subexpressions(graph) + remove_dead_code(graph) > 0) {
//   }
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "mobius/ir/model.hpp"
#include "mobius/ops/infer.hpp"

namespace mobius::passes {

// Types and symbolic shapes of all values. Where operands contradict an operator, its results stay as they are: models that others
// wrote are taken as they come.
std::size_t infer_shapes(ir::Graph& graph);  // how many values have a shape that had none
void infer_types(ir::Node& node);            // of one node, likewise
void infer_types(ir::Node& node, ops::TypeInference& inference);

// The symbols that a model states for its interface are names for those who read them, and may be wrong or say less than the graph. While
// one of these is alive, outputs have the sizes that were inferred.
class StatedTypes {
 public:
  explicit StatedTypes(ir::Graph& graph);
  ~StatedTypes();  // the interface says again what it said
  StatedTypes(const StatedTypes&) = delete;
  StatedTypes& operator=(const StatedTypes&) = delete;

 private:
  ir::Graph& graph_;
  std::vector<std::pair<ir::Value*, ir::Type>> inputs_;
  std::vector<ir::Type> outputs_;
};

// Sizes that are fixed but computed (by Shape, Gather, Div ...), and other scalars and vectors of constants, become initializers. Rules
// look for constants; weights are left as they are, since a Transpose of one means something to them.
std::size_t fold_sizes(ir::Graph& graph);

// Sizes that an input of the graph shows are read from it, wherever they are read now. What is not needed any more stays for
// remove_dead_code.
std::size_t read_sizes_from_inputs(ir::Graph& graph);

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

// Values of subgraphs whose name one of the graphs around has too get another: files tell values apart by name alone, and what a subgraph
// reads from outside would become its own value.
std::size_t make_value_names_unique(ir::Graph& graph);

// Operators on constants: data movement (Transpose, Cast, Reshape, Slice, Concat ...) becomes a step of the weight's recipe, whatever
// its size; small results are computed.
std::size_t fold_constants(ir::Graph& graph);

// Gives every com.microsoft operator its function body where it has one and is in the graph in one form only, and the model the opset
// imports it needs.
void attach_function_bodies(ir::Model& model, std::int64_t opset);

// The ai.onnx opset of a model; 1 where it names none.
std::int64_t opset_of(const ir::Model& model);

// Writes the model for another ai.onnx opset. `raise_opset` puts older forms of nodes into today's, and rules then work on the newer
// opset; `set_opset` comes when all is done: it refuses nodes that a lower opset lacks. Both adapt the IR version, at most `max_ir`.
// Error unsupported, with the node's name. `why_not_raised`: the node that would mean something else there, or nothing.
std::optional<std::string> why_not_raised(const ir::Model& model, std::int64_t opset);
std::size_t raise_opset(ir::Model& model, std::int64_t opset, std::int64_t max_ir);
void set_opset(ir::Model& model, std::int64_t opset, std::int64_t max_ir);

}  // namespace mobius::passes
