// Graphs as Python sees them: a copy of names, types and attributes in tuples, which python/mobius/_graph.py gives names to.
#include "python/bindings.hpp"

namespace mobius::python {
namespace {

py::list names(const std::vector<ir::Value*>& values) {
  py::list out;
  for (const auto* v : values) out.append(v ? text(v->name) : py::str(""));
  return out;
}

py::tuple value_to_python(const ir::Value& v) { return py::make_tuple(text(v.name), v.dtype(), shape_to_python(v.shape())); }

py::list values_to_python(const std::vector<ir::Value*>& values) {
  py::list out;
  for (const auto* v : values) out.append(value_to_python(*v));
  return out;
}

py::tuple node_to_python(const ir::Node& n) {
  py::dict attributes;
  for (const auto& [name, value] : n.attributes) attributes[text(name)] = attribute_to_python(value);
  py::list outputs;
  for (const auto* v : n.outputs()) outputs.append(v ? py::object(value_to_python(*v)) : py::object(py::none()));
  return py::make_tuple(text(n.name), text(n.op.type), text(n.op.domain), names(n.inputs()), outputs, attributes);
}

template <class T>
std::vector<T> list_of(const py::handle& value) {
  std::vector<T> out;
  for (const auto& item : py::reinterpret_borrow<py::iterable>(value)) out.push_back(item.cast<T>());
  return out;
}

}  // namespace

py::object shape_to_python(const std::optional<ir::Shape>& shape) {
  if (!shape) return py::none();
  py::tuple out(shape->size());
  for (std::size_t i = 0; i < shape->size(); ++i) {
    const auto& d = (*shape)[i];
    if (d.is_static()) out[i] = py::int_(d.value());
    else if (d.is_unknown()) out[i] = py::none();
    else out[i] = text(d.to_string());
  }
  return out;
}

py::object attribute_to_python(const ir::Attribute& attribute) {
  return std::visit(
      [](const auto& v) -> py::object {
        using T = std::decay_t<decltype(v)>;
        if constexpr (std::is_same_v<T, ir::TensorPtr>) return to_python(v);
        else if constexpr (std::is_same_v<T, ir::GraphPtr>) return graph_to_python(*v);
        else if constexpr (std::is_same_v<T, std::vector<ir::TensorPtr>>) {
          py::list out;
          for (const auto& t : v) out.append(to_python(t));
          return out;
        } else if constexpr (std::is_same_v<T, std::vector<ir::GraphPtr>>) {
          py::list out;
          for (const auto& g : v) out.append(graph_to_python(*g));
          return out;
        } else if constexpr (std::is_same_v<T, ir::Type>) return text(ir::to_string(v));
        else if constexpr (std::is_same_v<T, std::vector<ir::Type>>) {
          py::list out;
          for (const auto& t : v) out.append(text(ir::to_string(t)));
          return out;
        } else if constexpr (std::is_same_v<T, ir::AttributeReference>) return text("@" + v.name);
        else if constexpr (std::is_same_v<T, std::string>) return text_or_bytes(v);
        else if constexpr (std::is_same_v<T, std::vector<std::string>>) {
          py::list out;
          for (const auto& s : v) out.append(text_or_bytes(s));
          return out;
        } else return py::cast(v);
      },
      attribute);
}

// `onnx_type`: AttributeProto.AttributeType, as the operator's schema states it; 0 when there is none, then the value tells.
ir::Attribute attribute_from_python(const py::handle& value, std::string_view name, int onnx_type) try {
  enum { kind_float = 1, kind_int, kind_string, kind_tensor, kind_graph, kind_floats, kind_ints, kind_strings };
  switch (onnx_type) {
    case kind_float: return value.cast<float>();
    case kind_int: return value.cast<std::int64_t>();
    case kind_string: return value.cast<std::string>();
    case kind_tensor: return tensor_from_python(value);
    case kind_floats: return list_of<float>(value);
    case kind_ints: return list_of<std::int64_t>(value);
    case kind_strings: return list_of<std::string>(value);
    default: break;
  }
  if (py::isinstance<py::str>(value)) return value.cast<std::string>();
  if (PyFloat_Check(value.ptr())) return value.cast<float>();
  if (PyLong_Check(value.ptr())) return value.cast<std::int64_t>();
  if (PySequence_Check(value.ptr())) {
    const auto items = py::reinterpret_borrow<py::sequence>(value);
    if (items.size() > 0 && py::isinstance<py::str>(items[0])) return list_of<std::string>(value);
    for (const auto& item : items)
      if (PyFloat_Check(item.ptr())) return list_of<float>(value);
    return list_of<std::int64_t>(value);
  }
  return tensor_from_python(value);
} catch (const py::cast_error&) {
  const char* const kinds[] = {"a number, a text, a list or an array",
                               "a number",
                               "an integer",
                               "a text",
                               "an array",
                               "a graph",
                               "a list of numbers",
                               "a list of integers",
                               "a list of texts"};
  fail(ErrorKind::invalid_argument, "attribute {} is {}, expected {}", name, py::repr(value).cast<std::string>(),
       onnx_type >= 0 && onnx_type < 9 ? kinds[onnx_type] : "another kind");
}

py::dict graph_to_python(const ir::Graph& graph) {
  py::list nodes;
  for (const auto* n : graph.nodes()) nodes.append(node_to_python(*n));
  py::dict initializers;
  for (const auto* v : graph.initializers()) initializers[text(v->name)] = to_python(v->data());
  py::dict out;
  out["name"] = text(graph.name);
  out["inputs"] = values_to_python(graph.inputs());
  out["outputs"] = values_to_python(graph.outputs());
  out["nodes"] = nodes;
  out["initializers"] = initializers;
  return out;
}

}  // namespace mobius::python
