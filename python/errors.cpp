// Errors and messages of the library as Python's: exceptions of mobius._errors, logging and warnings.
#include "mobius/base/log.hpp"
#include "python/bindings.hpp"

namespace mobius::python {
namespace {

const char* class_of(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::invalid_argument: return "InvalidArgumentError";
    case ErrorKind::not_found: return "NotFoundError";
    case ErrorKind::unsupported: return "UnsupportedError";
    case ErrorKind::corrupt_file: return "CorruptFileError";
    case ErrorKind::io: return "InputOutputError";
    case ErrorKind::cancelled:
    case ErrorKind::internal: break;
  }
  return "InternalError";
}

void raise(const Error& e) {
  if (e.kind() == ErrorKind::cancelled) return PyErr_SetObject(PyExc_KeyboardInterrupt, text(e.what()).ptr());
  const auto error = py::module_::import("mobius._errors").attr(class_of(e.kind()));
  PyErr_SetObject(error.ptr(), text(e.what()).ptr());
}

}  // namespace

py::str text(std::string_view line) {
  return py::reinterpret_steal<py::str>(PyUnicode_DecodeUTF8(line.data(), static_cast<py::ssize_t>(line.size()), "replace"));
}

py::object text_or_bytes(std::string_view value) {
  auto* text = PyUnicode_DecodeUTF8(value.data(), static_cast<py::ssize_t>(value.size()), "strict");
  if (text) return py::reinterpret_steal<py::object>(text);
  PyErr_Clear();
  return py::bytes(value.data(), value.size());
}

void bind_errors(py::module_&) {
  py::register_local_exception_translator([](std::exception_ptr pointer) {
    try {
      if (pointer) std::rethrow_exception(pointer);
    } catch (const Error& e) {
      raise(e);
    }
  });
}

// The sink stays for the life of the process; once Python is being torn down it has nobody to tell.
void bind_log(py::module_& m) {
  m.def(
      "log_to",
      [](py::object write) {
        if (write.is_none()) {
          logging::set_sink({});
          return;
        }
        auto* function = write.release().ptr();  // never given back: a thread may be inside it at any time
        logging::set_sink([function](logging::Level level, std::string_view line) {
          if (!Py_IsInitialized()) return;
          const py::gil_scoped_acquire lock;
          py::reinterpret_borrow<py::object>(function)(static_cast<int>(level), text(line));
        });
      },
      py::arg("write"), "Sends messages to write(level, line); level is 0 (debug), 1 (info) or 2 (warning). None: to standard error.");
}

Progress progress_of(py::object callback) {
  const std::shared_ptr<py::object> held(new py::object(std::move(callback)), WithLock());
  return [held](std::uint64_t done, std::uint64_t total) {
    const py::gil_scoped_acquire lock;
    if (PyErr_CheckSignals() != 0) throw py::error_already_set();
    if (!held->is_none()) (*held)(done, total);
  };
}

}  // namespace mobius::python
