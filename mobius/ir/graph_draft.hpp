// GraphDraft: a graph as a reader meets it, with names instead of edges. Both readers (text and protobuf) fill one; build_graph
// then resolves the names, so that scoping rules and their errors exist once.
//
//   GraphDraft draft;
//   draft.inputs.push_back({.name = "x", .type = {DataType::float32}});
//   draft.nodes.push_back({.op = make_op_name("", "Relu"), .inputs = {"x"}, .outputs = {"y"}});
//   draft.outputs.push_back({.name = "y"});
//   build_graph(std::move(draft), *model.graph, {});
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "mobius/ir/graph.hpp"

namespace mobius::ir {

struct GraphDraft {
  struct Value {
    std::string name;
    Type type = {};
    TensorPtr data = {};  // of an initializer
    Metadata metadata = {};
    std::string doc = {};
    std::size_t at = 0;  // position in a text
  };
  struct Node;

  std::string name, doc;
  Metadata metadata;
  std::vector<Value> inputs, outputs;
  std::vector<Value> values;  // initializers (with data) and types of other values, in order
  std::vector<Node> nodes;
};

struct GraphDraft::Node {
  struct Subgraphs {  // one attribute of kind graph or graphs
    std::string attribute;
    bool is_list = false;
    std::vector<GraphDraft> graphs = {};
  };

  OpName op;
  std::string overload = {}, name = {}, doc = {};
  std::vector<std::string> inputs = {}, outputs = {};  // "" = omitted
  Attributes attributes = {};                          // all but subgraphs
  std::vector<Subgraphs> subgraphs = {};
  Metadata metadata = {};
  std::size_t at = 0;
};

struct DraftOptions {
  // Turns GraphDraft positions into "line 3, column 4"; without it errors name the node by index.
  std::function<std::string(std::size_t)> place = {};
  // A typed value of static shape that nothing produces becomes an initializer with an unbound Placeholder.
  bool placeholders = false;
};

// Fills the empty `graph`. A name that an enclosing graph has too is changed in the inner graph (ONNX forbids it, files do it).
// Errors corrupt_file: names defined twice, empty, or read before a definition; each with its place.
void build_graph(GraphDraft draft, Graph& graph, const DraftOptions& options);

// Interned; the domain "ai.onnx" is "".
OpName make_op_name(std::string_view domain, std::string_view type);

// A dimension named in a file. Sums whose numbers could leave int64 stay one symbol.
Dim dim_from_text(std::string_view text);

// The number of elements; nullopt when a dimension is negative or the tensor would exceed 2^59 bytes.
std::optional<std::uint64_t> checked_element_count(DataType dtype, const Dims& dims);

// Graphs nested deeper than this (also types in types) are refused by the readers.
inline constexpr int max_nesting = 48;

}  // namespace mobius::ir
