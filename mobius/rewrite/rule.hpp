// Rule and Match: see pattern.hpp for how a pattern is written.
//
//   const RuleReport report = apply(rule, graph, {.ep = get_ep("cuda"), .dtype = DataType::float16, .role = "decoder"});
//   report.applied                                             // how often
//   report.removed                                             // nodes
#pragma once
#include <any>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "mobius/ep/capabilities.hpp"
#include "mobius/ops/infer.hpp"
#include "mobius/rewrite/pattern.hpp"

namespace mobius::rewrite {

// Which batches a decoder graph takes. GroupQueryAttention counts the tokens of a row, so rows may be padded on the right only;
// `any` keeps to forms that read the whole mask.
enum class Padding { right, any };

// What a graph is optimised for.
struct Target {
  const EpCapabilities& ep;
  ir::DataType dtype;
  std::string role;  // "decoder", "vision", "embedding", "encoder"
  std::int64_t opset = 24;
  Padding padding = Padding::right;

  // What conditions found out about values, kept for the other matches of the same application of a rule (a mask serves all layers).
  template <class T, class F>
  const T& remembered(const ir::Value* about, F&& find_out) const {
    auto& slot = (*memory)[about];
    if (!slot.has_value()) slot = T(find_out());
    return std::any_cast<const T&>(slot);
  }
  std::shared_ptr<std::map<const ir::Value*, std::any>> memory = std::make_shared<std::map<const ir::Value*, std::any>>();  // looked up only
};

// What a pattern's parts were found to be.
class Match {
 public:
  ir::Value* operator[](const Pat& p) const;  // the matched value
  ir::Value* value(const Pat& p) const { return (*this)[p]; }
  ir::Node* node(const Pat& p) const;  // of an operator pattern; nullptr when that alternative did not match
  bool has(const Pat& p) const;
  template <class V>
  std::optional<V> attribute(const AttrVar<V>& a) const {
    const auto it = attributes.find(a.name);
    const auto* v = it == attributes.end() ? nullptr : std::get_if<V>(&it->second);
    return v ? std::optional(*v) : std::nullopt;
  }

  std::map<const PatNode*, ir::Value*> variables;  // looked up only
  std::map<const PatNode*, ir::Node*> nodes;
  std::map<std::string, ir::Attribute> attributes;
};

// A condition on a match: nothing, or why not ("operands have shapes [B, S, 64] and [64]").
struct Condition {
  std::function<std::optional<std::string>(const Match&, const Target&)> why_not;
};
Condition same_shape(const Pat& a, const Pat& b);
Condition is_constant(const Pat& a);
Condition has_rank(const Pat& a, std::size_t rank);
Condition require(std::string what, std::function<bool(const Match&)> holds);

// Makes the replacement by hand, for rules that compute: gets a place to insert nodes, returns one value per `from`.
class Inserter;
using Make = std::function<std::vector<ir::Value*>(Inserter&, const Match&, const Target&)>;

struct Rule {
  std::string name;
  std::vector<Pat> from;     // from[0] is the root; all of them may have other users
  std::vector<Pat> to = {};  // one per `from`
  std::vector<Condition> where = {};
  std::function<bool(const Target&)> when = {};  // absent: always
  Make make = {};                                // instead of `to`
};

// Inserts nodes at the place of a match, named after it and with inferred types.
class Inserter {
 public:
  Inserter(ir::Graph& graph, ir::Node* before, std::string scope) : graph_(graph), before_(before), scope_(std::move(scope)) {}
  ir::Graph& graph() { return graph_; }
  // Operands that contradict an operator leave its results without types, instead of being an Error: for nodes that others wrote.
  void allow_contradictions() { strict_ = false; }
  std::vector<ir::Value*> add(ir::OpName op, std::vector<ir::Value*> inputs, ir::Attributes attributes = {}, std::size_t results = 1);
  ir::Value* constant(ir::TensorPtr data, std::string_view hint = "constant");
  // One result; an equal node that is already there before this place is taken instead of a second one.
  ir::Value* shared(ir::OpName op, std::vector<ir::Value*> inputs, ir::Attributes attributes = {});
  ir::Value* shared_constant(const ir::TensorPtr& data, const char* hint);  // a small one; an equal one that is there already is taken
  ir::Value* integers(const std::vector<std::int64_t>& values);             // int64 [n], likewise
  ir::Value* number(ir::DataType dtype, double value);                      // a scalar, likewise
  // Every use of `from` becomes one of `to`, which learns what the type of `from` says more. The interface keeps its names.
  void redirect(ir::Value* from, ir::Value* to);
  const std::vector<ir::Node*>& added() const { return added_; }

 private:
  std::vector<ir::Value*> add_in(const std::string& scope, ir::OpName op, std::vector<ir::Value*> inputs, ir::Attributes attributes, std::size_t results);

  ir::Graph& graph_;
  ir::Node* before_;
  std::string scope_;
  bool strict_ = true;
  ops::TypeInference inference_;  // one for all nodes: shapes that they compute stay symbolic
  std::vector<ir::Node*> added_;
};

// What a rule did to a graph.
struct RuleReport {
  std::string rule;
  std::size_t applied = 0, added = 0, removed = 0;    // times applied; nodes
  std::map<std::string, std::int64_t> change_per_op;  // op name -> node count delta
  std::string nearest_miss;                           // "place: reason" of the attempt that got furthest, of those that were still there at the end
  std::size_t nearest_depth = 0;
};

// Applies a rule wherever it matches, in the graph and its subgraphs, until it matches nowhere.
RuleReport apply(const Rule& rule, ir::Graph& graph, const Target& target);

// Rules that belong together: one line of the trace.
struct RuleGroup {
  std::string name;
  std::vector<Rule> rules;      // applied one after the other
  std::vector<Rule> then = {};  // go on with what the rules made (rope into attention); not counted as applications of their own

  bool applies_to(const Target& target) const;  // false: no rule of it is for this target
};
RuleReport apply(const RuleGroup& group, ir::Graph& graph, const Target& target);

}  // namespace mobius::rewrite
