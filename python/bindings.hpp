// What the files of the Python module share. Each binds one part of the library; module.cpp calls them.
//
//   void bind_ep(py::module_& m) { m.def("ep_names", [] { return ep_registry().names(); }); }
//
// The module is private (mobius._native): python/mobius/*.py is what users see. Rules that hold everywhere here: work that may take long
// runs without Python's lock; nothing that Python can still hold dies with a C++ object; a Model is used by one call at a time.
#pragma once
#include <pybind11/functional.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <atomic>
#include <memory>
#include <string>

#include "mobius/base/error.hpp"
#include "mobius/ir/model.hpp"

namespace mobius::python {

namespace py = pybind11;

// A model with its role in optimisation. Its graph is used by one call at a time: see InUse.
struct Model {
  ir::Model model;
  std::string role = "decoder";
  std::atomic<bool> in_use = false;
};
using ModelPtr = std::shared_ptr<Model>;

// Claims a model for the life of this object. Calls that run without Python's lock would otherwise meet in one graph.
class InUse {
 public:
  explicit InUse(Model& model) : model_(model) {
    if (model.in_use.exchange(true))
      fail(ErrorKind::invalid_argument, "this model is in use by another call (it is being built, optimised or written); wait for that, or clone the model");
  }
  ~InUse() { model_.in_use = false; }
  InUse(const InUse&) = delete;
  InUse& operator=(const InUse&) = delete;

 private:
  Model& model_;
};

using Progress = std::function<void(std::uint64_t done, std::uint64_t total)>;
// Calls `callback` (may be None) with Python's lock, and looks for Ctrl-C.
Progress progress_of(py::object callback);

// Destroys a Python object that a C++ object held, from whatever thread.
struct WithLock {
  template <class T>
  void operator()(T* object) const {
    if (!Py_IsInitialized()) return;
    const py::gil_scoped_acquire lock;
    delete object;
  }
};

// Names in files, and so messages, may be anything: what is no UTF-8 in them must not hide the rest (errors.cpp).
py::str text(std::string_view line);
// ONNX's strings as values are bytes; mostly they are text.
py::object text_or_bytes(std::string_view value);

// A weight as the class TensorData, and back (tensors.cpp).
py::object to_python(const ir::TensorPtr& tensor);
ir::TensorPtr tensor_from_python(const py::handle& object);

// Inputs, outputs, nodes and initializers of a graph, as tuples (graph.cpp).
py::dict graph_to_python(const ir::Graph& graph);
py::object attribute_to_python(const ir::Attribute& attribute);
py::object shape_to_python(const std::optional<ir::Shape>& shape);
ir::Attribute attribute_from_python(const py::handle& value, std::string_view name, int onnx_type);

void bind_errors(py::module_& m);
void bind_log(py::module_& m);
void bind_ep(py::module_& m);
void bind_tensors(py::module_& m);
void bind_model(py::module_& m);
void bind_package(py::module_& m);
void bind_build(py::module_& m);
void bind_nn(py::module_& m);

}  // namespace mobius::python

// Element types are mobius.DataType in Python; any integer with the number of ONNX's TensorProto.DataType is taken (onnx_ir.DataType is one).
template <>
struct pybind11::detail::type_caster<mobius::ir::DataType> {
  PYBIND11_TYPE_CASTER(mobius::ir::DataType, const_name("DataType"));

  bool load(handle source, bool) {
    if (!PyLong_Check(source.ptr())) return false;
    const long number = PyLong_AsLong(source.ptr());
    if (PyErr_Occurred()) PyErr_Clear();
    if (number < 0 || number > mobius::ir::last_data_type) return false;
    value = static_cast<mobius::ir::DataType>(number);
    return true;
  }
  static handle cast(mobius::ir::DataType type, return_value_policy, handle) {
    return module_::import("mobius._dtypes").attr("DataType")(static_cast<int>(type)).release();
  }
};
