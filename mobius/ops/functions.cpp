// Function bodies: the table of operators that have one, and the builder that writes them.
#include "mobius/ops/functions.hpp"

#include <fmt/core.h>

#include <algorithm>

#include "mobius/base/error.hpp"
#include "mobius/ops/functions_body.hpp"

namespace mobius::ops {

using ir::Value;

const FunctionTable& function_table() {
  static const FunctionTable result = [] {
    FunctionTable t;
    add_norm_functions(t);
    add_activation_functions(t);
    add_attention_functions(t);
    add_ms_attention_functions(t);
    add_expert_functions(t);
    add_scatter_functions(t);
    return t;
  }();
  return result;
}

namespace {

constexpr int onnx_float_attribute = 1;  // AttributeProto.FLOAT

const FunctionEntry* find_entry(ir::OpName op) {
  auto domain = op.domain == "ai.onnx" ? std::string_view() : op.domain;
  auto found = function_table().find({domain, op.type});
  return found == function_table().end() ? nullptr : &found->second;
}

// What a node must have at least, and at most, so that a body can be written for it: models are read as they come.
struct Arity {
  std::string_view domain, type;
  std::vector<std::size_t> required;  // inputs
  std::size_t outputs = 1;
};
const std::vector<Arity>& arities() {
  constexpr std::string_view ms = "com.microsoft";
  static const std::vector<Arity> table{{"", "RMSNormalization", {0, 1}},
                                        {"", "SimplifiedLayerNormalization", {0, 1}, 2},
                                        {ms, "SkipSimplifiedLayerNormalization", {0, 1, 2}, 4},
                                        {ms, "SkipLayerNormalization", {0, 1, 2}, 4},
                                        {ms, "BiasGelu", {0, 1}},
                                        {ms, "FusedMatMul", {0, 1}},
                                        {"", "RotaryEmbedding", {0, 1, 2}},
                                        {ms, "RotaryEmbedding", {0, 1, 2, 3}},
                                        {"", "Attention", {0, 1, 2}, 4},
                                        {ms, "GroupQueryAttention", {0, 5, 6}, 3},
                                        {ms, "MultiHeadAttention", {0}, 3},
                                        {ms, "PackedMultiHeadAttention", {0, 4, 5}},
                                        {ms, "MoE", {0, 1, 2, 4}},
                                        {"", "LinearAttention", {0, 1, 2}, 2},
                                        {ms, "LinearAttention", {0, 1, 2}, 2},
                                        {"", "CausalConvWithState", {0, 1}, 2},
                                        {ms, "CausalConvWithState", {0, 1}, 2},
                                        {"", "TensorScatter", {0, 1}}};
  return table;
}

bool is_complete(const ir::Node& node) {
  static const Arity one_to_one{"", "", {0}};
  const auto domain = node.op.domain == "ai.onnx" ? std::string_view() : node.op.domain;
  const auto found = std::find_if(arities().begin(), arities().end(), [&](const Arity& a) { return a.domain == domain && a.type == node.op.type; });
  const Arity& arity = found == arities().end() ? one_to_one : *found;
  return node.outputs().size() <= arity.outputs &&
         std::all_of(arity.required.begin(), arity.required.end(), [&](std::size_t i) { return node.input(i) != nullptr; });
}

std::string text(const ir::Attribute& attribute) {
  if (auto v = std::get_if<std::int64_t>(&attribute)) return fmt::format("{}", *v);
  if (auto v = std::get_if<float>(&attribute)) return fmt::format("{}", *v);
  if (auto v = std::get_if<std::string>(&attribute)) return *v;
  std::string result;
  if (auto v = std::get_if<std::vector<std::int64_t>>(&attribute)) {
    for (auto n : *v) result += fmt::format("{} ", n);
  }
  return result;
}

// One input name may be listed for all the rest.
std::string input_name(const std::vector<std::string_view>& names, std::size_t i) {
  return i < names.size() ? std::string(names[i]) : fmt::format("input_{}", i);
}

}  // namespace

std::optional<ir::Function> function_body(const ir::Node& node, std::int64_t opset) {
  const FunctionEntry* entry = find_entry(node.op);
  if (!entry || opset < 17 || !is_complete(node)) return std::nullopt;
  BodyBuilder body(node, opset, entry->inputs);
  return entry->build(body);
}

bool has_function_body(ir::OpName op) { return find_entry(op) != nullptr; }

std::string function_form(const ir::Node& node) {
  const FunctionEntry* entry = find_entry(node.op);
  std::string form = ir::to_string(node.op) + "(";
  for (const Value* value : node.inputs()) form += value ? "x" : "-";
  form += ")->(";
  for (const Value* value : node.outputs()) form += value ? "x" : "-";
  form += ")";
  if (!entry) return form;
  for (const auto& [name, attribute] : node.attributes) {
    if (std::find(entry->numbers.begin(), entry->numbers.end(), name) != entry->numbers.end()) {
      form += " " + name;  // whether it is there shapes the body, its value does not
      continue;
    }
    auto usual = entry->defaults.find(name);
    if (usual == entry->defaults.end() || !ir::equal(usual->second, attribute)) form += fmt::format(" {}={}", name, text(attribute));
  }
  if (entry->extra) form += entry->extra(node);
  return form;
}

// ── GraphBuilder ─────────────────────────────────────────────────────────────────────────────────────────────────────────

Value* GraphBuilder::op(std::string_view type, std::initializer_list<Value*> inputs, ir::Attributes attributes) {
  return op_n(type, inputs, 1, std::move(attributes)).front();
}

std::vector<Value*> GraphBuilder::op_n(std::string_view type, std::initializer_list<Value*> inputs, std::size_t outputs, ir::Attributes attributes) {
  // Trailing absent inputs are left out.
  std::vector<Value*> given(inputs);
  while (!given.empty() && !given.back()) given.pop_back();
  ir::Node* added = graph().append({"", type}, given, std::move(attributes), outputs);
  added->name = fmt::format("{}{}_{}", prefix_, type, graph().node_count());
  if (!prefix_.empty()) {
    for (Value* value : added->outputs()) graph().rename(value, graph().unique_name(prefix_ + value->name));
  }
  return added->outputs();
}

Value* GraphBuilder::cast(Value* x, ir::DataType to) { return op("Cast", {x}, {{"to", static_cast<std::int64_t>(to)}}); }
Value* GraphBuilder::transpose(Value* x, std::vector<std::int64_t> perm) { return op("Transpose", {x}, {{"perm", std::move(perm)}}); }
Value* GraphBuilder::reshape(Value* x, std::vector<std::int64_t> shape) { return op("Reshape", {x, ints(std::move(shape))}); }
Value* GraphBuilder::unsqueeze(Value* x, std::vector<std::int64_t> axes) { return op("Unsqueeze", {x, ints(std::move(axes))}); }
Value* GraphBuilder::squeeze(Value* x, std::vector<std::int64_t> axes) { return op("Squeeze", {x, ints(std::move(axes))}); }
Value* GraphBuilder::concat(std::initializer_list<Value*> xs, std::int64_t axis) { return op("Concat", xs, {{"axis", axis}}); }
Value* GraphBuilder::slice(Value* x, Value* begin, Value* end, std::int64_t axis) { return op("Slice", {x, begin, end, ints({axis})}); }

std::vector<Value*> GraphBuilder::split(Value* x, std::vector<std::int64_t> sizes, std::int64_t axis) {
  auto n = sizes.size();
  return op_n("Split", {x, ints(std::move(sizes))}, n, {{"axis", axis}});
}

std::vector<Value*> GraphBuilder::halves(Value* x, std::int64_t axis) {
  ir::Attributes attributes{{"axis", axis}};
  if (opset_ >= 18) attributes.emplace("num_outputs", std::int64_t{2});
  return op_n("Split", {x}, 2, std::move(attributes));
}

Value* GraphBuilder::reduce(std::string_view type, Value* x, std::vector<std::int64_t> axes, bool keepdims) {
  if (opset_ < 18 && type != "ReduceSum") return op(type, {x}, {{"axes", std::move(axes)}, {"keepdims", std::int64_t{keepdims}}});
  return op(type, {x, ints(std::move(axes))}, {{"keepdims", std::int64_t{keepdims}}});
}

Value* GraphBuilder::dims_of(Value* x, std::int64_t begin, std::int64_t end) { return op("Shape", {x}, {{"start", begin}, {"end", end}}); }
Value* GraphBuilder::last_dim_of(Value* x) { return op("Shape", {x}, {{"start", std::int64_t{-1}}}); }
Value* GraphBuilder::range(Value* count) { return op("Range", {integer(0), squeeze(count, {0}), integer(1)}); }

Value* GraphBuilder::constant(ir::TensorPtr tensor) {
  Value* value = op("Constant", {}, {{"value", tensor}});
  value->set_data(std::move(tensor));
  return value;
}

Value* GraphBuilder::ints(std::vector<std::int64_t> values) {
  Value*& value = ints_[values];
  if (!value) value = constant(ir::make_tensor({static_cast<std::int64_t>(values.size())}, std::span<const std::int64_t>(values)));
  return value;
}
Value* GraphBuilder::integer(std::int64_t value) { return constant(ir::make_scalar(ir::DataType::int64, static_cast<double>(value))); }
Value* GraphBuilder::number(double value) { return constant(ir::make_scalar(ir::DataType::float32, value)); }

// ── BodyBuilder ──────────────────────────────────────────────────────────────────────────────────────────────────────────

BodyBuilder::BodyBuilder(const ir::Node& node, std::int64_t opset, const std::vector<std::string_view>& input_names)
    : BodyBuilder(ir::Function(), node, opset) {
  function_.domain = node.op.domain;
  function_.name = node.op.type;
  function_.overload = node.overload;
  function_.opset_imports[""] = opset;
  function_.body->name = node.op.type;
  for (std::size_t i = 0; i < node.inputs().size(); ++i) {
    Value* value = graph().add_input(input_name(input_names, i), {});
    inputs_.push_back(node.inputs()[i] ? value : nullptr);
  }
  outputs_.resize(node.outputs().size());
}

// Inliners don't all apply a function's default values: only an attribute that the node has is referred to.
ir::Attribute BodyBuilder::reference(std::string_view name, float otherwise) {
  if (!node_.attribute(name)) return otherwise;
  auto& required = function_.attributes;
  if (std::find(required.begin(), required.end(), name) == required.end()) required.emplace_back(name);
  return ir::AttributeReference{std::string(name), onnx_float_attribute};
}

Value* BodyBuilder::attribute(std::string_view name, float otherwise) {
  if (!node_.attribute(name)) return number(static_cast<double>(otherwise));
  return op("Constant", {}, {{"value_float", reference(name, otherwise)}});
}

void BodyBuilder::output(std::size_t i, Value* value) {
  if (i >= outputs_.size()) return;
  // An output is its own value: never an input, and never the same one twice.
  bool taken = value->is_graph_input() || std::find(outputs_.begin(), outputs_.end(), value) != outputs_.end();
  outputs_[i] = taken ? op("Identity", {value}) : value;
}

ir::Function BodyBuilder::finish() {
  for (std::size_t i = 0; i < outputs_.size(); ++i) {
    // An output that the node leaves out has its place all the same.
    if (!outputs_[i] && !node_.output(i)) output(i, outputs_.front());
  }
  for (Value* value : outputs_) {
    expect(value != nullptr, "a function body leaves an output without a value");
    graph().add_output(value);
  }
  // What this form of the operator does not need was made all the same.
  for (ir::Node* node = graph().last(); node;) {
    ir::Node* before = node->previous();
    if (std::none_of(node->outputs().begin(), node->outputs().end(), [](const Value* v) { return v && v->is_used(); })) graph().erase(node);
    node = before;
  }
  // Attributes that shape the body are fixed by it, and stay known to whoever checks the node against the function.
  const auto& required = function_.attributes;
  for (const auto& [name, attribute] : node_.attributes) {
    if (std::find(required.begin(), required.end(), name) == required.end()) function_.attribute_defaults.emplace(name, attribute);
  }
  return std::move(function_);
}

std::string ranks_of(const ir::Node& node, std::initializer_list<std::size_t> inputs) {
  std::string result;
  for (std::size_t i : inputs) {
    const Value* value = node.input(i);
    if (value) result += fmt::format(" rank{}={}", i, value->rank() ? std::to_string(*value->rank()) : "?");
  }
  return result;
}

}  // namespace mobius::ops
