// Wrong changes to a rule's right-hand side, to see that the judge notices them.
#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "mobius/base/error.hpp"
#include "mobius/ops/infer.hpp"
#include "mobius/rewrite/disprove.hpp"
#include "mobius/rewrite/matcher.hpp"
#include "mobius/rewrite/operators.hpp"

namespace mobius::rewrite {
namespace {

// Operators that are easily taken for each other.
constexpr std::array<std::pair<std::string_view, std::string_view>, 9> look_alikes = {{{"Add", "Sub"},
                                                                                       {"Mul", "Div"},
                                                                                       {"Min", "Max"},
                                                                                       {"And", "Or"},
                                                                                       {"Less", "LessOrEqual"},
                                                                                       {"Greater", "GreaterOrEqual"},
                                                                                       {"Sin", "Cos"},
                                                                                       {"Sigmoid", "Tanh"},
                                                                                       {"ReduceMean", "ReduceSum"}}};

std::string_view look_alike(ir::OpName op) {
  for (const auto& [a, b] : look_alikes) {
    if (op.type == a) return b;
    if (op.type == b) return a;
  }
  return {};
}

template <class T>
std::vector<T> changed_list(std::vector<T> list) {
  const auto n = list.size();
  if (n >= 2 && list[n - 1] != list[n - 2]) std::swap(list[n - 1], list[n - 2]);
  else if (n >= 1) list[n - 1] += 1;
  return list;
}

// Doubles are not rounded, and no shape has zeros: these attributes change nothing here.
bool says_nothing_here(std::string_view attribute) { return attribute == "stash_type" || attribute == "saturate" || attribute == "allowzero"; }

std::optional<ir::Attribute> changed(const ir::Attribute& a) {
  if (const auto* n = std::get_if<std::int64_t>(&a)) return ir::Attribute{*n == 1 ? std::int64_t{0} : *n + 1};
  if (const auto* f = std::get_if<float>(&a)) return ir::Attribute{*f == 0 ? 0.5f : *f * 1.5f};
  if (const auto* s = std::get_if<std::string>(&a)) return ir::Attribute{std::string(*s == "tanh" ? "none" : "tanh")};
  if (const auto* l = std::get_if<std::vector<std::int64_t>>(&a)) return ir::Attribute{changed_list(*l)};
  if (const auto* l = std::get_if<std::vector<float>>(&a)) return ir::Attribute{changed_list(*l)};
  return std::nullopt;
}

ir::TensorPtr changed(const ir::TensorData& data) {
  if (ir::is_floating_point(data.dtype())) {
    auto list = ir::as_doubles(data);
    if (!list) return nullptr;
    for (auto& v : *list) v = std::isfinite(v) ? v * 2 + 1 : 0;
    return ir::make_tensor_of(data.dtype(), data.dims(), *list);
  }
  const auto list = ir::as_integers(data);
  if (!list || list->empty()) return nullptr;
  auto other = *list;
  if (data.dtype() == ir::DataType::boolean) other[0] = 1 - other[0];
  else if (other.size() == 1 && other[0] == INT64_MAX) other[0] = -1;
  else other.back() += 1;
  const std::vector<double> values(other.begin(), other.end());
  return ir::make_tensor_of(data.dtype(), data.dims(), values);
}

// The default of a permutation.
std::optional<ir::Attribute> reversed(const ir::Attribute& perm) {
  auto list = std::get<std::vector<std::int64_t>>(perm);
  std::ranges::sort(list, std::greater());
  return ir::Attribute{list};
}

class Mutations {
 public:
  Mutations(ir::Graph& graph, std::vector<Mutation>& out) : graph_(graph), out_(out) {}

  void of(ir::Node* node, const std::string& name) {
    node_ = node;
    name_ = name;
    attributes();
    missing_attributes();
    operands();
    left_out();
    if (const auto other = look_alike(node->op); !other.empty() && node->op.domain.empty())
      add(fmt::format("is {}", other), [node, other] { node->op.type = other; });
  }

 private:
  void add(const std::string& what, std::function<void()> make) { out_.push_back({name_ + ": " + what, std::move(make)}); }

  void attributes() {
    for (const auto& [name, value] : node_->attributes) {
      if (says_nothing_here(name)) continue;
      auto* node = node_;
      if (auto other = changed(value)) add("attribute " + name + " changed", [=, key = name] { node->attributes[key] = *other; });
      const auto* tensor = std::get_if<ir::TensorPtr>(&value);
      if (auto other = tensor ? changed(**tensor) : nullptr; other) add("attribute " + name + " changed", [=, key = name] { node->attributes[key] = other; });
      const auto otherwise = name == "perm" ? reversed(value) : attribute_default(node->op, name);
      if (!tensor && (!otherwise || !ir::equal(*otherwise, value))) add("attribute " + name + " left out", [=, key = name] { node->attributes.erase(key); });
    }
  }

  // An attribute that is not there is given another value than its default; not one that says nothing without another operand.
  void missing_attributes() {
    constexpr std::array<std::string_view, 7> idle = {"transBatchA",        "transBatchB",          "qk_output",           "qk_matmul_output_mode",
                                                      "rotary_interleaved", "noop_with_empty_axes", "sliding_window_cache"};
    for (const auto& [name, value] : attribute_defaults(node_->op))
      if (!node_->attributes.contains(name) && !says_nothing_here(name) && !(name == "beta" && !node_->input(2)) && std::ranges::find(idle, name) == idle.end())
        if (auto other = changed(value)) add("attribute " + name + " set", [node = node_, key = name, other] { node->attributes[key] = *other; });
  }

  // The first operand goes on unchanged.
  void left_out() {
    if (node_->inputs().empty() || !node_->input(0) || node_->is("Identity")) return;
    add("left out", [node = node_] {
      node->op = {"", "Identity"};
      node->attributes.clear();
      node->resize_inputs(1);
    });
  }

  void operands() {
    auto* node = node_;
    for (std::size_t i = 0; i < node->inputs().size(); ++i) {
      auto* v = node->input(i);
      if (!v) continue;
      if (i > 0) add(fmt::format("operand {} left out", i), [=] { node->set_input(i, nullptr); });
      if (auto other = v->data() ? changed(*v->data()) : nullptr; other)
        add(fmt::format("constant operand {} changed", i), [=, &graph = graph_] {
          // A function's body holds constants as nodes.
          node->set_input(i, v->producer() ? constant_node(graph, node, other) : graph.add_initializer(graph.unique_name("mutant"), other));
        });
      auto* w = node->input(i + 1);
      if (w && w != v && !(is_commutative(node->op) && node->inputs().size() == 2))
        add(fmt::format("operands {} and {} swapped", i, i + 1), [=] {
          node->set_input(i, w);
          node->set_input(i + 1, v);
        });
    }
  }

  static ir::Value* constant_node(ir::Graph& graph, ir::Node* before, const ir::TensorPtr& data) {
    auto* v = graph.insert(before, {"", "Constant"}, {}, {{"value", data}})->output();
    v->set_data(data);
    return v;
  }

  ir::Graph& graph_;
  std::vector<Mutation>& out_;
  ir::Node* node_ = nullptr;
  std::string name_;
};

// The results of a replacement can be wrong too: each is another value of those at hand.
struct WrongResult {
  std::string what;
  std::size_t result;
  ir::Value* instead;
};
std::vector<WrongResult> wrong_results(const std::vector<ir::Value*>& results, const Match& match) {
  std::vector<WrongResult> out;
  for (std::size_t i = 0; i < results.size(); ++i) {
    auto* r = results[i];
    if (!r) continue;
    for (std::size_t k = 0; k < results.size(); ++k)
      if (results[k] && results[k] != r) out.push_back({fmt::format("result {} is that of {}", i, k), i, results[k]});
    if (std::ranges::none_of(match.variables, [&](const auto& e) { return e.second == r; })) continue;
    for (const auto& [p, v] : match.variables)  // nothing is inserted: one operand is handed on
      if (v != r && p->kind == PatNode::Kind::variable) out.push_back({fmt::format("result {} is {}", i, p->name), i, v});
  }
  return out;
}

// Types were inferred for what the nodes were before. What can't be typed any more is left to the interpreter to refuse.
void infer_again(const std::vector<ir::Node*>& nodes) {
  for (auto* n : nodes) {
    for (auto* o : n->outputs())
      if (o) o->type.shape.reset();
    try {
      ops::TypeInference().infer(*n);
    } catch (const Error&) {
    }
  }
}

}  // namespace

std::vector<Mutation> mutations_of(ir::Graph& graph, const std::vector<ir::Node*>& nodes) {
  std::vector<Mutation> out;
  Mutations mutations(graph, out);
  std::map<std::string, int> count;
  for (auto* n : nodes) {
    const std::string type(n->op.type);
    mutations.of(n, fmt::format("{} {}", type, ++count[type]));
  }
  return out;
}

Rule mutant(const Rule& rule, std::string_view what) {
  Rule wrong = rule;
  wrong.to.clear();
  wrong.make = [rule, what = std::string(what)](Inserter& at, const Match& match, const Target& target) {
    auto results = replacement(rule, at, match, target);
    const auto nodes = at.added();
    for (const auto& m : mutations_of(at.graph(), nodes))
      if (m.what == what) {
        m.make();
        infer_again(nodes);
        break;
      }
    for (const auto& w : wrong_results(results, match))
      if (w.what == what) {
        results[w.result] = w.instead;
        break;
      }
    return results;
  };
  return wrong;
}

std::vector<std::string> mutations_of(const Rule& rule, const std::vector<Example>& examples) {
  std::set<std::string> seen;
  std::vector<std::string> found;
  Rule spy = rule;
  spy.to.clear();
  spy.make = [&](Inserter& at, const Match& match, const Target& target) {
    auto results = replacement(rule, at, match, target);
    const auto note = [&](const std::string& what) {
      if (seen.insert(what).second) found.push_back(what);
    };
    for (const auto& m : mutations_of(at.graph(), at.added())) note(m.what);
    for (const auto& w : wrong_results(results, match)) note(w.what);
    return results;
  };
  disprove({spy}, examples);  // applied to everything; what is wrong with the rule itself is not asked here
  std::ranges::sort(found);
  return found;
}

}  // namespace mobius::rewrite
