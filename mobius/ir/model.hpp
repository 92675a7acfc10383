// Model: a graph with what surrounds it in an ONNX file: opset imports, functions, metadata.
//
//   Model model = model_from_text("g (float[B] x) => (y) { y = Neg(x) }");
//   for (const Node* node : model.graph->nodes()) use(node->op);
//   if (const auto findings = verify(model); !findings.empty()) complain(findings);
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "mobius/ir/graph.hpp"

namespace mobius::ir {

// A model-local function (FunctionProto): a body for (domain, name, overload) in terms of other operators.
struct Function {
  std::string domain, name, overload, doc;
  std::vector<std::string> attributes;  // required attribute names
  Attributes attribute_defaults;        // attributes with default values
  std::map<std::string, std::int64_t, std::less<>> opset_imports;
  Metadata metadata;
  GraphPtr body = std::make_shared<Graph>();  // inputs and outputs are the function's; untyped
};

struct Model {
  Model() = default;
  Model(Model&&) = default;
  Model& operator=(Model&&) = default;

  std::int64_t ir_version = 11;
  std::map<std::string, std::int64_t, std::less<>> opset_imports;  // "" is ai.onnx
  std::string producer_name, producer_version, domain, doc;
  std::int64_t model_version = 0;
  Metadata metadata;
  std::unique_ptr<Graph> graph = std::make_unique<Graph>();
  std::vector<Function> functions;

  const Function* find_function(OpName op, std::string_view overload = "") const;
};

// Checks that a model is well formed: every input resolves to a value defined before it, every value has one producer,
// names are unique and not empty, uses are recorded, types agree where both ends state one. Returns all findings, each with its place;
// empty when the model is fine.
std::vector<std::string> verify(const Model& model);

// ONNX's textual syntax (onnx.parser, onnx.printer), for tests and for reading by people.
// Tensors of more than `max_elements` elements, and those whose data is not bound yet, are printed as type and name only.
struct TextOptions {
  std::uint64_t max_elements = UINT64_MAX;
  bool value_info = true;  // also the types of values between nodes
};
std::string to_text(const Model& model, const TextOptions& options = {});
std::string to_text(const Graph& graph, const TextOptions& options = {});
Model model_from_text(std::string_view text);  // a whole model, or a graph alone; Error corrupt_file with line and column

}  // namespace mobius::ir
