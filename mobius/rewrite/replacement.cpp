// The right-hand side of a rule, written into a graph.
#include <algorithm>

#include "mobius/base/error.hpp"
#include "mobius/rewrite/body.hpp"
#include "mobius/rewrite/matcher.hpp"
#include "mobius/rewrite/operators.hpp"

namespace mobius::rewrite {

// ── inserting ────────────────────────────────────────────────────────────────────────────────────────────────────────────

std::vector<ir::Value*> Inserter::add(ir::OpName op, std::vector<ir::Value*> inputs, ir::Attributes attributes, std::size_t results) {
  while (!inputs.empty() && !inputs.back()) inputs.pop_back();
  return add_in(scope_, op, std::move(inputs), std::move(attributes), results);
}

std::vector<ir::Value*> Inserter::add_in(const std::string& scope, ir::OpName op, std::vector<ir::Value*> inputs, ir::Attributes attributes,
                                         std::size_t results) {
  auto* node = graph_.insert(before_, op, inputs, std::move(attributes), results);
  node->name = graph_.unique_name(scope.empty() ? std::string(op.type) : scope + "/" + std::string(op.type));
  for (auto* o : node->outputs()) graph_.rename(o, o->index() == 0 ? node->name : graph_.unique_name(node->name + ":" + std::to_string(o->index())));
  try {
    inference_.infer(*node);
  } catch (const Error&) {
    if (strict_) throw;
  }
  added_.push_back(node);
  return node->outputs();
}

ir::Value* Inserter::constant(ir::TensorPtr data, std::string_view hint) { return graph_.add_initializer(graph_.unique_name(hint), std::move(data)); }

static bool equal(const ir::Attributes& a, const ir::Attributes& b) {
  return std::ranges::equal(a, b, [](const auto& x, const auto& y) { return x.first == y.first && ir::equal(x.second, y.second); });
}

ir::Value* Inserter::shared(ir::OpName op, std::vector<ir::Value*> inputs, ir::Attributes attributes) {
  for (const auto& use : inputs.at(0)->uses()) {
    auto* n = use.node;
    if (&n->graph() != &graph_ || n->op != op || n->inputs() != inputs || !equal(n->attributes, attributes) || n->outputs().size() != 1) continue;
    if (n == before_ || graph_.precedes(n, before_)) return n->output();
  }
  // Named after what it is made of, not after the first place that asked for it.
  const auto& source = *inputs[0];
  const auto slash = source.name.rfind('/');
  return add_in(source.producer() && slash != std::string::npos ? source.name.substr(0, slash) : source.name, op, std::move(inputs), std::move(attributes),
                1)[0];
}

ir::Value* Inserter::shared_constant(const ir::TensorPtr& data, const char* hint) {
  for (auto* v : graph_.initializers())
    if (v->dtype() == data->dtype() && v->data()->dims() == data->dims() && v->data()->in_memory().size() == data->byte_size() &&
        v->data()->bytes() == data->bytes())
      return v;
  return constant(data, hint);
}

ir::Value* Inserter::integers(const std::vector<std::int64_t>& values) {
  return shared_constant(ir::make_tensor({static_cast<std::int64_t>(values.size())}, values), "integers");
}
ir::Value* Inserter::number(ir::DataType dtype, double value) { return shared_constant(ir::make_scalar(dtype, value), "constant"); }

void Inserter::redirect(ir::Value* from, ir::Value* to) {
  if (from == to) return;
  if (to->producer()) to->type = from->is_graph_output() ? joined(from->type, to->type) : joined(to->type, from->type);
  const bool interface = to->is_graph_input() || to->is_graph_output() || to->is_initializer() || to->graph() != from->graph();
  if (from->is_graph_output() && interface) to = add({"", "Identity"}, {to})[0];
  from->graph()->replace_all_uses(from, to);
}

namespace {

double number(const ir::Attribute& a) {
  if (const auto* f = std::get_if<float>(&a)) return static_cast<double>(*f);
  const auto* n = std::get_if<std::int64_t>(&a);
  expect(n != nullptr, "only a number can become a constant");
  return static_cast<double>(*n);
}

class Instantiate {
 public:
  Instantiate(Inserter& at, const Match& match) : at_(at), match_(match) {}

  ir::Value* operator()(const PatNode* p, std::size_t output, ir::DataType dtype) {
    if (!p) return nullptr;
    switch (p->kind) {
      case PatNode::Kind::variable: return match_.variables.at(p);
      case PatNode::Kind::literal: return at_.constant(ir::make_scalar(dtype, p->literal));
      case PatNode::Kind::integers: return at_.constant(ir::make_tensor({static_cast<std::int64_t>(p->integers.size())}, p->integers), "integers");
      case PatNode::Kind::scalar: return at_.constant(ir::make_scalar(dtype, number(match_.attributes.at(p->name))));
      case PatNode::Kind::either: return either(*p, dtype);
      case PatNode::Kind::op: break;
    }
    auto& made = made_[p];
    if (made.empty()) made = op(*p, dtype);
    return made[output];
  }

 private:
  // What the pattern found, or its first alternative when the left side has no such part.
  ir::Value* either(const PatNode& p, ir::DataType dtype) {
    const auto found = match_.variables.find(&p);
    return found != match_.variables.end() ? found->second : (*this)(p.args[0].node.get(), p.args[0].output, dtype);
  }

  std::vector<ir::Value*> op(const PatNode& p, ir::DataType dtype) {
    std::vector<ir::Value*> in(p.args.size(), nullptr);
    // Numbers take the type of the operands beside them, so those come first.
    for (const bool numbers : {false, true})
      for (std::size_t i = 0; i < in.size(); ++i)
        if (const auto* a = p.args[i].node.get(); a && a->is_number() == numbers)
          in[i] = (*this)(a, p.args[i].output, numbers ? number_type(p.op, i, in, dtype) : dtype);
    ir::Attributes attributes;
    for (const auto& [name, spec] : p.attrs) {
      const auto bound = match_.attributes.find(spec.var);
      const auto* value = spec.equals ? &*spec.equals : bound != match_.attributes.end() ? &bound->second : nullptr;
      const auto otherwise = attribute_default(p.op, name);
      if (value && !(otherwise && ir::equal(*value, *otherwise))) attributes[name] = *value;
    }
    return at_.add(p.op, std::move(in), std::move(attributes), p.results);
  }

  Inserter& at_;
  const Match& match_;
  std::map<const PatNode*, std::vector<ir::Value*>> made_;  // looked up only
};

}  // namespace

std::vector<ir::Value*> replacement(const Rule& rule, Inserter& at, const Match& match, const Target& target) {
  if (rule.make) return rule.make(at, match, target);
  Instantiate instantiate(at, match);
  std::vector<ir::Value*> out;
  for (std::size_t i = 0; i < rule.to.size(); ++i) {
    const auto* exposed = match[rule.from[i]];
    out.push_back(exposed ? instantiate(rule.to[i].get(), rule.to[i].output, exposed->dtype()) : nullptr);
  }
  return out;
}

}  // namespace mobius::rewrite
