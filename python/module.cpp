// The module mobius._native.
#include "mobius/package/version.hpp"
#include "python/bindings.hpp"

PYBIND11_MODULE(_native, m) {
  using namespace mobius::python;
  m.doc() = "The native part of mobius; use the package mobius.";
  m.attr("__version__") = std::string(mobius::version());
  bind_errors(m);
  bind_log(m);
  bind_ep(m);
  bind_tensors(m);
  bind_model(m);
  bind_package(m);
  bind_build(m);
  bind_nn(m);
}
