// The build context that Python code is in, for the library's own.
//
//   const auto here = BuildContext::resume(current_context());     // what is called now sees the context of the Python caller
#pragma once
#include <pybind11/pybind11.h>

#include "mobius/ep/context.hpp"

namespace mobius::python {

// The value of the context variable: the library's state, and the EpCapabilities object that Python was given.
struct Context {
  BuildContext::Snapshot snapshot;
  pybind11::object capabilities;
};

BuildContext::Snapshot current_context();  // nullptr outside any context

}  // namespace mobius::python
