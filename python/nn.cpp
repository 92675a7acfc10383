// Building graphs from Python: values, operators, parameters, and what a decoder layer needs.
#include "python/nn.hpp"

#include <algorithm>

#include "mobius/config/decoder.hpp"
#include "mobius/nn/layers.hpp"
#include "mobius/passes/passes.hpp"
#include "python/context.hpp"

namespace mobius::python {
namespace {

using nn::Parameter;
using nn::Scope;

ir::Shape shape_of(const py::sequence& dims) {
  ir::Shape shape;
  for (const auto& d : dims) {
    if (d.is_none()) shape.emplace_back();
    else if (py::isinstance<py::str>(d)) shape.push_back(ir::Dim::parse(d.cast<std::string>()));
    else shape.emplace_back(d.cast<std::int64_t>());
  }
  return shape;
}

// A body that Python has made and not used yet; the workshop owns it.
struct Body {
  std::weak_ptr<ir::Graph> graph;
  std::size_t outputs = 0;
};

ir::GraphPtr take(Workshop& w, const Body& body) {
  auto graph = body.graph.lock();
  if (!graph || std::erase(w.bodies, graph) == 0) fail(ErrorKind::invalid_argument, "a body belongs to one node");
  return graph;
}

// An operator without operands, which Tensor::apply can't place: it takes the graph from them.
std::vector<Tensor> apply_to_nothing(nn::Builder& b, ir::OpName op, ir::Attributes attributes, std::size_t results) {
  auto& graph = b.graph();
  auto* node = graph.append(op, std::initializer_list<ir::Value*>{}, std::move(attributes), results);
  node->name = graph.unique_name(b.scope.empty() ? std::string(op.type) : b.scope + "/" + std::string(op.type));
  for (auto* o : node->outputs()) graph.rename(o, o->index() == 0 ? node->name : graph.unique_name(node->name + ":" + std::to_string(o->index())));
  b.inference().infer(*node);
  std::vector<Tensor> out;
  for (auto* o : node->outputs()) out.emplace_back(b, o);
  return out;
}

// `attributes`: name -> (value, AttributeProto.AttributeType or 0). `otherwise`: the results' types where inference knows nothing.
py::list apply(const WorkshopPtr& w, const std::string& domain, const std::string& type, const py::list& inputs, const py::dict& attributes,
               std::size_t results, const std::vector<std::optional<ir::DataType>>& otherwise) {
  const ir::OpName op{ir::intern(domain), ir::intern(type)};
  std::vector<Tensor::Arg> in;
  bool any = false;
  for (const auto& i : inputs) {
    any = any || !i.is_none();
    if (py::isinstance<TensorHandle>(i) && i.cast<const TensorHandle&>().workshop != w)
      fail(ErrorKind::invalid_argument, "an operand belongs to another graph");
    in.push_back(i.is_none() ? Tensor::Arg() : Tensor::Arg(tensor_of(i)));
  }
  ir::Attributes attrs;
  for (const auto& [name, value] : attributes) {
    const auto pair = value.cast<py::tuple>();
    if (py::isinstance<Body>(pair[0])) attrs.emplace(name.cast<std::string>(), take(*w, pair[0].cast<const Body&>()));
    else attrs.emplace(name.cast<std::string>(), attribute_from_python(pair[0], name.cast<std::string>(), pair[1].cast<int>()));
  }
  auto& b = w->get();
  auto* last = b.graph().last();
  try {
    const auto out = any ? Tensor::apply(op, in, std::move(attrs), results) : apply_to_nothing(b, op, std::move(attrs), results);
    py::list handles;
    for (std::size_t i = 0; i < out.size(); ++i) {
      auto& t = out[i].value()->type;
      if (t.dtype == ir::DataType::undefined && i < otherwise.size() && otherwise[i]) t.dtype = *otherwise[i];
      handles.append(TensorHandle{w, out[i].value(), w->open.back()});
    }
    return handles;
  } catch (const Error&) {
    // The caller may go on with another form: the node that was refused must not stay.
    if (auto* node = b.graph().last(); node != last) {
      node->attributes.clear();  // bodies let go of what they read
      b.graph().erase(node);
    }
    throw;
  }
}

TensorHandle value(const WorkshopPtr& w, const Parameter& p) { return {w, w->whole().value_of(p)}; }

// The body of an If, Loop or Scan: what function(*inputs) writes. It may read every value that there is around it.
Body body(const WorkshopPtr& w, const std::string& name, const std::vector<std::pair<ir::DataType, std::optional<py::sequence>>>& inputs,
          const py::object& function) {
  auto& outer = w->get();
  auto graph = std::make_shared<ir::Graph>();
  graph->name = w->whole().graph().unique_name(outer.scope.empty() ? name : outer.scope + "/" + name);  // names in it begin with it: no two are alike
  nn::Builder inner(*graph, outer.dtype());
  inner.scope = graph->name;
  struct Inside {
    Workshop& workshop;
    nn::Builder* outer;
    ~Inside() {
      workshop.builder = outer;
      workshop.open.pop_back();
    }
  } const inside{*w, std::exchange(w->builder, &inner)};
  w->open.push_back(++w->graphs);

  py::list arguments;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    ir::Type type{inputs[i].first};
    if (inputs[i].second) type.shape = shape_of(*inputs[i].second);
    arguments.append(TensorHandle{w, graph->add_input(graph->name + "/in:" + std::to_string(i), std::move(type)), w->open.back()});
  }
  const py::object results = function(*arguments);
  const auto list = py::isinstance<py::tuple>(results) || py::isinstance<py::list>(results) ? py::list(results) : py::list(py::make_tuple(results));
  for (std::size_t i = 0; i < list.size(); ++i) {
    auto result = tensor_of(list[i]);
    if (result.value()->graph() != graph.get()) result = identity(result);  // a body's result is its own
    inner.output(graph->name + "/out:" + std::to_string(i), result);
  }
  w->bodies.push_back(graph);
  return {graph, graph->outputs().size()};
}

std::optional<std::vector<std::int64_t>> contents(const TensorHandle& t) {
  const auto elements = t.workshop->get().inference().contents(t.value);
  return elements ? ir::static_shape(*elements) : std::nullopt;
}

TensorHandle attend(const DecodeHandle& d, const py::object& q, const py::object& k, const py::object& v, std::int64_t heads, std::int64_t kv_heads,
                    std::int64_t head_dim, std::optional<std::int64_t> window, std::optional<double> scale, double softcap) {
  const auto context = BuildContext::resume(current_context());
  const AttentionSpec spec{.num_heads = heads, .num_kv_heads = kv_heads, .head_dim = head_dim, .window = window, .scale = scale, .softcap = softcap};
  return {d.workshop, d.get().attend(tensor_of(q), tensor_of(k), tensor_of(v), spec).value()};
}

void bind_workshop(py::module_& m) {
  py::class_<Workshop, WorkshopPtr>(m, "Workshop")
      .def(py::init([](ir::DataType dtype, std::int64_t opset) {
        auto w = std::make_shared<Workshop>();
        w->own_model = std::make_unique<ir::Model>();
        w->own_model->opset_imports[""] = opset;
        w->own = std::make_unique<nn::Builder>(*w->own_model->graph, dtype);
        w->builder = w->outermost = w->own.get();
        return w;
      }))
      .def("finish",
           [](Workshop& w) {
             w.get();
             if (!w.own) fail(ErrorKind::invalid_argument, "this graph is finished by the build");
             auto model = std::make_shared<Model>();
             w.bodies.clear();
             w.builder = nullptr;
             for (const auto* n : w.own_model->graph->nodes())
               if (!n->op.domain.empty()) w.own_model->opset_imports.try_emplace(std::string(n->op.domain), 1);
             passes::make_node_names_unique(*w.own_model->graph);  // bodies may pass several values on
             model->model = std::move(*w.own_model);
             return model;
           })
      .def_property_readonly("dtype", [](const Workshop& w) { return w.get().dtype(); })
      .def_property(
          "scope", [](const Workshop& w) { return w.get().scope; }, [](const Workshop& w, std::string path) { w.get().scope = std::move(path); })
      .def("apply", [](const WorkshopPtr& w, const std::string& domain, const std::string& type, const py::list& in, const py::dict& attributes, std::size_t n,
                       const std::vector<std::optional<ir::DataType>>& otherwise) { return apply(w, domain, type, in, attributes, n, otherwise); })
      .def("body", body)
      .def_property_readonly("bodies", [](const Workshop& w) { return w.bodies.size(); })
      .def("drop_bodies", [](Workshop& w, std::size_t but) { w.bodies.resize(std::min(but, w.bodies.size())); })
      .def("scalar",
           [](const WorkshopPtr& w, ir::DataType dtype, double number) {
             return TensorHandle{w, w->whole().scalar(dtype, number)};
           })
      .def("integers",
           [](const WorkshopPtr& w, const std::vector<std::int64_t>& list) {
             return TensorHandle{w, w->whole().integers(list)};
           })
      .def("constant",
           [](const WorkshopPtr& w, const py::object& data) {
             auto& graph = w->whole().graph();
             return TensorHandle{w, graph.add_initializer(graph.unique_name("constant"), tensor_from_python(data))};
           })
      .def("parameter", [](const WorkshopPtr& w, const std::string& name, ir::DataType dtype, ir::Dims dims,
                           std::vector<std::string> others) { return value(w, Parameter(Scope(dtype, name), std::move(dims), std::move(others))); })
      .def("parameter_with_data",
           [](const WorkshopPtr& w, const std::string& name, const py::object& data) { return value(w, Parameter(name, tensor_from_python(data))); })
      .def("input",
           [](const WorkshopPtr& w, const std::string& name, ir::DataType dtype, const py::sequence& shape) {
             return TensorHandle{w, w->get().input(name, dtype, shape_of(shape)).value()};
           })
      .def("output", [](const WorkshopPtr& w, const std::string& name, const TensorHandle& t) { w->get().output(name, t.get()); })
      .def("activation", [](const WorkshopPtr& w, const std::string& name, const py::object& x) {
        const auto context = BuildContext::resume(current_context());
        return TensorHandle{w, nn::activation(name, tensor_of(x)).value(), w->open.back()};
      });
}

}  // namespace

GraphInWork::GraphInWork(nn::Builder& builder) : workshop_(std::make_shared<Workshop>()) { workshop_->builder = workshop_->outermost = &builder; }
py::object GraphInWork::op() const { return py::module_::import("mobius.nn._op").attr("OpBuilder")(workshop_); }
py::object GraphInWork::wrap(Tensor tensor) const { return py::cast(TensorHandle{workshop_, tensor.value()}); }
py::object GraphInWork::wrap(Decode& decode) const { return py::cast(DecodeHandle{workshop_, &decode}); }

Tensor tensor_of(const py::handle& object) {
  if (!py::isinstance<TensorHandle>(object))
    throw py::type_error("expected a tensor of the graph, found " + py::repr(py::type::of(object)).cast<std::string>());
  return object.cast<const TensorHandle&>().get();
}

void bind_nn(py::module_& m) {
  py::class_<Body>(m, "Body").def_readonly("outputs", &Body::outputs);
  py::class_<TensorHandle>(m, "Tensor")
      .def_property_readonly("name", [](const TensorHandle& t) { return t.get().value()->name; })
      .def_property_readonly("dtype", [](const TensorHandle& t) { return t.get().dtype(); })
      .def_property_readonly("shape", [](const TensorHandle& t) { return shape_to_python(t.get().value()->shape()); })
      .def_property_readonly("workshop", [](const TensorHandle& t) { return t.workshop; })
      .def("contents", &contents)
      .def("set_type", [](const TensorHandle& t, ir::DataType dtype, const py::sequence& shape) {
        t.get().value()->type = {dtype, shape_of(shape)};
      });
  bind_workshop(m);

  py::class_<DecodeHandle>(m, "Decode")
      .def_property_readonly("position_ids",
                             [](const DecodeHandle& d) {
                               return TensorHandle{d.workshop, d.get().position_ids().value()};
                             })
      .def_property_readonly("attention_mask",
                             [](const DecodeHandle& d) {
                               return TensorHandle{d.workshop, d.get().attention_mask().value()};
                             })
      .def_property_readonly("present",
                             [](const DecodeHandle& d) {
                               const auto [key, value] = d.get().last_present();
                               return py::make_tuple(TensorHandle{d.workshop, key.value()}, TensorHandle{d.workshop, value.value()});
                             })
      .def("rope",
           [](const DecodeHandle& d, const py::object& x, std::int64_t heads, const DecoderConfig& config) {
             const auto context = BuildContext::resume(current_context());
             return TensorHandle{d.workshop, d.get().rope(tensor_of(x), heads, config.rope).value()};
           })
      .def("attend", attend)
      .def("mask", [](const DecodeHandle& d, std::optional<std::int64_t> window) {
        return TensorHandle{d.workshop, d.get().mask(window).value()};
      });
}

}  // namespace mobius::python
