// Inference: If, Loop, Scan and their bodies; sequences and optionals.
#include <algorithm>

#include "mobius/ops/infer_context.hpp"

namespace mobius::ops {
namespace {

using ir::DataType;
using ir::Dim;
using ir::Graph;
using ir::Shape;
using ir::Type;

Graph& body_of(const InferContext& c, std::string_view attribute) {
  auto found = c.node().attribute(attribute);
  auto graph = found ? std::get_if<ir::GraphPtr>(found) : nullptr;
  if (!graph || !*graph) c.error("attribute '{}' is no graph", attribute);
  return **graph;
}

// What is known of a body's input is a guess when it changes from one iteration to the next; `type` must hold for all.
void set_body_input(Graph& body, std::size_t i, const Type& type) {
  ir::Value* input = body.inputs()[i];
  if (!input->type.is_known()) input->type = Type{};
  input->type = merge_types(type, input->type, true);
}

Type without_shape(Type type) {
  type.shape.reset();
  return type;
}

Type common_type(const Type& a, const Type& b) {
  if (!a.is_known() || !b.is_known() || a.kind != b.kind) return {};
  Type result = a;
  result.shape = common_shape(a.shape, b.shape);
  return result;
}

void infer_if(InferContext& c) {
  Graph &yes = body_of(c, "then_branch"), &no = body_of(c, "else_branch");
  c.inference().infer(yes);
  c.inference().infer(no);
  if (yes.outputs().size() != c.outputs() || no.outputs().size() != c.outputs()) {
    c.error("branches have {} and {} outputs, the node has {}", yes.outputs().size(), no.outputs().size(), c.outputs());
  }
  for (std::size_t i = 0; i < c.outputs(); ++i) {
    const Type &a = yes.outputs()[i]->type, &b = no.outputs()[i]->type;
    if (a.dtype != b.dtype && a.dtype != DataType::undefined && b.dtype != DataType::undefined) {
      c.error("branches give {} and {} as output {}", ir::to_string(a), ir::to_string(b), i);
    }
    c.output_type(i, common_type(a, b));
  }
}

Type stacked(const Type& type, std::size_t axis, const Dim& count) {
  Type result = type;
  if (result.shape && axis <= result.shape->size()) {
    result.shape->insert(result.shape->begin() + static_cast<std::ptrdiff_t>(axis), count);
  } else {
    result.shape.reset();
  }
  return result;
}

// M?, cond?, v_initial... ; body: iteration, condition, v... -> condition, v..., scan outputs...
void infer_loop(InferContext& c) {
  Graph& body = body_of(c, "body");
  auto carried = c.inputs() < 2 ? 0 : c.inputs() - 2;
  if (body.inputs().size() != carried + 2) c.error("the body has {} inputs, expected {}", body.inputs().size(), carried + 2);
  if (body.outputs().size() < carried + 1) c.error("the body has {} outputs, expected {} or more", body.outputs().size(), carried + 1);
  if (c.outputs() + 1 != body.outputs().size()) c.error("the body has {} outputs, the node {}", body.outputs().size(), c.outputs());
  Type counter, condition;
  counter.dtype = DataType::int64;
  condition.dtype = DataType::boolean;
  counter.shape = condition.shape = Shape{};
  set_body_input(body, 0, counter);
  set_body_input(body, 1, condition);
  // A carried value keeps its rank and dimensions only if the body says so: try, then forget what changed.
  for (std::size_t i = 0; i < carried; ++i) {
    if (c.has(i + 2)) set_body_input(body, i + 2, c.input(i + 2)->type);
  }
  c.inference().infer(body);
  bool changed = false;
  for (std::size_t i = 0; i < carried; ++i) {
    ir::Value* in = body.inputs()[i + 2];
    const auto& out = body.outputs()[i + 1]->type;
    auto common = common_shape(in->type.shape, out.shape);
    if (!in->type.shape || (common && ir::to_string(*common) == ir::to_string(*in->type.shape))) continue;
    in->type.shape = common;
    changed = true;
  }
  if (changed) {
    // Types of the first try may say too much; they are taken back before the second.
    for (ir::Node* node : body.nodes()) {
      for (ir::Value* value : node->outputs()) {
        if (value && !value->data()) value->type.shape.reset();
      }
    }
    c.inference().infer(body);
  }
  for (std::size_t i = 0; i < carried; ++i) {
    Type type = body.outputs()[i + 1]->type;
    if (c.has(i + 2)) type = common_type(type, c.input(i + 2)->type);
    c.output_type(i, type);
  }
  auto trips = c.contents(0);
  bool counts = !c.has(1) && trips && trips->size() == 1;
  for (std::size_t i = carried; i < c.outputs(); ++i) {
    c.output_type(i, stacked(body.outputs()[i + 1]->type, 0, counts ? trips->front() : Dim()));
  }
}

// initial states..., scan inputs... ; body: states..., slices... -> states..., slices...
void infer_scan(InferContext& c) {
  Graph& body = body_of(c, "body");
  auto scanned = c.required_int("num_scan_inputs");
  auto n = static_cast<std::int64_t>(c.inputs());
  if (scanned < 1 || scanned > n) c.error("num_scan_inputs is {} of {} inputs", scanned, n);
  if (body.inputs().size() != c.inputs()) c.error("the body has {} inputs, the node {}", body.inputs().size(), n);
  if (body.outputs().size() != c.outputs()) c.error("the body has {} outputs, the node {}", body.outputs().size(), c.outputs());
  auto states = static_cast<std::size_t>(n - scanned);
  if (states > c.outputs()) c.error("{} states and {} outputs", states, c.outputs());
  auto input_axes = c.ints("scan_input_axes").value_or(std::vector<std::int64_t>(static_cast<std::size_t>(scanned), 0));
  auto output_axes = c.ints("scan_output_axes").value_or(std::vector<std::int64_t>(c.outputs() - states, 0));
  if (input_axes.size() != static_cast<std::size_t>(scanned) || output_axes.size() != c.outputs() - states)
    c.error("scan axes don't match the scan inputs and outputs");
  Dim length;
  for (std::size_t i = 0; i < states; ++i) {
    if (c.has(i)) set_body_input(body, i, c.input(i)->type);
  }
  for (std::size_t i = 0; i < static_cast<std::size_t>(scanned); ++i) {
    if (!c.has(states + i)) continue;
    Type slice = c.input(states + i)->type;
    if (slice.shape) {
      auto axis = c.axis(input_axes[i], slice.shape->size());
      const Dim size = (*slice.shape)[axis];
      c.want_equal(length, size, "scan lengths");
      if (length.is_unknown() || size.is_static()) length = size;
      slice.shape->erase(slice.shape->begin() + static_cast<std::ptrdiff_t>(axis));
    }
    set_body_input(body, states + i, slice);
  }
  c.inference().infer(body);
  for (std::size_t i = 0; i < c.outputs(); ++i) {
    const Type& type = body.outputs()[i]->type;
    if (i < states) {
      c.output_type(i, c.has(i) ? common_type(c.input(i)->type, type) : type);
      continue;
    }
    auto rank = type.shape ? type.shape->size() + 1 : 0;
    auto axis = rank ? c.axis(output_axes[i - states], rank) : 0;
    c.output_type(i, stacked(type, axis, length));
  }
}

// ── sequences and optionals ──────────────────────────────────────────────────────────────────────────────────────────────

Type sequence_of(Type element) {
  Type result;
  result.kind = Type::Kind::sequence;
  result.element = std::make_shared<const Type>(std::move(element));
  return result;
}

Type element_of(const InferContext& c, std::size_t i) {
  const Type* type = c.has(i) ? &c.input(i)->type : nullptr;
  return type && type->element ? *type->element : Type{};
}

void infer_sequence_construct(InferContext& c) {
  Type element = c.has(0) ? c.input(0)->type : Type{};
  for (std::size_t i = 1; i < c.inputs(); ++i) {
    if (c.has(i)) element = common_type(element, c.input(i)->type);
  }
  c.output_type(0, sequence_of(std::move(element)));
}

void infer_sequence_empty(InferContext& c) {
  Type element;
  element.dtype = c.dtype_attribute("dtype", DataType::float32);
  c.output_type(0, sequence_of(std::move(element)));
}

void infer_sequence_at(InferContext& c) { c.output_type(0, element_of(c, 0)); }
void infer_sequence_length(InferContext& c) { c.output(0, DataType::int64, Shape{}); }
void infer_sequence_insert(InferContext& c) {
  Type element = element_of(c, 0);
  if (c.has(1) && element.is_known()) {
    const Type& added = c.input(1)->type;
    element = element.shape ? common_type(element, added) : added;
    if (!element.is_known()) element = without_shape(added);
  }
  c.output_type(0, sequence_of(without_shape(std::move(element))));
}
void infer_sequence_erase(InferContext& c) {
  if (c.has(0)) c.output_type(0, c.input(0)->type);
}

void infer_split_to_sequence(InferContext& c) {
  Type element;
  element.dtype = c.dtype(0);
  if (c.shape(0)) {
    auto axis = c.axis(c.int_attribute("axis", 0), c.shape(0)->size());
    element.shape = c.shape(0);
    bool drops = !c.has(1) && c.int_attribute("keepdims", 1) == 0;
    (*element.shape)[axis] = c.has(1) ? Dim() : Dim(1);
    if (drops) element.shape->erase(element.shape->begin() + static_cast<std::ptrdiff_t>(axis));
  }
  c.output_type(0, sequence_of(std::move(element)));
}

void infer_concat_from_sequence(InferContext& c) {
  Type element = element_of(c, 0);
  if (!element.shape) return c.output(0, element.dtype);
  Shape result = *element.shape;
  bool stacks = c.int_attribute("new_axis", 0) != 0;
  auto axis = c.axis(c.required_int("axis"), result.size() + (stacks ? 1 : 0));
  if (stacks) {
    result.insert(result.begin() + static_cast<std::ptrdiff_t>(axis), Dim());
  } else {
    result[axis] = Dim();
  }
  c.output(0, element.dtype, std::move(result));
}

void infer_optional(InferContext& c) {
  Type result;
  result.kind = Type::Kind::optional;
  auto declared = c.node().attribute("type");
  Type element = c.has(0) ? c.input(0)->type : (declared && std::holds_alternative<Type>(*declared) ? std::get<Type>(*declared) : Type{});
  result.element = std::make_shared<const Type>(std::move(element));
  c.output_type(0, std::move(result));
}
void infer_optional_element(InferContext& c) {
  if (!c.has(0)) return;
  c.output_type(0, c.input(0)->type.kind == Type::Kind::optional ? element_of(c, 0) : c.input(0)->type);
}
void infer_has_element(InferContext& c) { c.output(0, DataType::boolean, Shape{}); }

}  // namespace

void add_infer_control(InferTable& table) {
  auto& onnx = table.onnx;
  onnx["If"] = {infer_if, 1};
  onnx["Loop"] = {infer_loop, 0};
  onnx["Scan"] = {infer_scan, 1};
  onnx["SequenceConstruct"] = {infer_sequence_construct, 1};
  onnx["SequenceEmpty"] = {infer_sequence_empty, 0};
  onnx["SequenceAt"] = {infer_sequence_at, 2};
  onnx["SequenceLength"] = {infer_sequence_length, 1};
  onnx["SequenceInsert"] = {infer_sequence_insert, 2};
  onnx["SequenceErase"] = {infer_sequence_erase, 1};
  onnx["SplitToSequence"] = {infer_split_to_sequence, 1};
  onnx["ConcatFromSequence"] = {infer_concat_from_sequence, 1};
  onnx["Optional"] = {infer_optional, 0};
  onnx["OptionalGetElement"] = {infer_optional_element, 1};
  onnx["OptionalHasElement"] = {infer_has_element, 0};
}

}  // namespace mobius::ops
