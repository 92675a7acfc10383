// The in-memory ONNX graph. A Graph owns its nodes and values; nodes and values are referred to by pointer and stay put.
//
//   Graph g;
//   Value* x = g.add_input("x", {DataType::float32, Shape{"batch", 64}});
//   Node* n = g.append({"", "Relu"}, {x});
//   n->outputs()[0]->type = x->type;
//   g.add_output(n->outputs()[0]);
//
// Edges are kept both ways: a Value knows its producer and its uses, also uses inside subgraphs and as graph output.
// Change edges only through Graph and Node functions.
#pragma once
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "mobius/ir/shape.hpp"
#include "mobius/ir/tensor_data.hpp"

namespace mobius::ir {

class Graph;
class Node;
class Value;

// ── names and types ──────────────────────────────────────────────────────────────────────────────────────────────────────

// An operator's name. The views must outlive the graph: string literals, or intern().
struct OpName {
  std::string_view domain;  // "" is ai.onnx
  std::string_view type;
  bool operator==(const OpName&) const = default;
};
std::string_view intern(std::string_view text);  // a copy that lives as long as the program
std::string to_string(OpName op);                // "MatMul", "com.microsoft::FusedMatMul"

struct Type {
  enum class Kind : std::uint8_t { tensor, sparse_tensor, sequence, optional, map };

  DataType dtype = DataType::undefined;  // of a tensor; the key type of a map
  std::optional<Shape> shape = {};       // nullopt: unknown rank
  Kind kind = Kind::tensor;
  std::shared_ptr<const Type> element = {};  // of a sequence, optional or map

  bool is_known() const { return dtype != DataType::undefined || kind != Kind::tensor; }
};
std::string to_string(const Type& type);  // "float[batch,64]", as in ONNX's textual syntax

// ── attributes ───────────────────────────────────────────────────────────────────────────────────────────────────────────

using GraphPtr = std::shared_ptr<Graph>;

// In a function body: the value is that of the function's own attribute with this name.
struct AttributeReference {
  std::string name;
  int onnx_type = 0;  // AttributeProto.AttributeType
  bool operator==(const AttributeReference&) const = default;
};

using Attribute = std::variant<std::int64_t, float, std::string, TensorPtr, GraphPtr, std::vector<std::int64_t>, std::vector<float>, std::vector<std::string>,
                               std::vector<TensorPtr>, std::vector<GraphPtr>, Type, std::vector<Type>, AttributeReference>;
using Attributes = std::map<std::string, Attribute, std::less<>>;

bool equal(const Attribute& a, const Attribute& b);  // tensors by content (small ones) or identity, graphs by identity

using Metadata = std::map<std::string, std::string, std::less<>>;

// ── values and nodes ─────────────────────────────────────────────────────────────────────────────────────────────────────

struct Use {
  Node* node;
  std::size_t index;  // which input of the node
};

class Value {
 public:
  std::string name;
  Type type;
  Metadata metadata;
  std::string doc;

  Node* producer() const { return producer_; }  // nullptr: input, initializer or outer value
  std::size_t index() const { return index_; }  // which output of the producer
  Graph* graph() const { return graph_; }
  const std::vector<Use>& uses() const { return uses_; }
  bool is_graph_input() const { return is_input_; }
  bool is_graph_output() const { return output_count_ > 0; }
  bool is_initializer() const { return data_ != nullptr && producer_ == nullptr; }
  bool is_used() const { return !uses_.empty() || output_count_ > 0; }

  // The constant value: of an initializer, or of a Constant node's output. nullptr otherwise.
  const TensorPtr& data() const { return data_; }
  void set_data(TensorPtr data);  // of an initializer: also sets dtype and shape

  DataType dtype() const { return type.dtype; }
  const std::optional<Shape>& shape() const { return type.shape; }
  std::optional<std::size_t> rank() const { return type.shape ? std::optional(type.shape->size()) : std::nullopt; }

 private:
  friend class Graph;
  friend class Node;
  Node* producer_ = nullptr;
  std::size_t index_ = 0;
  Graph* graph_ = nullptr;
  std::vector<Use> uses_;
  TensorPtr data_;
  bool is_input_ = false;
  int output_count_ = 0;
};

class Node {
 public:
  OpName op;
  std::string overload;
  std::string name;
  std::string doc;
  Attributes attributes;
  Metadata metadata;

  const std::vector<Value*>& inputs() const { return inputs_; }    // nullptr: an omitted optional input
  const std::vector<Value*>& outputs() const { return outputs_; }  // nullptr: an omitted output
  Value* input(std::size_t i) const { return i < inputs_.size() ? inputs_[i] : nullptr; }
  Value* output(std::size_t i = 0) const { return i < outputs_.size() ? outputs_[i] : nullptr; }
  Graph& graph() const { return *graph_; }
  Node* next() const { return next_; }
  Node* previous() const { return previous_; }

  void set_input(std::size_t i, Value* value);  // keeps both ends of the edge right; grows the list when needed
  void resize_inputs(std::size_t n);
  Value* add_output(std::string name = {});                     // appends one more output value
  void drop_output(std::size_t i);                              // an unused output becomes omitted; trailing ones are cut off
  Value* restore_output(std::size_t i, std::string name = {});  // an omitted output, or one beyond the last, comes to be

  bool is(std::string_view type, std::string_view domain = "") const { return op.type == type && op.domain == domain; }
  // Attribute access with the operator's default; a wrong kind is an Error.
  std::int64_t int_attribute(std::string_view name, std::int64_t otherwise) const;
  float float_attribute(std::string_view name, float otherwise) const;
  std::string_view string_attribute(std::string_view name, std::string_view otherwise) const;
  std::optional<std::vector<std::int64_t>> ints_attribute(std::string_view name) const;
  const Attribute* attribute(std::string_view name) const;
  // Subgraphs of If, Loop, Scan bodies, in attribute order.
  std::vector<Graph*> subgraphs() const;

 private:
  friend class Graph;
  Value* make_output(std::string name, std::size_t i);
  std::vector<Value*> inputs_, outputs_;
  Graph* graph_ = nullptr;
  Node* next_ = nullptr;
  Node* previous_ = nullptr;
  std::int64_t order_ = 0;
};

// ── the graph ────────────────────────────────────────────────────────────────────────────────────────────────────────────

class Graph {
 public:
  Graph() = default;
  ~Graph();
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  std::string name = "main_graph";
  std::string doc;
  Metadata metadata;

  Value* add_input(std::string name, Type type);
  Value* add_initializer(std::string name, TensorPtr data);
  // A value without producer: an initializer's default for an input (ONNX IR < 4), or a value read before its producer.
  Value* add_value(std::string name, Type type = {});
  void make_initializer(Value* value, TensorPtr data);
  void add_output(Value* value);
  void set_output(std::size_t i, Value* value);
  void remove_output(std::size_t i);
  void remove_input(Value* input);              // must be unused
  void remove_initializer(Value* initializer);  // must be unused

  const std::vector<Value*>& inputs() const { return inputs_; }
  const std::vector<Value*>& outputs() const { return outputs_; }
  const std::vector<Value*>& initializers() const { return initializers_; }  // in order of creation

  // Nodes, in execution order. Adding: at the end, or before another node. Output values get their names from `unique_name`
  // unless named later.
  Node* append(OpName op, std::span<Value* const> inputs, Attributes attributes = {}, std::size_t outputs = 1);
  Node* append(OpName op, std::initializer_list<Value*> inputs, Attributes attributes = {}, std::size_t outputs = 1) {
    return append(op, std::span(inputs.begin(), inputs.size()), std::move(attributes), outputs);
  }
  Node* insert(Node* before, OpName op, std::span<Value* const> inputs, Attributes attributes = {}, std::size_t outputs = 1);
  // For readers: a node whose outputs are values that exist already (nullptr = omitted).
  Node* append_with_outputs(OpName op, std::span<Value* const> inputs, std::span<Value* const> outputs, Attributes attributes = {});
  void move_before(Node* node, Node* before);  // before == nullptr: to the end
  void erase(Node* node);                      // its outputs must be unused

  Node* first() const { return first_; }
  Node* last() const { return last_; }
  std::size_t node_count() const { return node_count_; }
  bool precedes(const Node* a, const Node* b) const;  // both in this graph; constant time

  // Every use of `from`, also as graph output, becomes a use of `to`. An output keeps its name.
  void replace_all_uses(Value* from, Value* to);

  // Names. A value's name is unique within a graph and its subgraphs.
  std::string unique_name(std::string_view hint);
  void rename(Value* value, std::string name);  // takes the name even if another value has it (that one is renamed)
  Value* find_value(std::string_view name) const;

  struct NodeIterator {
    Node* node;
    Node* operator*() const { return node; }
    NodeIterator& operator++() {
      node = node->next();
      return *this;
    }
    bool operator!=(const NodeIterator& o) const { return node != o.node; }
  };
  struct NodeRange {
    Node* first;
    NodeIterator begin() const { return {first}; }
    NodeIterator end() const { return {nullptr}; }
  };
  // Iterates nodes in order. Erasing the current node ends the iteration: take `next()` before that.
  NodeRange nodes() const { return {first_}; }

 private:
  friend class Node;
  Value* new_value(std::string name, Type type);
  void link(Node* node, Node* before);
  void unlink(Node* node);
  void renumber() const;

  std::deque<Node> node_pool_;
  std::deque<Value> value_pool_;
  std::vector<Node*> free_nodes_;
  std::vector<Value*> free_values_;
  std::vector<Value*> inputs_, outputs_, initializers_;
  Node* first_ = nullptr;
  Node* last_ = nullptr;
  std::size_t node_count_ = 0;
  mutable bool order_valid_ = true;
  // Looked up only, never iterated: names share long prefixes, which an ordered map would compare again and again.
  struct TextHash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };
  std::unordered_map<std::string, Value*, TextHash, std::equal_to<>> by_name_;
  std::unordered_map<std::string, std::int64_t, TextHash, std::equal_to<>> name_counters_;
};

}  // namespace mobius::ir
