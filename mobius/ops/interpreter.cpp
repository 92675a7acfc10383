// The reference interpreter: evaluates a graph node by node, functions and subgraphs by recursion.
#include "mobius/ops/interpreter.hpp"

#include <memory>
#include <stdexcept>
#include <unordered_map>

#include "mobius/ir/elements.hpp"
#include "mobius/ops/interpreter_call.hpp"

namespace mobius::ops {
namespace {

using ArrayPtr = std::shared_ptr<const Array>;
constexpr int max_depth = 64;  // of functions and subgraphs within each other

const ReferenceTable& table() {
  static const ReferenceTable result = [] {
    ReferenceTable t;
    add_reference_unary(t);
    add_reference_binary(t);
    add_reference_linear(t);
    add_reference_reduce(t);
    add_reference_norms(t);
    add_reference_shape_ops(t);
    add_reference_index_ops(t);
    add_reference_quantize(t);
    add_reference_conv(t);
    add_reference_attention(t);
    add_reference_ms_attention(t);
    add_reference_experts(t);
    add_reference_control(t);
    return t;
  }();
  return result;
}

// References read operands with at() where a wrong size is possible: that is an error of the operands, not of ours.
std::vector<Array> invoke(ReferenceFunction reference, const OpCall& call) {
  try {
    return reference(call);
  } catch (const std::out_of_range&) {
    call.error("operands don't fit each other");
  }
}

void check(const Array& array, std::string_view name) {
  if (array.values.size() != static_cast<std::size_t>(ir::element_count(array.dims))) {
    fail(ErrorKind::invalid_argument, "input '{}' has {} values for {}", name, array.values.size(), show(array.dims));
  }
}

// What a graph's nodes may read: its own values, then those of the graphs around it.
struct Scope {
  const Scope* outer = nullptr;
  std::unordered_map<const ir::Value*, ArrayPtr> values;
  const ir::Attributes* function_attributes = nullptr;
  int depth = 0;
};

class Evaluator {
 public:
  Evaluator(const std::vector<ir::Function>* functions, bool prefer_functions) : functions_(functions), prefer_functions_(prefer_functions) {}

  void run(const ir::Graph& graph, Scope& scope) const {
    if (scope.depth > max_depth) fail(ErrorKind::unsupported, "graph '{}': functions or subgraphs are nested deeper than {}", graph.name, max_depth);
    for (const ir::Node* node : graph.nodes()) evaluate(*node, scope);
  }

  ArrayPtr find(const ir::Value* value, const Scope& scope) const {
    for (const Scope* s = &scope; s; s = s->outer) {
      if (auto found = s->values.find(value); found != s->values.end()) return found->second;
    }
    if (value->data()) return std::make_shared<const Array>(to_array(*value->data()));
    fail(ErrorKind::invalid_argument, "value '{}' has no data", value->name);
  }

 private:
  void evaluate(const ir::Node& node, Scope& scope) const {
    std::vector<ArrayPtr> held;
    std::vector<const Array*> inputs;
    for (const ir::Value* value : node.inputs()) {
      held.push_back(value ? find(value, scope) : nullptr);
      inputs.push_back(held.back().get());
    }
    ir::Attributes resolved;
    const ir::Attributes& attributes = resolve(node, scope, resolved);
    auto results = call(node, attributes, inputs, scope);
    for (std::size_t i = 0; i < node.outputs().size(); ++i) {
      const ir::Value* value = node.outputs()[i];
      if (!value) continue;
      if (i >= results.size())
        fail(ErrorKind::unsupported, "{} ({}): the reference gives {} outputs, output {} is wanted", node.name, ir::to_string(node.op), results.size(), i);
      scope.values[value] = std::make_shared<const Array>(std::move(results[i]));
    }
  }

  // The node's attributes, with references to the enclosing function's replaced. One that the caller does not give is left out.
  static const ir::Attributes& resolve(const ir::Node& node, const Scope& scope, ir::Attributes& resolved) {
    bool refers = false;
    for (const auto& [name, attribute] : node.attributes) refers = refers || std::holds_alternative<ir::AttributeReference>(attribute);
    if (!refers) return node.attributes;
    for (const auto& [name, attribute] : node.attributes) {
      auto reference = std::get_if<ir::AttributeReference>(&attribute);
      if (!reference) {
        resolved.emplace(name, attribute);
        continue;
      }
      if (!scope.function_attributes) continue;
      auto found = scope.function_attributes->find(reference->name);
      if (found != scope.function_attributes->end()) resolved.emplace(name, found->second);
    }
    return resolved;
  }

  std::vector<Array> call(const ir::Node& node, const ir::Attributes& attributes, const std::vector<const Array*>& inputs, Scope& scope) const {
    auto reference = find_reference(node.op);
    const ir::Function* function = !reference || prefer_functions_ ? find_function(node) : nullptr;
    if (function) return call_function(*function, attributes, inputs, node.outputs().size(), scope.depth);
    if (!reference) fail(ErrorKind::unsupported, "{}: operator {} has no reference", node.name, ir::to_string(node.op));
    SubgraphRunner runner = [&](const ir::Graph& graph, const std::vector<Array>& values) { return run_subgraph(graph, values, scope); };
    return invoke(reference, {node, attributes, inputs, node.outputs().size(), &runner});
  }

  const ir::Function* find_function(const ir::Node& node) const {
    if (!functions_) return nullptr;
    for (const auto& f : *functions_) {
      if (f.domain == node.op.domain && f.name == node.op.type && f.overload == node.overload) return &f;
    }
    return nullptr;
  }

  std::vector<Array> call_function(const ir::Function& function, const ir::Attributes& attributes, const std::vector<const Array*>& inputs, std::size_t outputs,
                                   int depth) const {
    ir::Attributes all = attributes;
    for (const auto& [name, attribute] : function.attribute_defaults) all.try_emplace(name, attribute);
    Scope inner;
    inner.function_attributes = &all;
    inner.depth = depth + 1;
    const auto& formal = function.body->inputs();
    if (inputs.size() > formal.size()) {
      fail(ErrorKind::invalid_argument, "function {}::{} takes {} inputs, got {}", function.domain, function.name, formal.size(), inputs.size());
    }
    for (std::size_t i = 0; i < formal.size(); ++i) {  // one that the call leaves out is left out inside too
      inner.values[formal[i]] = i < inputs.size() && inputs[i] ? std::make_shared<const Array>(*inputs[i]) : nullptr;
    }
    run(*function.body, inner);
    std::vector<Array> results;
    for (std::size_t i = 0; i < outputs && i < function.body->outputs().size(); ++i) results.push_back(*find(function.body->outputs()[i], inner));
    return results;
  }

  std::vector<Array> run_subgraph(const ir::Graph& graph, const std::vector<Array>& values, const Scope& outer) const {
    Scope inner;
    inner.outer = &outer;
    inner.function_attributes = outer.function_attributes;
    inner.depth = outer.depth + 1;
    if (values.size() > graph.inputs().size())
      fail(ErrorKind::invalid_argument, "subgraph '{}' takes {} inputs, got {}", graph.name, graph.inputs().size(), values.size());
    for (std::size_t i = 0; i < values.size(); ++i) inner.values[graph.inputs()[i]] = std::make_shared<const Array>(values[i]);
    run(graph, inner);
    std::vector<Array> results;
    for (const ir::Value* output : graph.outputs()) results.push_back(*find(output, inner));
    return results;
  }

  const std::vector<ir::Function>* functions_;
  bool prefer_functions_;
};

}  // namespace

ReferenceFunction find_reference(ir::OpName op) {
  bool onnx = op.domain.empty() || op.domain == "ai.onnx";
  if (!onnx && op.domain != "com.microsoft") return nullptr;
  const auto& functions = onnx ? table().onnx : table().microsoft;
  auto found = functions.find(op.type);
  return found == functions.end() ? nullptr : found->second;
}

bool has_reference(ir::OpName op) { return find_reference(op) != nullptr; }

Array to_array(const ir::TensorData& tensor) {
  if (!ir::can_convert(tensor.dtype(), ir::DataType::float64)) {
    fail(ErrorKind::unsupported, "the interpreter does not take tensors of {}", ir::text_name(tensor.dtype()));
  }
  Array result = zeros(tensor.dtype(), tensor.dims());
  auto bytes = tensor.bytes();
  ir::convert_elements(tensor.dtype(), bytes.data(), 0, ir::DataType::float64, reinterpret_cast<std::byte*>(result.values.data()), result.values.size());
  return result;
}

std::vector<Array> interpret(const ir::Node& node, std::span<const Array* const> inputs) {
  auto reference = find_reference(node.op);
  if (!reference) fail(ErrorKind::unsupported, "{}: operator {} has no reference", node.name, ir::to_string(node.op));
  for (const Array* array : inputs) {
    if (array) check(*array, node.name);
  }
  Evaluator evaluator(nullptr, false);
  SubgraphRunner runner = [&](const ir::Graph& graph, const std::vector<Array>& values) {
    Scope scope;
    for (std::size_t i = 0; i < values.size() && i < graph.inputs().size(); ++i) scope.values[graph.inputs()[i]] = std::make_shared<const Array>(values[i]);
    evaluator.run(graph, scope);
    std::vector<Array> results;
    for (const ir::Value* output : graph.outputs()) results.push_back(*evaluator.find(output, scope));
    return results;
  };
  return invoke(reference, {node, node.attributes, inputs, node.outputs().size(), &runner});
}

std::map<std::string, Array> interpret(const ir::Graph& graph, const std::map<std::string, Array>& inputs, const std::vector<ir::Function>* functions,
                                       bool prefer_functions) {
  Evaluator evaluator(functions, prefer_functions);
  Scope scope;
  for (const auto& [name, array] : inputs) {
    const ir::Value* value = graph.find_value(name);
    if (!value) fail(ErrorKind::not_found, "the graph has no input '{}'", name);
    check(array, name);
    scope.values[value] = std::make_shared<const Array>(array);
  }
  evaluator.run(graph, scope);
  std::map<std::string, Array> results;
  for (const ir::Value* output : graph.outputs()) results.emplace(output->name, *evaluator.find(output, scope));
  return results;
}

}  // namespace mobius::ops
