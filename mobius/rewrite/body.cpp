// Copies function bodies into graphs.
#include "mobius/rewrite/body.hpp"

#include <algorithm>
#include <unordered_map>

#include "mobius/base/error.hpp"
#include "mobius/ops/functions.hpp"

namespace mobius::rewrite {
namespace {

class Copy {
 public:
  Copy(Inserter& at, const ir::Node& call, const ir::Function& function) : at_(at), call_(call), function_(function) {}

  std::vector<ir::Value*> run() {
    const auto& formal = function_.body->inputs();
    if (call_.inputs().size() > formal.size()) refuse("inputs", call_.inputs().size(), formal.size());
    if (call_.outputs().size() > function_.body->outputs().size()) refuse("outputs", call_.outputs().size(), function_.body->outputs().size());
    for (std::size_t i = 0; i < formal.size(); ++i) values_[formal[i]] = call_.input(i);
    for (const auto* v : function_.body->initializers())
      if (!v->is_graph_input()) values_[v] = at_.constant(v->data(), scope_of_call(call_) + "/" + v->name);
    for (const auto* node : function_.body->nodes()) copy_node(*node);
    std::vector<ir::Value*> results;
    for (std::size_t i = 0; i < call_.outputs().size(); ++i) {
      results.push_back(call_.output(i) ? values_.at(function_.body->outputs()[i]) : nullptr);
    }
    return results;
  }

 private:
  [[noreturn]] void refuse(std::string_view what, std::size_t given, std::size_t taken) const {
    fail(ErrorKind::invalid_argument, "{}: the call of function {} has {} {}, the function has {}", scope_of_call(call_), ir::to_string(call_.op), given, what,
         taken);
  }

  // ── nodes of the body itself ──

  void copy_node(const ir::Node& node) {
    auto attributes = resolved(node.attributes);
    if (node.is("Constant")) {
      if (auto data = constant_of(attributes)) {
        values_[node.output()] = at_.constant(std::move(data), scope_of_call(call_) + "/constant");
        return;
      }
    }
    if (node.is("CastLike") && attributes.empty()) {
      if (auto* cast = cast_like(values_.at(node.input(0)), values_.at(node.input(1)))) {
        values_[node.output()] = cast;
        return;
      }
    }
    const auto outputs = at_.add(node.op, mapped(node.inputs()), std::move(attributes), node.outputs().size());
    auto* copy = at_.added().back();
    finish(*copy, node);
    for (std::size_t i = node.outputs().size(); i-- > 0;) {
      if (node.output(i)) values_[node.output(i)] = outputs[i];
      else copy->drop_output(i);
    }
  }

  // Bodies hold for any type; here it is known, as a rule.
  ir::Value* cast_like(ir::Value* x, const ir::Value* like) {
    const auto to = like ? like->dtype() : ir::DataType::undefined;
    if (!x || to == ir::DataType::undefined) return nullptr;
    if (x->dtype() == to) return x;
    return at_.add({"", "Cast"}, {x}, {{"to", static_cast<std::int64_t>(to)}})[0];
  }

  void finish(ir::Node& copy, const ir::Node& node) const {
    copy.overload = node.overload;
    copy.doc = node.doc;
    copy.metadata = node.metadata;
    copy.metadata.insert(call_.metadata.begin(), call_.metadata.end());
  }

  std::vector<ir::Value*> mapped(const std::vector<ir::Value*>& values) const {
    std::vector<ir::Value*> out;
    out.reserve(values.size());
    for (const auto* v : values) out.push_back(v ? values_.at(v) : nullptr);
    while (!out.empty() && !out.back()) out.pop_back();  // an operand that the call leaves out
    return out;
  }

  // ── attributes and subgraphs ──

  ir::Attributes resolved(const ir::Attributes& attributes) {
    ir::Attributes out;
    for (const auto& [name, value] : attributes) {
      if (const auto* reference = std::get_if<ir::AttributeReference>(&value)) {
        if (const auto* given = argument(reference->name)) out.emplace(name, *given);
      } else if (const auto* graph = std::get_if<ir::GraphPtr>(&value)) {
        out.emplace(name, copy_graph(**graph));
      } else if (const auto* graphs = std::get_if<std::vector<ir::GraphPtr>>(&value)) {
        std::vector<ir::GraphPtr> copies;
        for (const auto& g : *graphs) copies.push_back(copy_graph(*g));
        out.emplace(name, std::move(copies));
      } else {
        out.emplace(name, value);
      }
    }
    return out;
  }

  const ir::Attribute* argument(const std::string& name) const {
    if (const auto* given = call_.attribute(name)) return given;
    const auto it = function_.attribute_defaults.find(name);
    return it == function_.attribute_defaults.end() ? nullptr : &it->second;
  }

  // Names of a subgraph begin with the call's, so that they differ from those of the graphs around it.
  ir::GraphPtr copy_graph(const ir::Graph& from) {
    auto to = std::make_shared<ir::Graph>();
    to->name = from.name;
    to->doc = from.doc;
    to->metadata = from.metadata;
    const auto prefix = scope_of_call(call_) + "/";
    const auto unused = [&](const std::string& name) { return to->unique_name(at_.graph().unique_name(prefix + name)); };
    for (const auto* v : from.inputs()) copy_facts(*(values_[v] = to->add_input(unused(v->name), v->type)), *v);
    for (const auto* v : from.initializers()) {
      auto*& copy = values_[v];
      if (v->is_graph_input()) to->make_initializer(copy, v->data());
      else copy = to->add_initializer(unused(v->name), v->data());
      copy_facts(*copy, *v);
    }
    for (const auto* node : from.nodes()) {
      auto attributes = resolved(node->attributes);
      auto* copy = to->append(node->op, mapped(node->inputs()), std::move(attributes), node->outputs().size());
      finish(*copy, *node);
      copy->name = prefix + (node->name.empty() ? std::string(node->op.type) : node->name);
      for (std::size_t i = node->outputs().size(); i-- > 0;) {
        const auto* v = node->output(i);
        if (!v) {
          copy->drop_output(i);
          continue;
        }
        values_[v] = copy->output(i);
        to->rename(copy->output(i), unused(v->name));
        copy->output(i)->type = v->type;
        if (v->data()) copy->output(i)->set_data(v->data());
        copy_facts(*copy->output(i), *v);
      }
    }
    for (const auto* v : from.outputs()) to->add_output(values_.at(v));
    return to;
  }

  static void copy_facts(ir::Value& to, const ir::Value& from) {
    to.metadata = from.metadata;
    to.doc = from.doc;
  }

  Inserter& at_;
  const ir::Node& call_;
  const ir::Function& function_;
  std::unordered_map<const ir::Value*, ir::Value*> values_;  // looked up only
};

}  // namespace

ir::TensorPtr constant_of(const ir::Attributes& attributes) {
  if (attributes.size() != 1) return nullptr;
  const auto& [name, value] = *attributes.begin();
  if (const auto* tensor = std::get_if<ir::TensorPtr>(&value)) return name == "value" ? *tensor : nullptr;
  if (const auto* f = std::get_if<float>(&value)) return ir::make_scalar(ir::DataType::float32, static_cast<double>(*f));
  if (const auto* i = std::get_if<std::int64_t>(&value)) return ir::make_tensor({}, std::span(i, 1));
  if (const auto* fs = std::get_if<std::vector<float>>(&value)) return ir::make_tensor({static_cast<std::int64_t>(fs->size())}, std::span(*fs));
  if (const auto* is = std::get_if<std::vector<std::int64_t>>(&value)) return ir::make_tensor({static_cast<std::int64_t>(is->size())}, std::span(*is));
  if (const auto* s = std::get_if<std::string>(&value)) return ir::make_string_tensor({}, {*s});
  if (const auto* ss = std::get_if<std::vector<std::string>>(&value)) return ir::make_string_tensor({static_cast<std::int64_t>(ss->size())}, *ss);
  return nullptr;
}

std::string scope_of_call(const ir::Node& call) {
  if (!call.name.empty()) return call.name;
  for (const auto* o : call.outputs())
    if (o) return o->name;
  return std::string(call.op.type);
}

ir::Type joined(ir::Type type, const ir::Type& other) {
  if (!type.is_known()) {
    if (other.kind == ir::Type::Kind::tensor && type.shape) {
      type.dtype = other.dtype;
    } else {
      return other;
    }
  }
  if (!other.shape || type.kind != ir::Type::Kind::tensor) return type;
  if (!type.shape) type.shape = other.shape;
  if (type.shape->size() != other.shape->size()) return type;
  for (std::size_t i = 0; i < type.shape->size(); ++i)
    if ((*type.shape)[i].is_unknown()) (*type.shape)[i] = (*other.shape)[i];
  return type;
}

std::vector<ir::Value*> insert_body(Inserter& at, const ir::Node& call, const ir::Function& function) { return Copy(at, call, function).run(); }

Rule body_rule(std::string name, ir::OpName op, std::size_t results, std::int64_t opset, std::function<bool(const Target&)> when) {
  const auto outputs = any_form(op, results);
  const auto body_of = [opset](const ir::Node& node, const Target& target) { return ops::function_body(node, std::min(opset, target.opset)); };
  const Condition has_body{[=](const Match& m, const Target& target) -> std::optional<std::string> {
    const auto& node = *m.node(outputs[0]);
    if (body_of(node, target)) return std::nullopt;
    return "no function body is known for the form " + ops::function_form(node);
  }};
  return {
      .name = std::move(name), .from = outputs, .where = {has_body}, .when = std::move(when), .make = [=](Inserter& at, const Match& m, const Target& target) {
        const auto& node = *m.node(outputs[0]);
        auto made = insert_body(at, node, *body_of(node, target));
        made.resize(outputs.size(), nullptr);
        return made;
      }};
}

}  // namespace mobius::rewrite
