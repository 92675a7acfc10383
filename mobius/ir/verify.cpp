// The rules of a well-formed model, checked on every graph of it.
#include <fmt/core.h>

#include <algorithm>
#include <set>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <unordered_set>

#include "mobius/ir/model.hpp"

namespace mobius::ir {

namespace {

// Where a finding is. Put into words only when there is one.
struct Place {
  const Place* outer = nullptr;
  const Function* function = nullptr;
  const Node* node = nullptr;
  std::string_view attribute = {};

  std::string text() const {
    std::string out = outer ? outer->text() : "";
    if (function) out += fmt::format("function {}::{}{}{}: ", function->domain, function->name, function->overload.empty() ? "" : ":", function->overload);
    if (node) out += fmt::format("{} ({}): ", label(*node), to_string(node->op));
    if (!attribute.empty()) out += fmt::format("{}: ", attribute);
    return out;
  }

 private:
  static std::string_view label(const Node& node) {
    if (!node.name.empty()) return node.name;
    for (const Value* v : node.outputs())
      if (v) return v->name;
    return "a node";
  }
};

// Pointer-keyed tables are looked up only; findings come in the order of the graph.
class Verifier {
 public:
  explicit Verifier(const Model& model) : model_(model) {}

  std::vector<std::string> run() {
    graph_tables(*model_.graph);
    check_graph(*model_.graph, {}, nullptr, model_.opset_imports, false);
    std::set<std::tuple<std::string_view, std::string_view, std::string_view>> names;
    for (const Function& f : model_.functions) {
      const Place place{.function = &f};
      if (!names.emplace(f.domain, f.name, f.overload).second) report(place, "is defined twice");
      if (!f.body) {
        report(place, "has no body");
        continue;
      }
      graph_tables(*f.body);
      check_graph(*f.body, place, nullptr, f.opset_imports, true);
    }
    return std::move(findings_);
  }

 private:
  struct Scope {
    const Graph& graph;
    const Scope* outer;
    std::unordered_set<const Value*> defined;
    std::unordered_map<std::string_view, const Value*> names;
  };

  template <class... Args>
  void report(const Place& place, fmt::format_string<Args...> format, Args&&... args) {
    if (findings_.size() < max_findings) findings_.push_back(place.text() + fmt::vformat(format, fmt::make_format_args(args...)));
  }

  // ── tables: which nodes exist, how often each value is read ────────────────────────────────────────────────────────────

  void graph_tables(const Graph& graph) {
    std::size_t walked = 0;
    for (const Node* node : graph.nodes()) {
      if (++walked > graph.node_count() + 1) return;  // a cycle in the list; check_graph reports it
      nodes_.insert(node);
      for (const Value* v : node->inputs())
        if (v) ++use_counts_[v];
      for (const Graph* inner : node->subgraphs())
        if (inner) graph_tables(*inner);
    }
  }

  // ── graphs ─────────────────────────────────────────────────────────────────────────────────────────────────────────────

  using Opsets = std::map<std::string, std::int64_t, std::less<>>;

  void check_graph(const Graph& graph, const Place& place, const Scope* outer, const Opsets& opsets, bool is_function) {
    Scope scope{graph, outer, {}, {}};
    for (const Value* v : graph.inputs()) {
      if (!v) {
        report(place, "an input is missing");
        continue;
      }
      if (v->producer()) report(place, "input {} has a producer", v->name);
      if (!v->is_graph_input()) report(place, "input {} does not know that it is one", v->name);
      define(*v, scope, place);
    }
    for (const Value* v : graph.initializers()) check_initializer(v, scope, place);

    std::size_t count = 0;
    const Node* previous = nullptr;
    for (const Node* node : graph.nodes()) {
      if (++count > graph.node_count()) break;
      if (node->previous() != previous) report({&place, nullptr, node}, "the list of nodes is broken before it");
      previous = node;
      check_node(*node, scope, place, opsets, is_function);
    }
    if (count != graph.node_count()) report(place, "the list of nodes does not hold node_count() = {} nodes", graph.node_count());
    if (graph.last() != previous) report(place, "the list of nodes does not end in last()");
    check_outputs(graph, scope, place);
  }

  void define(const Value& value, Scope& scope, const Place& place) {
    if (value.graph() != &scope.graph) report(place, "{} belongs to another graph", value.name);
    if (value.name.empty()) report(place, "a value has an empty name");
    if (!scope.defined.insert(&value).second) report(place, "{} is defined twice", value.name);
    const auto [it, is_new] = scope.names.emplace(value.name, &value);
    if (!is_new && it->second != &value) report(place, "two values are called {}", value.name);
    for (const Scope* s = scope.outer; s; s = s->outer)
      if (!value.name.empty() && s->names.contains(value.name)) report(place, "{} is also the name of a value in an enclosing graph", value.name);
    check_uses(value, place);
  }

  void check_uses(const Value& value, const Place& place) {
    std::size_t right = 0;
    for (const Use& use : value.uses()) {
      if (nodes_.contains(use.node) && use.node->input(use.index) == &value) ++right;
      else report(place, "{} has a use that is not one (input {} of another node)", value.name, use.index);
    }
    const auto it = use_counts_.find(&value);
    const std::size_t real = it == use_counts_.end() ? 0 : it->second;
    if (right != real) report(place, "{} is read {} times, but records {} uses", value.name, real, right);
  }

  void check_initializer(const Value* v, Scope& scope, const Place& place) {
    if (!v) return report(place, "an initializer is missing");
    if (!v->data()) return report(place, "initializer {} has no data", v->name);
    if (v->producer()) report(place, "initializer {} has a producer", v->name);
    check_data(*v, place);
    if (!(v->is_graph_input() && scope.defined.contains(v))) define(*v, scope, place);
  }

  void check_data(const Value& v, const Place& place) {
    const TensorData& data = *v.data();
    const Shape dims(data.dims().begin(), data.dims().end());
    if (!agree(v.type, {.dtype = data.dtype(), .shape = dims}))
      report(place, "{} is {}, but its data is {}", v.name, to_string(v.type), to_string({.dtype = data.dtype(), .shape = dims}));
  }

  static bool is_visible(const Value& value, const Scope& scope) {
    for (const Scope* s = &scope; s; s = s->outer)
      if (s->defined.contains(&value)) return true;
    return false;
  }

  // Two statements about one value: what both say must be equal. Symbols may be resolved by numbers.
  static bool agree(const Type& a, const Type& b) {
    if (!a.is_known() || !b.is_known()) return true;
    if (a.kind != b.kind || a.dtype != b.dtype) return false;
    if (a.element && b.element && !agree(*a.element, *b.element)) return false;
    if (!a.shape || !b.shape) return true;
    if (a.shape->size() != b.shape->size()) return false;
    for (std::size_t i = 0; i < a.shape->size(); ++i) {
      const Dim &x = (*a.shape)[i], &y = (*b.shape)[i];
      if (x.is_static() && y.is_static() && x.value() != y.value()) return false;
    }
    return true;
  }

  void check_outputs(const Graph& graph, const Scope& scope, const Place& place) {
    std::unordered_set<const Value*> seen;
    for (const Value* v : graph.outputs()) {
      if (!v) {
        report(place, "an output is missing");
        continue;
      }
      if (!seen.insert(v).second) report(place, "{} is an output twice", v->name);
      if (!v->is_graph_output()) report(place, "output {} does not know that it is one", v->name);
      if (scope.defined.contains(v)) continue;
      if (is_visible(*v, scope)) report(place, "output {} is a value of an enclosing graph; a subgraph returns its own values", v->name);
      else report(place, "nothing defines output {}", v->name);
    }
  }

  // ── nodes ──────────────────────────────────────────────────────────────────────────────────────────────────────────────

  void check_node(const Node& node, Scope& scope, const Place& place, const Opsets& opsets, bool is_function) {
    const Place at{&place, nullptr, &node};
    if (&node.graph() != &scope.graph) report(at, "belongs to another graph");
    if (node.op.type.empty()) report(at, "has no operator");
    if (!opsets.empty() && !opsets.contains(node.op.domain)) report(at, "the operator domain \"{}\" is not imported", node.op.domain);
    for (std::size_t i = 0; i < node.inputs().size(); ++i)
      if (const Value* v = node.inputs()[i]; v && !is_visible(*v, scope))
        report(at, "input {} ({}) is {}", i, v->name,
               v->graph() == &scope.graph && v->producer() ? "read before the node that produces it" : "not defined here");
    for (const auto& [name, attribute] : node.attributes) check_attribute(attribute, {&at, nullptr, nullptr, name}, scope, opsets, is_function);
    for (std::size_t i = 0; i < node.outputs().size(); ++i) {
      const Value* v = node.outputs()[i];
      if (!v) continue;
      if (v->producer() != &node || v->index() != i) report(at, "output {} ({}) names another producer", i, v->name);
      if (v->is_graph_input()) report(at, "output {} ({}) is an input of the graph", i, v->name);
      define(*v, scope, at);
      if (v->data()) check_data(*v, at);
    }
    if (node.is("If")) check_branches(node, at);
  }

  void check_attribute(const Attribute& attribute, const Place& at, const Scope& scope, const Opsets& opsets, bool is_function) {
    if (std::holds_alternative<AttributeReference>(attribute) && !is_function) report(at, "refers to an attribute of a function, outside of one");
    if (const auto* tensor = std::get_if<TensorPtr>(&attribute); tensor && !*tensor) report(at, "holds no tensor");
    if (const auto* tensors = std::get_if<std::vector<TensorPtr>>(&attribute); tensors && std::ranges::count(*tensors, nullptr) > 0)
      report(at, "holds no tensor");
    const auto inner = [&](const GraphPtr& graph) {
      if (graph) check_graph(*graph, at, &scope, opsets, is_function);
      else report(at, "holds no graph");
    };
    if (const auto* graph = std::get_if<GraphPtr>(&attribute)) inner(*graph);
    if (const auto* graphs = std::get_if<std::vector<GraphPtr>>(&attribute)) std::ranges::for_each(*graphs, inner);
  }

  // Both branches of If give what the node gives.
  void check_branches(const Node& node, const Place& at) {
    for (const auto& [name, attribute] : node.attributes) {
      const auto* branch = std::get_if<GraphPtr>(&attribute);
      if (!branch || !*branch) continue;
      const auto& results = (*branch)->outputs();
      if (results.size() != node.outputs().size()) {
        report(at, "{} gives {} values, the node {}", name, results.size(), node.outputs().size());
        continue;
      }
      for (std::size_t i = 0; i < results.size(); ++i) {
        const Value* v = node.outputs()[i];
        if (!v || !results[i] || !v->type.is_known() || !results[i]->type.is_known()) continue;
        if (v->type.kind != results[i]->type.kind || v->dtype() != results[i]->dtype())
          report(at, "{} is {}, but {} gives {}", v->name, to_string(v->type), name, to_string(results[i]->type));
      }
    }
  }

  static constexpr std::size_t max_findings = 100;

  const Model& model_;
  std::vector<std::string> findings_;
  std::unordered_set<const Node*> nodes_;
  std::unordered_map<const Value*, std::size_t> use_counts_;
};

}  // namespace

std::vector<std::string> verify(const Model& model) {
  if (!model.graph) return {"the model has no graph"};
  return Verifier(model).run();
}

}  // namespace mobius::ir
