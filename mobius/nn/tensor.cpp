// How an operator applied to tensors becomes a typed, named node.
#include "mobius/nn/tensor.hpp"

#include "mobius/base/error.hpp"

namespace mobius::nn {

Tensor::Arg::Arg(const Tensor& tensor) : what(tensor.value()), builder(&tensor.builder()) {}

Tensor Builder::input(std::string name, ir::DataType dtype, ir::Shape shape) { return {*this, graph_.add_input(std::move(name), {dtype, std::move(shape)})}; }

void Builder::output(std::string name, Tensor value) {
  auto* v = value.value();
  // A graph output is a node's own result under the interface's name.
  if (!v->producer() || v->is_graph_output()) v = identity(value).value();
  graph_.rename(v, std::move(name));
  graph_.add_output(v);
}

ir::Value* Builder::value_of(const Parameter& parameter) {
  if (auto* known = graph_.find_value(parameter.name())) {
    const bool same = known->data() && known->data()->dims() == parameter.dims() && known->dtype() == parameter.dtype();
    if (!same) fail(ErrorKind::internal, "parameter {} is used with two different shapes or dtypes", parameter.name());
    return known;
  }
  return graph_.add_initializer(parameter.name(), parameter.data());
}

ir::Value* Builder::scalar(ir::DataType dtype, double number) {
  auto& slot = scalars_[{dtype, number}];
  if (!slot) slot = graph_.add_initializer(graph_.unique_name("constant"), ir::make_scalar(dtype, number));
  return slot;
}

ir::Value* Builder::integers(const std::vector<std::int64_t>& values) {
  auto& slot = integers_[values];
  if (!slot) slot = graph_.add_initializer(graph_.unique_name("integers"), ir::make_tensor({static_cast<std::int64_t>(values.size())}, values));
  return slot;
}

ir::Dim Tensor::dim(int i) const {
  const auto rank = value_->rank();
  const auto at = i < 0 ? static_cast<std::int64_t>(rank.value_or(0)) + i : i;
  if (!rank || at < 0 || at >= static_cast<std::int64_t>(*rank)) fail(ErrorKind::invalid_argument, "{} has no dimension {}", value_->name, i);
  return (*value_->shape())[static_cast<std::size_t>(at)];
}

namespace {

struct Operands {
  Builder* builder = nullptr;
  ir::DataType dtype = ir::DataType::undefined;  // of the first operand that has one: numbers take it
};

Operands context_of(const std::vector<Tensor::Arg>& in, ir::OpName op) {
  Operands c;
  for (const auto& a : in)
    if (a.builder) c.builder = a.builder;
  if (!c.builder) fail(ErrorKind::internal, "{} is applied to nothing that belongs to a graph", ir::to_string(op));
  for (const auto& a : in) {
    if (const auto* v = std::get_if<ir::Value*>(&a.what)) c.dtype = (*v)->dtype();
    else if (const auto* p = std::get_if<const Parameter*>(&a.what)) c.dtype = (*p)->dtype();
    else continue;
    if (c.dtype != ir::DataType::boolean) break;  // Where's condition says nothing of its branches
  }
  return c;
}

ir::Value* resolve(const Tensor::Arg& arg, const Operands& c) {
  if (const auto* v = std::get_if<ir::Value*>(&arg.what)) return *v;
  if (const auto* p = std::get_if<const Parameter*>(&arg.what)) return c.builder->value_of(**p);
  if (const auto* n = std::get_if<double>(&arg.what)) return c.builder->scalar(c.dtype, *n);
  if (const auto* l = std::get_if<std::vector<std::int64_t>>(&arg.what)) return c.builder->integers(*l);
  return nullptr;
}

}  // namespace

std::vector<Tensor> Tensor::apply(ir::OpName op, const std::vector<Arg>& in, ir::Attributes attributes, std::size_t results) {
  const auto c = context_of(in, op);
  std::vector<ir::Value*> values;
  values.reserve(in.size());
  for (const auto& a : in) values.push_back(resolve(a, c));
  while (!values.empty() && !values.back()) values.pop_back();

  auto& graph = c.builder->graph();
  auto* node = graph.append(op, values, std::move(attributes), results);
  node->name = graph.unique_name(c.builder->scope.empty() ? std::string(op.type) : c.builder->scope + "/" + std::string(op.type));
  for (auto* o : node->outputs()) graph.rename(o, o->index() == 0 ? node->name : graph.unique_name(node->name + ":" + std::to_string(o->index())));
  c.builder->inference().infer(*node);

  std::vector<Tensor> out;
  out.reserve(results);
  for (auto* o : node->outputs()) out.emplace_back(*c.builder, o);
  return out;
}

}  // namespace mobius::nn
