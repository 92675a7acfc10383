// Names to edges: builds a Graph from what a reader found.
#include "mobius/ir/graph_draft.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "mobius/base/error.hpp"

namespace mobius::ir {

namespace {

struct Scope {
  const Scope* outer = nullptr;
  std::unordered_map<std::string, Value*> defined;  // by the name in the file
  std::unordered_set<std::string> names;            // all that this graph defines, also later on

  Value* find(const std::string& name) const {
    for (const Scope* s = this; s; s = s->outer)
      if (const auto it = s->defined.find(name); it != s->defined.end()) return it->second;
    return nullptr;
  }
  bool is_named_outside(const std::string& name) const {
    for (const Scope* s = outer; s; s = s->outer)
      if (s->names.contains(name)) return true;
    return false;
  }
};

// The constant that a Constant node stands for; nullptr when it isn't known.
TensorPtr constant_value(const Attributes& attributes) {
  if (attributes.size() != 1) return nullptr;
  const auto& [name, attribute] = *attributes.begin();
  if (const auto* tensor = std::get_if<TensorPtr>(&attribute); tensor && name == "value") return *tensor;
  if (const auto* i = std::get_if<std::int64_t>(&attribute); i && name == "value_int") return make_tensor({}, std::span(i, 1));
  if (const auto* f = std::get_if<float>(&attribute); f && name == "value_float") return make_tensor({}, std::span(f, 1));
  if (const auto* s = std::get_if<std::string>(&attribute); s && name == "value_string") return make_string_tensor({}, {*s});
  const auto dims = [](const auto& list) { return Dims{static_cast<std::int64_t>(list.size())}; };
  if (const auto* is = std::get_if<std::vector<std::int64_t>>(&attribute); is && name == "value_ints") return make_tensor(dims(*is), std::span(*is));
  if (const auto* fs = std::get_if<std::vector<float>>(&attribute); fs && name == "value_floats") return make_tensor(dims(*fs), std::span(*fs));
  if (const auto* ss = std::get_if<std::vector<std::string>>(&attribute); ss && name == "value_strings") return make_string_tensor(dims(*ss), *ss);
  return nullptr;
}

Type type_of(const TensorData& data) { return {.dtype = data.dtype(), .shape = Shape(data.dims().begin(), data.dims().end())}; }

class Builder {
 public:
  Builder(GraphDraft& draft, Graph& graph, const DraftOptions& options, const Scope* outer) : draft_(draft), graph_(graph), options_(options) {
    scope_.outer = outer;
  }

  void build() {
    graph_.name = std::move(draft_.name);
    graph_.doc = std::move(draft_.doc);
    graph_.metadata = std::move(draft_.metadata);
    collect_names();
    for (auto& input : draft_.inputs) add_input(input);
    for (auto& value : draft_.values) add_value(value);
    for (std::size_t i = 0; i < draft_.nodes.size(); ++i) add_node(draft_.nodes[i], i);
    for (auto& output : draft_.outputs) add_output(output);
  }

 private:
  template <class... Args>
  [[noreturn]] void fail_at(std::size_t at, const std::string& otherwise, fmt::format_string<Args...> format, Args&&... args) const {
    const std::string place = options_.place ? options_.place(at) : otherwise;
    fail(ErrorKind::corrupt_file, "{}: {}", place, fmt::vformat(format, fmt::make_format_args(args...)));
  }

  static std::string label(const GraphDraft::Node& node, std::size_t index) {
    return fmt::format("node {} ({}{}{})", index, to_string(node.op), node.name.empty() ? "" : " ", node.name);
  }

  void collect_names() {
    for (const auto& input : draft_.inputs) scope_.names.insert(input.name);
    for (const auto& value : draft_.values)
      if (value.data) scope_.names.insert(value.name);
    for (const auto& node : draft_.nodes) scope_.names.insert(node.outputs.begin(), node.outputs.end());
  }

  // The name to give in this graph, after checking that it can be defined here.
  std::string claim(const std::string& name, std::size_t at, const std::string& otherwise) {
    if (name.empty()) fail_at(at, otherwise, "a value has an empty name");
    if (scope_.defined.contains(name)) fail_at(at, otherwise, "\"{}\" is defined twice", name);
    if (!scope_.is_named_outside(name)) return name;
    for (int i = 1;; ++i) {
      std::string other = fmt::format("{}_{}", name, i);
      if (scope_.names.contains(other) || scope_.is_named_outside(other)) continue;
      scope_.names.insert(other);
      return other;
    }
  }

  static void describe(Value& value, GraphDraft::Value& from) {
    value.metadata.merge(from.metadata);
    if (value.doc.empty()) value.doc = std::move(from.doc);
  }

  void add_input(GraphDraft::Value& input) {
    std::string name = claim(input.name, input.at, "inputs");
    Value* value = graph_.add_input(std::move(name), std::move(input.type));
    describe(*value, input);
    scope_.defined.emplace(input.name, value);
  }

  void add_value(GraphDraft::Value& value) {
    if (!value.data && !scope_.names.contains(value.name) && is_placeholder(value)) {
      Dims dims = *static_shape(*value.type.shape);
      value.data = std::make_shared<Placeholder>(std::vector{value.name}, value.type.dtype, std::move(dims));
      scope_.names.insert(value.name);
    }
    const auto found = scope_.defined.find(value.name);
    if (value.data) {
      add_initializer(value);
    } else if (found != scope_.defined.end()) {  // a function's inputs have their types here
      if (!found->second->type.is_known()) found->second->type = std::move(value.type);
      describe(*found->second, value);
    } else if (!typed_.emplace(value.name, &value).second) {
      fail_at(value.at, "value_info", "\"{}\" is declared twice", value.name);
    }
  }

  bool is_placeholder(const GraphDraft::Value& value) const {
    const Type& type = value.type;
    if (!options_.placeholders || value.name.empty() || type.kind != Type::Kind::tensor || !type.shape || bit_width(type.dtype) == 0) return false;
    const auto dims = static_shape(*type.shape);
    return dims && checked_element_count(type.dtype, *dims) && !scope_.is_named_outside(value.name);
  }

  void add_initializer(GraphDraft::Value& from) {
    const auto found = scope_.defined.find(from.name);
    Value* value = found == scope_.defined.end() ? nullptr : found->second;
    if (value && value->is_graph_input() && !value->data()) {
      const Type& declared = value->type;
      if (declared.is_known() && (declared.kind != Type::Kind::tensor || declared.dtype != from.data->dtype()))
        fail_at(from.at, "initializers", "\"{}\" is {} as an input and {} as an initializer", from.name, to_string(declared), to_string(type_of(*from.data)));
      graph_.make_initializer(value, std::move(from.data));
    } else {
      std::string name = claim(from.name, from.at, "initializers");
      value = graph_.add_initializer(std::move(name), std::move(from.data));
      scope_.defined.emplace(from.name, value);
    }
    describe(*value, from);
  }

  Value* resolve(const std::string& name, const GraphDraft::Node& node, std::size_t index) const {
    if (name.empty()) return nullptr;
    Value* value = scope_.find(name);
    if (!value && scope_.names.contains(name)) fail_at(node.at, label(node, index), "reads \"{}\" before the node that produces it", name);
    if (!value) fail_at(node.at, label(node, index), "reads \"{}\", which nothing defines", name);
    return value;
  }

  void add_node(GraphDraft::Node& node, std::size_t index) {
    std::vector<Value*> inputs, outputs;
    for (const auto& name : node.inputs) inputs.push_back(resolve(name, node, index));
    for (auto& subgraph : node.subgraphs) add_subgraphs(node, index, subgraph);
    for (const auto& name : node.outputs) outputs.push_back(add_node_output(name, node, index));
    const TensorPtr constant = node.op == OpName{"", "Constant"} && outputs.size() == 1 && outputs[0] ? constant_value(node.attributes) : nullptr;
    ir::Node* made = graph_.append_with_outputs(node.op, inputs, outputs, std::move(node.attributes));
    made->overload = std::move(node.overload);
    made->name = std::move(node.name);
    made->doc = std::move(node.doc);
    made->metadata = std::move(node.metadata);
    if (constant) outputs[0]->set_data(constant);
  }

  Value* add_node_output(const std::string& name, const GraphDraft::Node& node, std::size_t index) {
    if (name.empty()) return nullptr;
    Value* value = graph_.add_value(claim(name, node.at, label(node, index)));
    if (const auto it = typed_.find(name); it != typed_.end()) {
      value->type = std::move(it->second->type);
      describe(*value, *it->second);
    }
    scope_.defined.emplace(name, value);
    return value;
  }

  void add_subgraphs(GraphDraft::Node& node, std::size_t index, GraphDraft::Node::Subgraphs& from) {
    std::vector<GraphPtr> graphs;
    for (auto& draft : from.graphs) {
      graphs.push_back(std::make_shared<Graph>());
      try {
        Builder(draft, *graphs.back(), options_, &scope_).build();
      } catch (const Error& e) {
        if (options_.place) throw;  // the position says it all
        throw e.within(fmt::format("{}: {}", label(node, index), from.attribute));
      }
    }
    if (from.is_list) {
      node.attributes[from.attribute] = std::move(graphs);
    } else if (!graphs.empty()) {
      node.attributes[from.attribute] = graphs.front();
    }
  }

  void add_output(GraphDraft::Value& output) {
    if (output.name.empty()) fail_at(output.at, "outputs", "an output has an empty name");
    Value* value = scope_.find(output.name);
    if (!value) fail_at(output.at, "outputs", "nothing defines the output \"{}\"", output.name);
    const bool is_fixed = value->is_graph_input() || value->data() || value->graph() != &graph_;
    if (output.type.is_known() && (!is_fixed || !value->type.is_known())) value->type = std::move(output.type);
    describe(*value, output);
    graph_.add_output(value);
  }

  GraphDraft& draft_;
  Graph& graph_;
  const DraftOptions& options_;
  Scope scope_;
  std::unordered_map<std::string, GraphDraft::Value*> typed_;
};

}  // namespace

void build_graph(GraphDraft draft, Graph& graph, const DraftOptions& options) { Builder(draft, graph, options, nullptr).build(); }

OpName make_op_name(std::string_view domain, std::string_view type) { return {domain == "ai.onnx" ? "" : intern(domain), intern(type)}; }

Dim dim_from_text(std::string_view text) {
  if (text.empty()) return {};
  const auto digits = std::count_if(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
  return digits <= 15 ? Dim::parse(text) : Dim::symbol(text);
}

std::optional<std::uint64_t> checked_element_count(DataType dtype, const Dims& dims) {
  std::uint64_t count = 1;
  bool is_empty = false;
  for (const std::int64_t d : dims) {  // zeros are left out of the product: no order of multiplication may overflow
    if (d < 0 || __builtin_mul_overflow(count, static_cast<std::uint64_t>(std::max<std::int64_t>(d, 1)), &count)) return std::nullopt;
    is_empty = is_empty || d == 0;
  }
  const std::uint64_t limit = (1ull << 59) / static_cast<std::uint64_t>(std::max(8, bit_width(dtype)) / 8);
  if (count > limit) return std::nullopt;
  return is_empty ? 0 : count;
}

}  // namespace mobius::ir
