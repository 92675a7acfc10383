// Execution providers and the build context.
#include "mobius/base/json.hpp"
#include "mobius/ep/context.hpp"
#include "mobius/ep/fields.hpp"
#include "mobius/ep/registry.hpp"
#include "python/bindings.hpp"
#include "python/context.hpp"

namespace mobius::python {
namespace {

// The context variable holds what `Context` wraps; asyncio and threads see their own value of it.
PyObject* variable = nullptr;

}  // namespace

BuildContext::Snapshot current_context() {
  PyObject* value = nullptr;
  if (PyContextVar_Get(variable, Py_None, &value) < 0) throw py::error_already_set();
  const auto held = py::reinterpret_steal<py::object>(value);
  return held.is_none() ? nullptr : held.cast<const Context&>().snapshot;
}

void bind_ep(py::module_& m) {
  m.def("ep_fields", [] {
    py::list out;
    const EpCapabilities none;
    for (const auto& f : ep_fields()) out.append(py::make_tuple(std::string(f.name), std::string(kind_of(f)), value_of(f, none).dump(), std::string(f.help)));
    return out;
  });
  m.def("ep_names", [] { return ep_registry().names(); });
  m.def("ep_json", [](const std::string& name) { return to_json(ep_registry().require(name)).dump(); });
  m.def("register_ep", [](const std::string& json, bool overwrite) { register_ep(ep_from_json(Json::parse(json), "EpCapabilities"), overwrite); });
  m.def("dtype_from_name", [](const std::string& name) { return ir::data_type_from_user(name); });
  m.def("choose_dtype",
        [](const std::string& ep, std::optional<ir::DataType> asked, ir::DataType checkpoint) { return choose_dtype(get_ep(ep), asked, checkpoint); });

  py::class_<Context>(m, "Context")
      .def(py::init([](const std::string& json, ir::DataType dtype, py::object capabilities) {
        auto ep = ep_from_json(Json::parse(json), "EpCapabilities");
        return Context{std::make_shared<const BuildContext::State>(BuildContext::State{std::move(ep), dtype}), std::move(capabilities)};
      }))
      .def_readonly("capabilities", &Context::capabilities)
      .def_property_readonly("dtype", [](const Context& c) { return c.snapshot->dtype; });
  variable = PyContextVar_New("mobius_build_context", nullptr);
  if (!variable) throw py::error_already_set();
  m.attr("context") = py::reinterpret_borrow<py::object>(variable);
}

}  // namespace mobius::python
