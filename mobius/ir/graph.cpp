// Edges, order and names of a graph: everything that keeps both ends of each relation true.
#include "mobius/ir/graph.hpp"

#include <algorithm>
#include <mutex>
#include <unordered_set>

#include "mobius/base/error.hpp"

namespace mobius::ir {

std::string_view intern(std::string_view text) {
  static std::mutex mutex;
  static std::unordered_set<std::string> pool;  // a node-based set: its strings never move
  const std::lock_guard lock(mutex);
  return *pool.emplace(text).first;
}

std::string to_string(OpName op) { return op.domain.empty() ? std::string(op.type) : std::string(op.domain) + "::" + std::string(op.type); }

std::string to_string(const Type& type) {
  switch (type.kind) {
    case Type::Kind::sequence: return "seq(" + (type.element ? to_string(*type.element) : "") + ")";
    case Type::Kind::optional: return "optional(" + (type.element ? to_string(*type.element) : "") + ")";
    case Type::Kind::map: return "map(" + std::string(text_name(type.dtype)) + ", " + (type.element ? to_string(*type.element) : "") + ")";
    case Type::Kind::sparse_tensor:
    case Type::Kind::tensor: break;
  }
  std::string out(text_name(type.dtype));
  if (!type.shape) out += "[...]";
  else if (!type.shape->empty()) {
    out += "[";
    for (std::size_t i = 0; i < type.shape->size(); ++i) {
      const auto& d = (*type.shape)[i];
      out += (i ? "," : "") + (d.is_unknown() ? "?" : d.to_string());
    }
    out += "]";
  }
  return type.kind == Type::Kind::sparse_tensor ? "sparse_tensor(" + out + ")" : out;
}

bool equal(const Attribute& a, const Attribute& b) {
  if (a.index() != b.index()) return false;
  return std::visit(
      [&](const auto& x) {
        using T = std::decay_t<decltype(x)>;
        const auto& y = std::get<T>(b);
        if constexpr (std::is_same_v<T, TensorPtr>) {
          if (x == y) return true;
          if (!x || !y || x->dtype() != y->dtype() || x->dims() != y->dims()) return false;
          const auto id = x->identity();
          return !id.empty() && id == y->identity();
        } else if constexpr (std::is_same_v<T, Type>) {
          return to_string(x) == to_string(y);
        } else if constexpr (std::is_same_v<T, std::vector<Type>>) {
          return std::ranges::equal(
              x, y, {}, [](const Type& t) { return to_string(t); }, [](const Type& t) { return to_string(t); });
        } else {
          return x == y;
        }
      },
      a);
}

// ── Value ────────────────────────────────────────────────────────────────────────────────────────────────────────────────

void Value::set_data(TensorPtr data) {
  data_ = std::move(data);
  if (!data_) return;
  type.dtype = data_->dtype();
  type.shape = Shape(data_->dims().begin(), data_->dims().end());
}

// ── Node ─────────────────────────────────────────────────────────────────────────────────────────────────────────────────

void Node::set_input(std::size_t i, Value* value) {
  if (i >= inputs_.size()) inputs_.resize(i + 1, nullptr);
  if (inputs_[i] == value) return;
  if (auto* old = inputs_[i]) std::erase_if(old->uses_, [&](const Use& u) { return u.node == this && u.index == i; });
  inputs_[i] = value;
  if (value) value->uses_.push_back({this, i});
}

void Node::resize_inputs(std::size_t n) {
  for (auto i = n; i < inputs_.size(); ++i) set_input(i, nullptr);
  inputs_.resize(n, nullptr);
}

Value* Node::make_output(std::string value_name, std::size_t i) {
  auto* v = graph_->new_value(value_name.empty() ? graph_->unique_name(std::string(op.type)) : std::move(value_name), {});
  v->producer_ = this;
  v->index_ = i;
  return v;
}

Value* Node::add_output(std::string value_name) { return outputs_.emplace_back(make_output(std::move(value_name), outputs_.size())); }

Value* Node::restore_output(std::size_t i, std::string value_name) {
  if (i >= outputs_.size()) outputs_.resize(i + 1, nullptr);
  expect(!outputs_[i], "restoring an output that is there");
  return outputs_[i] = make_output(std::move(value_name), i);
}

void Node::drop_output(std::size_t i) {
  auto* v = output(i);
  if (v) {
    expect(!v->is_used(), "dropping an output that is used");
    v->producer_ = nullptr;
    graph_->by_name_.erase(v->name);
    graph_->free_values_.push_back(v);
    outputs_[i] = nullptr;
  }
  while (outputs_.size() > 1 && !outputs_.back()) outputs_.pop_back();
}

const Attribute* Node::attribute(std::string_view key) const {
  const auto it = attributes.find(key);
  return it == attributes.end() ? nullptr : &it->second;
}

namespace {
template <class T>
const T* typed(const Node& node, std::string_view key) {
  const auto* a = node.attribute(key);
  if (!a) return nullptr;
  if (const auto* v = std::get_if<T>(a)) return v;
  fail(ErrorKind::invalid_argument, "{} ({}): attribute {} has another type than the operator says", node.name, to_string(node.op), key);
}
}  // namespace

std::int64_t Node::int_attribute(std::string_view key, std::int64_t otherwise) const {
  const auto* v = typed<std::int64_t>(*this, key);
  return v ? *v : otherwise;
}
float Node::float_attribute(std::string_view key, float otherwise) const {
  const auto* v = typed<float>(*this, key);
  return v ? *v : otherwise;
}
std::string_view Node::string_attribute(std::string_view key, std::string_view otherwise) const {
  const auto* v = typed<std::string>(*this, key);
  return v ? std::string_view(*v) : otherwise;
}
std::optional<std::vector<std::int64_t>> Node::ints_attribute(std::string_view key) const {
  const auto* v = typed<std::vector<std::int64_t>>(*this, key);
  return v ? std::optional(*v) : std::nullopt;
}

std::vector<Graph*> Node::subgraphs() const {
  std::vector<Graph*> out;
  for (const auto& [key, a] : attributes) {
    if (const auto* g = std::get_if<GraphPtr>(&a)) out.push_back(g->get());
    if (const auto* gs = std::get_if<std::vector<GraphPtr>>(&a))
      for (const auto& g : *gs) out.push_back(g.get());
  }
  return out;
}

// ── Graph: values ────────────────────────────────────────────────────────────────────────────────────────────────────────

Graph::~Graph() {
  // Nodes of this graph may use values of an outer graph, which outlives it: those must not keep uses by dead nodes.
  for (auto* n = first_; n; n = n->next_)
    for (std::size_t i = 0; i < n->inputs_.size(); ++i)
      if (auto* v = n->inputs_[i]; v && v->graph_ != this) std::erase_if(v->uses_, [&](const Use& u) { return u.node == n; });
  for (auto* o : outputs_)
    if (o->graph_ != this) --o->output_count_;
  node_pool_.clear();  // before the values: the subgraphs of nodes refer to them
}

Value* Graph::new_value(std::string value_name, Type type) {
  Value* v = nullptr;
  if (!free_values_.empty()) {
    v = free_values_.back();
    free_values_.pop_back();
    *v = Value();
  } else {
    v = &value_pool_.emplace_back();
  }
  v->graph_ = this;
  v->type = std::move(type);
  v->name = std::move(value_name);
  if (!by_name_.try_emplace(v->name, v).second) {
    v->name = unique_name(v->name);
    by_name_.emplace(v->name, v);
  }
  return v;
}

Value* Graph::add_input(std::string value_name, Type type) {
  auto* v = new_value(std::move(value_name), std::move(type));
  v->is_input_ = true;
  inputs_.push_back(v);
  return v;
}

Value* Graph::add_value(std::string value_name, Type type) { return new_value(std::move(value_name), std::move(type)); }

Value* Graph::add_initializer(std::string value_name, TensorPtr data) {
  auto* v = new_value(std::move(value_name), {});
  make_initializer(v, std::move(data));
  return v;
}

void Graph::make_initializer(Value* value, TensorPtr data) {
  expect(!value->producer_ && !value->data_, "an initializer has no producer and is made once");
  value->set_data(std::move(data));
  initializers_.push_back(value);
}

void Graph::add_output(Value* value) {
  outputs_.push_back(value);
  ++value->output_count_;
}

void Graph::set_output(std::size_t i, Value* value) {
  --outputs_[i]->output_count_;
  outputs_[i] = value;
  ++value->output_count_;
}

void Graph::remove_output(std::size_t i) {
  --outputs_[i]->output_count_;
  outputs_.erase(outputs_.begin() + static_cast<std::ptrdiff_t>(i));
}

void Graph::remove_input(Value* input) {
  expect(!input->is_used(), "removing an input that is used");
  std::erase(inputs_, input);
  std::erase(initializers_, input);
  by_name_.erase(input->name);
  free_values_.push_back(input);
}

void Graph::remove_initializer(Value* initializer) {
  expect(!initializer->is_used(), "removing an initializer that is used");
  std::erase(initializers_, initializer);
  initializer->data_ = nullptr;
  if (initializer->is_input_) return;  // stays as an input without a default
  by_name_.erase(initializer->name);
  free_values_.push_back(initializer);
}

void Graph::replace_all_uses(Value* from, Value* to) {
  if (from == to) return;
  auto uses = std::move(from->uses_);
  from->uses_.clear();
  for (const auto& use : uses) {
    use.node->inputs_[use.index] = to;
    to->uses_.push_back(use);
  }
  if (from->output_count_ == 0) return;
  // The interface keeps its names: the new value takes over the old one's, unless it is itself part of the interface.
  const bool takes_name = from->graph_ == to->graph_ && !to->is_input_ && to->output_count_ == 0 && !to->data_;
  for (std::size_t i = 0; i < outputs_.size(); ++i)
    if (outputs_[i] == from) set_output(i, to);
  if (!takes_name) return;
  auto output_name = from->name;
  from->graph_->rename(from, from->graph_->unique_name(output_name + "_replaced"));
  to->graph_->rename(to, std::move(output_name));
}

// ── Graph: nodes and their order ─────────────────────────────────────────────────────────────────────────────────────────

namespace {
// Between neighbours. Nodes are mostly inserted one after the other before the same node: a small step from the last one leaves room for
// hundreds, where halves would leave it for forty.
constexpr std::int64_t order_gap = std::int64_t{1} << 40;
constexpr std::int64_t order_step = 16;
}  // namespace

void Graph::link(Node* node, Node* before) {
  node->graph_ = this;
  node->next_ = before;
  node->previous_ = before ? before->previous_ : last_;
  (node->previous_ ? node->previous_->next_ : first_) = node;
  (before ? before->previous_ : last_) = node;
  if (!before) node->order_ = (node->previous_ ? node->previous_->order_ : 0) + order_gap;
  else {
    const auto low = node->previous_ ? node->previous_->order_ : before->order_ - 2 * order_gap;
    node->order_ = low + (before->order_ - low + order_step - 1) / order_step;
    if (node->order_ == low || node->order_ == before->order_) order_valid_ = false;
  }
}

void Graph::unlink(Node* node) {
  (node->previous_ ? node->previous_->next_ : first_) = node->next_;
  (node->next_ ? node->next_->previous_ : last_) = node->previous_;
}

void Graph::renumber() const {
  std::int64_t order = 0;
  for (auto* n = first_; n; n = n->next_) n->order_ = order += order_gap;
  order_valid_ = true;
}

bool Graph::precedes(const Node* a, const Node* b) const {
  if (!order_valid_) renumber();
  return a->order_ < b->order_;
}

Node* Graph::insert(Node* before, OpName op, std::span<Value* const> inputs, Attributes attributes, std::size_t outputs) {
  Node* n = nullptr;
  if (!free_nodes_.empty()) {
    n = free_nodes_.back();
    free_nodes_.pop_back();
    *n = Node();
  } else {
    n = &node_pool_.emplace_back();
  }
  n->op = op;
  n->attributes = std::move(attributes);
  link(n, before);
  ++node_count_;
  n->inputs_.assign(inputs.begin(), inputs.end());
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i]) inputs[i]->uses_.push_back({n, i});
  for (std::size_t i = 0; i < outputs; ++i) n->add_output();
  return n;
}

Node* Graph::append(OpName op, std::span<Value* const> inputs, Attributes attributes, std::size_t outputs) {
  return insert(nullptr, op, inputs, std::move(attributes), outputs);
}

Node* Graph::append_with_outputs(OpName op, std::span<Value* const> inputs, std::span<Value* const> outputs, Attributes attributes) {
  auto* n = insert(nullptr, op, inputs, std::move(attributes), 0);
  for (auto* v : outputs) {
    if (v) {
      expect(!v->producer_, "a value has one producer");
      v->producer_ = n;
      v->index_ = n->outputs_.size();
    }
    n->outputs_.push_back(v);
  }
  return n;
}

void Graph::move_before(Node* node, Node* before) {
  if (node == before) return;
  unlink(node);
  link(node, before);
}

void Graph::erase(Node* node) {
  for (auto* o : node->outputs_) {
    if (!o) continue;
    expect(!o->is_used(), "erasing a node whose output is used");
    o->producer_ = nullptr;
    by_name_.erase(o->name);
    free_values_.push_back(o);
  }
  node->resize_inputs(0);
  node->outputs_.clear();
  node->attributes.clear();
  unlink(node);
  --node_count_;
  free_nodes_.push_back(node);
}

// ── Graph: names ─────────────────────────────────────────────────────────────────────────────────────────────────────────

std::string Graph::unique_name(std::string_view hint) {
  if (!hint.empty() && !by_name_.contains(hint)) return std::string(hint);
  auto& counter = name_counters_[std::string(hint)];
  while (true) {
    auto candidate = std::string(hint) + "_" + std::to_string(++counter);
    if (!by_name_.contains(candidate)) return candidate;
  }
}

void Graph::rename(Value* value, std::string new_name) {
  if (value->name == new_name) return;
  if (const auto it = by_name_.find(new_name); it != by_name_.end()) {
    auto* other = it->second;
    by_name_.erase(it);
    other->name = unique_name(new_name + "_1");
    by_name_.emplace(other->name, other);
  }
  by_name_.erase(value->name);
  value->name = std::move(new_name);
  by_name_.emplace(value->name, value);
}

Value* Graph::find_value(std::string_view value_name) const {
  const auto it = by_name_.find(value_name);
  return it == by_name_.end() ? nullptr : it->second;
}

}  // namespace mobius::ir
