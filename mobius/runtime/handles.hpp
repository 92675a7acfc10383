// Owners of ONNX Runtime's objects, for the two files that call its C API.
#pragma once
#include <memory>

#include "mobius/runtime/onnxruntime.hpp"
#include "mobius/runtime/ort_api.hpp"

namespace mobius::runtime {

template <class T>
struct Release {
  void (*release)(T*) = nullptr;
  void operator()(T* object) const { release(object); }
};
template <class T>
using Owned = std::unique_ptr<T, Release<T>>;

template <class T>
Owned<T> owner(void (*release)(T*)) {
  return Owned<T>(nullptr, Release<T>{release});
}

// Lets a C function write into an owner: check(api.CreateEnv(..., out(environment))).
template <class T>
class Out {
 public:
  explicit Out(Owned<T>& owner) : owner_(owner) {}
  ~Out() { owner_.reset(object_); }
  Out(const Out&) = delete;
  Out& operator=(const Out&) = delete;
  operator T**() { return &object_; }

 private:
  Owned<T>& owner_;
  T* object_ = nullptr;
};
template <class T>
Out<T> out(Owned<T>& owner) {
  return Out<T>(owner);
}

// check(api.Something(...)): throws what a status reports, and frees it.
struct Checker {
  const ort::Api& api;
  void operator()(ort::Status* status) const;
};

struct Runtime::Handles {
  explicit Handles(const ort::Api& table) : api(table), environment(owner(table.ReleaseEnv)), memory(owner(table.ReleaseMemoryInfo)) {}

  const ort::Api& api;
  Owned<ort::Environment> environment;
  Owned<ort::MemoryInfo> memory;
  ort::Allocator* allocator = nullptr;  // the library's own
};

}  // namespace mobius::runtime
