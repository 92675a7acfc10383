// TypeInference: the table of inference functions, and the walk over a graph.
#include "mobius/ops/infer.hpp"

#include "mobius/ops/infer_context.hpp"

namespace mobius::ops {
namespace {

// Contents are followed up to this many elements: shapes and the pads of one are far below it.
constexpr std::uint64_t max_contents = 64;

const InferTable& table() {
  static const InferTable result = [] {
    InferTable t;
    add_infer_math(t);
    add_infer_reduce(t);
    add_infer_shape_ops(t);
    add_infer_index_ops(t);
    add_infer_nn(t);
    add_infer_conv(t);
    add_infer_attention(t);
    add_infer_contrib(t);
    add_infer_control(t);
    return t;
  }();
  return result;
}

const InferEntry* find_entry(ir::OpName op) {
  bool onnx = op.domain.empty() || op.domain == "ai.onnx";
  if (!onnx && op.domain != "com.microsoft") return nullptr;
  const auto& entries = onnx ? table().onnx : table().microsoft;
  auto found = entries.find(op.type);
  return found == entries.end() ? nullptr : &found->second;
}

bool holds(ir::DataType type, std::int64_t n) {
  using enum ir::DataType;
  const bool is_unsigned = type == uint8 || type == uint16 || type == uint32 || type == uint64 || type == uint4 || type == uint2;
  if (is_unsigned && n < 0) return false;
  const int bits = ir::bit_width(type) - (is_unsigned ? 0 : 1);
  return bits >= 63 || (n < std::int64_t{1} << bits && n >= -(std::int64_t{1} << bits));
}

// Numbers are computed without end. What an operator makes of one that its type can't hold is unknown.
ir::Shape as_held_by(ir::DataType type, ir::Shape elements) {
  if (ir::is_integer(type))
    for (auto& e : elements)
      if (e.is_static() && !holds(type, e.value())) e = ir::Dim();
  return elements;
}

}  // namespace

bool has_inference(ir::OpName op) { return find_entry(op) != nullptr; }

void TypeInference::infer(ir::Node& node) {
  for (const ir::Value* value : node.outputs()) contents_.erase(value);
  const InferEntry* entry = find_entry(node.op);
  if (!entry) return;
  InferContext context(*this, node);
  if (context.inputs() < entry->min_inputs) context.error("has {} inputs, expected {} or more", context.inputs(), entry->min_inputs);
  entry->infer(context);
}

void TypeInference::infer(ir::Graph& graph) {
  for (ir::Node* node : graph.nodes()) infer(*node);
}

std::optional<ir::Shape> TypeInference::contents(const ir::Value* value) const {
  if (!value) return std::nullopt;
  if (const auto& data = value->data()) {
    if (data->dims().size() > 1 || data->elements() > max_contents || !ir::is_integer(data->dtype())) return std::nullopt;
    auto numbers = ir::as_integers(*data);
    return numbers ? std::optional(ir::Shape(numbers->begin(), numbers->end())) : std::nullopt;
  }
  auto found = contents_.find(value);
  if (found != contents_.end()) return as_held_by(value->dtype(), found->second);
  // Nothing is known of the elements, but how many there are.
  const auto& shape = value->shape();
  if (!shape || shape->size() != 1 || !(*shape)[0].is_static() || !ir::is_integer(value->dtype())) return std::nullopt;
  auto n = (*shape)[0].value();
  if (n < 0 || static_cast<std::uint64_t>(n) > max_contents) return std::nullopt;
  return ir::Shape(static_cast<std::size_t>(n));
}

void TypeInference::set_contents(const ir::Value* value, ir::Shape elements) {
  if (elements.size() <= max_contents) contents_[value] = std::move(elements);
}

}  // namespace mobius::ops
