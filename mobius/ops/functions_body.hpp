// BodyBuilder: writes the body of one function, with the inputs, outputs and attributes of the node it stands for. Internal to ops/.
//
//   BodyBuilder b(node, opset);
//   b.output(0, b.op("Mul", {b.input(0), b.scalar_like(2, b.input(0))}));
//   return b.finish();
#pragma once
#include <cstdint>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "mobius/ir/model.hpp"

namespace mobius::ops {

// Appends ai.onnx operators to a graph; names of new values begin with `prefix`.
class GraphBuilder {
 public:
  GraphBuilder(ir::Graph& graph, std::int64_t opset, std::string prefix = {}) : graph_(graph), opset_(opset), prefix_(std::move(prefix)) {}

  ir::Graph& graph() const { return graph_; }
  std::int64_t opset() const { return opset_; }

  // Attribute values may be AttributeReference.
  ir::Value* op(std::string_view type, std::initializer_list<ir::Value*> inputs, ir::Attributes attributes = {});
  std::vector<ir::Value*> op_n(std::string_view type, std::initializer_list<ir::Value*> inputs, std::size_t outputs, ir::Attributes attributes = {});

  ir::Value* add(ir::Value* a, ir::Value* b) { return op("Add", {a, b}); }
  ir::Value* sub(ir::Value* a, ir::Value* b) { return op("Sub", {a, b}); }
  ir::Value* mul(ir::Value* a, ir::Value* b) { return op("Mul", {a, b}); }
  ir::Value* div(ir::Value* a, ir::Value* b) { return op("Div", {a, b}); }
  ir::Value* matmul(ir::Value* a, ir::Value* b) { return op("MatMul", {a, b}); }
  ir::Value* both(ir::Value* a, ir::Value* b) { return a && b ? op("And", {a, b}) : (a ? a : b); }  // either may be nullptr
  ir::Value* where(ir::Value* condition, ir::Value* a, ir::Value* b) { return op("Where", {condition, a, b}); }
  ir::Value* cast(ir::Value* x, ir::DataType to);
  ir::Value* cast_like(ir::Value* x, ir::Value* like) { return op("CastLike", {x, like}); }
  ir::Value* transpose(ir::Value* x, std::vector<std::int64_t> perm);
  ir::Value* reshape(ir::Value* x, std::vector<std::int64_t> shape);
  ir::Value* reshape(ir::Value* x, ir::Value* shape) { return op("Reshape", {x, shape}); }
  ir::Value* unsqueeze(ir::Value* x, std::vector<std::int64_t> axes);
  ir::Value* squeeze(ir::Value* x, std::vector<std::int64_t> axes);
  ir::Value* concat(std::initializer_list<ir::Value*> xs, std::int64_t axis);
  ir::Value* slice(ir::Value* x, ir::Value* begin, ir::Value* end, std::int64_t axis);
  std::vector<ir::Value*> split(ir::Value* x, std::vector<std::int64_t> sizes, std::int64_t axis);
  std::vector<ir::Value*> halves(ir::Value* x, std::int64_t axis);
  ir::Value* reduce(std::string_view type, ir::Value* x, std::vector<std::int64_t> axes, bool keepdims = true);
  ir::Value* dims_of(ir::Value* x, std::int64_t begin, std::int64_t end);                    // int64 [end - begin]
  ir::Value* dim_of(ir::Value* x, std::int64_t axis) { return dims_of(x, axis, axis + 1); }  // axis >= 0
  ir::Value* last_dim_of(ir::Value* x);                                                      // int64 [1]
  ir::Value* range(ir::Value* count);                                                        // int64 [0, count); count is int64 [1]

  // Constants. The `_like` ones have the element type of another value.
  ir::Value* constant(ir::TensorPtr tensor);
  ir::Value* ints(std::vector<std::int64_t> values);  // int64 [n]
  ir::Value* integer(std::int64_t value);             // int64 []
  ir::Value* number(double value);                    // float []
  ir::Value* scalar_like(double value, ir::Value* like) { return cast_like(number(value), like); }
  ir::Value* everything() { return ints({INT64_MAX}); }  // as the end of a slice

 private:
  ir::Graph& graph_;
  std::int64_t opset_;
  std::string prefix_;
  std::map<std::vector<std::int64_t>, ir::Value*> ints_;  // constants already there
};

class BodyBuilder : public GraphBuilder {
 public:
  // `input_names`: the operator's own, in order. Inputs the node leaves out in between exist, and are not used.
  BodyBuilder(const ir::Node& node, std::int64_t opset, const std::vector<std::string_view>& input_names);

  const ir::Node& node() const { return node_; }
  // The function's input, or nullptr where the node has none.
  ir::Value* input(std::size_t i) const { return i < inputs_.size() ? inputs_[i] : nullptr; }
  std::optional<std::size_t> rank(std::size_t i) const { return node_.input(i) ? node_.input(i)->rank() : std::nullopt; }

  // A float attribute that stays one: float [].
  ir::Value* attribute(std::string_view name, float otherwise);
  ir::Value* attribute_like(std::string_view name, float otherwise, ir::Value* like) { return cast_like(attribute(name, otherwise), like); }
  // For attributes of the body's own nodes.
  ir::Attribute reference(std::string_view name, float otherwise);

  void output(std::size_t i, ir::Value* value);
  ir::Function finish();

 private:
  BodyBuilder(ir::Function function, const ir::Node& node, std::int64_t opset)
      : GraphBuilder(*function.body, opset), node_(node), function_(std::move(function)) {}

  const ir::Node& node_;
  ir::Function function_;
  std::vector<ir::Value*> inputs_, outputs_;
};

// ── blocks that several bodies are made of ───────────────────────────────────────────────────────────────────────────────

// softmax(mask(cap(scale·QKᵀ)))·V for q [B, N, S, D], k and v [B, KV, T, D]: Attention where the version has it, else spelled out.
struct AttentionBody {
  ir::Value *q, *k, *v;
  bool grouped = true;             // several query heads may share a key head
  double scale = 0, softcap = 0;   // scale 0: 1/√D
  ir::Value* allowed = nullptr;    // bool, broadcasts to [B, N, S, T]
  ir::Value* bias = nullptr;       // added to the scores, broadcasts likewise
  ir::Value* sink = nullptr;       // one more score in each row's denominator, [1, N, 1, 1]
  bool zero_hidden_rows = true;    // rows that see nothing (only without `bias` it can be told)
  std::int64_t softmax_dtype = 0;  // 0: as the scores
  // Sizes where they are known, else 0: what is known need not be computed.
  std::int64_t heads = 0, kv_heads = 0, width = 0, value_width = 0;
};
struct AttentionBodyResult {
  ir::Value *y, *scores, *capped, *masked, *weights;  // all but y nullptr where Attention is used
};
AttentionBodyResult attention_body(GraphBuilder& b, const AttentionBody& a, bool as_primitives);

// Rotates the first 2·W channels of x's last axis; cos and sin [.., W] broadcast to x. `partial`: there may be more channels.
ir::Value* rotary_body(GraphBuilder& b, ir::Value* x, ir::Value* cos, ir::Value* sin, bool interleaved, bool partial);

// x·½·(1 + tanh(√(2/π)·(x + 0.044715·x³))), spelled out.
ir::Value* gelu_tanh_body(GraphBuilder& b, ir::Value* x);

std::string ranks_of(const ir::Node& node, std::initializer_list<std::size_t> inputs);  // for FunctionEntry::extra

// One operator's bodies. What else shapes them is in `extra` (a rank, say), as text.
struct FunctionEntry {
  std::optional<ir::Function> (*build)(BodyBuilder& body);
  std::vector<std::string_view> inputs;
  std::vector<std::string_view> numbers = {};               // attributes that stay attributes of the function
  std::map<std::string_view, ir::Attribute> defaults = {};  // of those that shape the body
  std::string (*extra)(const ir::Node& node) = nullptr;
};
using FunctionTable = std::map<std::pair<std::string_view, std::string_view>, FunctionEntry>;  // by domain and type
const FunctionTable& function_table();
void add_norm_functions(FunctionTable& table);
void add_activation_functions(FunctionTable& table);
void add_attention_functions(FunctionTable& table);
void add_ms_attention_functions(FunctionTable& table);
void add_expert_functions(FunctionTable& table);
void add_scatter_functions(FunctionTable& table);

}  // namespace mobius::ops
