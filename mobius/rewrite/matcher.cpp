// Proof search over goals "this pattern is that value". Bindings are undone along a trail when a branch fails.
#include "mobius/rewrite/matcher.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "mobius/base/error.hpp"
#include "mobius/rewrite/body.hpp"
#include "mobius/rewrite/operators.hpp"

namespace mobius::rewrite {
namespace {

struct Goal {
  const PatNode* pattern;
  std::size_t output;
  ir::Value* value;
  const ir::Node* user;  // whose operand it is, for messages
};

bool close(double a, double b) { return std::abs(a - b) <= 1e-5 * std::max(std::abs(a), std::abs(b)); }

// A narrow type holds the nearest number that it has: 0.7071 in float16 is off by more than the tolerance.
bool stands_for(const ir::TensorData& constant, double number, double literal) {
  if (close(number, literal)) return true;
  const auto type = constant.dtype();
  if (type != ir::DataType::float16 && type != ir::DataType::bfloat16) return false;
  const auto held = ir::as_scalar(*ir::make_scalar(type, literal));
  return held && *held != 0 && *held == number;
}

// Whether a constant with one element gives its operator's result axes that no other operand has: x[4] * c[1,1] is no plain scaling,
// and an index of one element keeps an axis that a scalar takes away.
bool adds_axes(const ir::Value* constant, const ir::Node* user) {
  const auto rank = constant->data()->dims().size();
  if (rank == 0 || !user) return false;
  if (!is_broadcasting(user->op)) return true;
  return std::ranges::none_of(user->inputs(), [&](const auto* v) { return v && v != constant && v->rank().value_or(0) >= rank; });
}

// What an attribute that the node leaves out means. A Transpose without perm reverses the axes.
std::optional<ir::Attribute> default_of(const ir::Node& node, std::string_view attribute) {
  if (!node.is("Transpose") || attribute != "perm" || !node.input(0) || !node.input(0)->rank()) return attribute_default(node.op, attribute);
  std::vector<std::int64_t> reversed(*node.input(0)->rank());
  std::iota(reversed.rbegin(), reversed.rend(), 0);
  return ir::Attribute{std::move(reversed)};
}

class Solver {
 public:
  Solver(const Rule& rule, const Target& target, Miss& miss) : rule_(rule), target_(target), miss_(miss) {}

  bool solve(std::vector<Goal> goals) {
    if (goals.empty()) return accept();
    const auto goal = goals.back();
    goals.pop_back();
    if (!goal.pattern) return !goal.value ? solve(std::move(goals)) : fail_at(goal, "an operand that the pattern leaves out");
    if (!goal.value) return fail_at(goal, "an operand is missing");
    switch (goal.pattern->kind) {
      case PatNode::Kind::variable: return variable(goal, std::move(goals));
      case PatNode::Kind::literal: return literal(goal, std::move(goals));
      case PatNode::Kind::integers: return integers(goal, std::move(goals));
      case PatNode::Kind::scalar: return scalar(goal, std::move(goals));
      case PatNode::Kind::either: return either(goal, goals);
      case PatNode::Kind::op: return op(goal, goals);
    }
    return false;
  }

  Match found;

 private:
  // ── leaves ──
  bool variable(const Goal& g, std::vector<Goal> rest) {
    const auto [it, fresh] = found.variables.try_emplace(g.pattern, g.value);
    if (!fresh && it->second != g.value) return fail_at(g, [&] { return "'" + g.pattern->name + "' is two different values"; });
    if (solve(std::move(rest))) return true;
    if (fresh) found.variables.erase(g.pattern);
    return false;
  }

  bool literal(const Goal& g, std::vector<Goal> rest) {
    const auto number = g.value->data() ? ir::as_scalar(*g.value->data()) : std::nullopt;
    if (!number || !stands_for(*g.value->data(), *number, g.pattern->literal))
      return fail_at(g, [&] { return fmt::format("expected the constant {}", g.pattern->literal); });
    if (adds_axes(g.value, g.user)) return fail_at(g, g.value->name + " adds axes");
    return solve(std::move(rest));
  }

  bool integers(const Goal& g, std::vector<Goal> rest) {
    const auto list = g.value->data() ? ir::as_integers(*g.value->data()) : std::nullopt;
    if (!list || g.value->data()->dims().size() != 1 || *list != g.pattern->integers) return fail_at(g, "another list of integers than expected");
    return solve(std::move(rest));
  }

  bool scalar(const Goal& g, std::vector<Goal> rest) {
    const auto number = g.value->data() ? ir::as_scalar(*g.value->data()) : std::nullopt;
    if (!number) return fail_at(g, [&] { return "'" + g.pattern->name + "' is not a scalar constant"; });
    if (adds_axes(g.value, g.user)) return fail_at(g, g.value->name + " adds axes");
    const bool is_integer = std::holds_alternative<std::int64_t>(g.pattern->scalar_kind);
    if (is_integer && *number != std::floor(*number)) return fail_at(g, "'" + g.pattern->name + "' is not an integer");
    const auto value = is_integer ? ir::Attribute{static_cast<std::int64_t>(*number)} : ir::Attribute{static_cast<float>(*number)};
    return bind(g, g.pattern->name, value, std::move(rest));
  }

  bool bind(const Goal& g, const std::string& name, ir::Attribute value, std::vector<Goal> rest) {
    const auto [it, fresh] = found.attributes.try_emplace(name, value);
    if (!fresh && !ir::equal(it->second, value)) return fail_at(g, "'" + name + "' has two different values");
    if (solve(std::move(rest))) return true;
    if (fresh) found.attributes.erase(name);
    return false;
  }

  bool either(const Goal& g, const std::vector<Goal>& rest) {
    const auto [bound, fresh] = found.variables.try_emplace(g.pattern, g.value);
    if (!fresh && bound->second != g.value) return fail_at(g, "alternatives that are one value in the pattern are two");
    for (const auto& alternative : g.pattern->args) {
      auto next = rest;
      next.push_back({alternative.node.get(), alternative.output, g.value, g.user});
      if (solve(std::move(next))) return true;
    }
    if (fresh) found.variables.erase(g.pattern);
    return false;
  }

  // ── operators ──
  bool op(const Goal& g, const std::vector<Goal>& rest) {
    auto* node = g.value->producer();
    if (!node || node->op != g.pattern->op || g.value->index() != g.output)
      return fail_at(g, [&] { return "no " + ir::to_string(g.pattern->op) + " before it"; });
    if (const auto it = found.nodes.find(g.pattern); it != found.nodes.end())
      return it->second == node ? solve(rest) : fail_at(g, "the same part of the pattern is two different nodes");

    std::vector<std::string> bound;
    found.nodes.emplace(g.pattern, node);
    const bool ok = g.pattern->any_form ? solve(rest) : attributes(g, *node, bound) && operands(g, *node, rest);
    if (ok) return true;
    found.nodes.erase(g.pattern);
    for (const auto& name : bound) found.attributes.erase(name);
    return false;
  }

  bool attributes(const Goal& g, const ir::Node& node, std::vector<std::string>& bound) {
    for (const auto& [name, spec] : g.pattern->attrs) {
      const auto* given = node.attribute(name);
      auto value = given ? std::optional(*given) : spec.fallback ? spec.fallback : default_of(node, name);
      if (!value) return fail_at(g, "attribute " + name + " is missing");
      if (spec.equals) {
        if (!ir::equal(*spec.equals, *value)) return fail_at(g, "attribute " + name + " has another value");
        continue;
      }
      const auto [it, fresh] = found.attributes.try_emplace(spec.var, *value);
      if (fresh) bound.push_back(spec.var);
      else if (!ir::equal(it->second, *value)) return fail_at(g, "'" + spec.var + "' has two different values");
    }
    for (const auto& [name, value] : node.attributes) {
      if (g.pattern->attrs.contains(name)) continue;
      const auto otherwise = attribute_default(node.op, name);
      if (!otherwise || !ir::equal(*otherwise, value)) return fail_at(g, "attribute " + name + " is set");
    }
    return true;
  }

  bool operands(const Goal& g, const ir::Node& node, const std::vector<Goal>& rest) {
    const auto& args = g.pattern->args;
    for (std::size_t i = args.size(); i < node.inputs().size(); ++i)
      if (node.input(i)) return fail_at(g, "an operand that the pattern leaves out");
    const auto try_order = [&](bool swapped) {
      auto next = rest;
      for (std::size_t i = args.size(); i-- > 0;) {  // the first operand is proven first
        const auto& a = args[swapped ? 1 - i : i];
        next.push_back({a.node.get(), a.output, node.input(i), &node});
      }
      return solve(std::move(next));
    };
    if (try_order(false)) return true;
    return args.size() == 2 && is_commutative(g.pattern->op) && try_order(true);
  }

  // ── the whole ──
  bool accept() {
    for (const auto& condition : rule_.where)
      if (auto why = condition.why_not(found, target_)) return fail(found.node(rule_.from[0]), *why);
    std::vector<const ir::Value*> exposed;
    for (const auto& p : rule_.from)
      if (found.has(p)) exposed.push_back(found[p]);
    std::vector<const ir::Node*> matched;
    for (const auto& [p, n] : found.nodes) matched.push_back(n);
    for (const auto& [p, n] : found.nodes)
      for (const auto* o : n->outputs()) {
        if (!o || std::ranges::find(exposed, o) != exposed.end()) continue;
        if (o->is_graph_output()) return fail(n, o->name + " is a graph output");
        if (is_made_of_constants(*n)) continue;  // it costs nothing at run time, and stays for the others
        for (const auto& use : o->uses())
          if (std::ranges::find(matched, use.node) == matched.end()) return fail(n, o->name + " has another user: " + scope_of_call(*use.node));
      }
    return true;
  }

  static bool is_made_of_constants(const ir::Node& n) {
    return std::ranges::all_of(n.inputs(), [](const auto* v) { return !v || v->data(); });
  }

  // Most failures are not the nearest one: a reason is put into words only where it may be. It is text, or a function that makes it.
  template <class Reason>
  bool fail_at(const Goal& g, Reason&& reason) {
    return fail(g.user ? g.user : (g.value ? g.value->producer() : nullptr), std::forward<Reason>(reason));
  }
  template <class Reason>
  bool fail(const ir::Node* place, Reason&& reason) {
    const auto depth = found.nodes.size() + found.variables.size() + found.attributes.size();
    if (found.nodes.empty() || depth < miss_.depth || (depth == miss_.depth && !miss_.reason.empty())) return false;
    std::string text;
    if constexpr (std::is_invocable_v<Reason>) text = reason();
    else text = std::forward<Reason>(reason);
    miss_ = {depth, (place ? scope_of_call(*place) + ": " : "") + text};
    return false;
  }

  const Rule& rule_;
  const Target& target_;
  Miss& miss_;
};

}  // namespace

std::optional<Match> match(const Rule& rule, ir::Value* value, const Target& target, Miss& miss) {
  Solver solver(rule, target, miss);
  const auto& root = rule.from[0];
  if (!solver.solve({{root.get(), root.output, value, nullptr}})) return std::nullopt;
  return std::move(solver.found);
}

}  // namespace mobius::rewrite
