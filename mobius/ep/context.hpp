// The build context: which EP and dtype a graph is being built for. A stack per thread.
//
//   {
//     BuildContext context(get_ep("cuda"), DataType::float16);        // or: auto context = build_context(...)
//     ... ep_capabilities().name == "cuda", get_build_dtype() == float16 ...
//   }                                                                 // the outer context is back, also after an exception
//
// Coroutines and executors carry a context across threads with a snapshot:
//   auto here = BuildContext::snapshot();
//   pool.run([here] { auto resumed = BuildContext::resume(here); ... });
#pragma once
#include <memory>

#include "mobius/ep/capabilities.hpp"

namespace mobius {

class [[nodiscard]] BuildContext {
 public:
  struct State {
    EpCapabilities capabilities;
    ir::DataType dtype = ir::DataType::float32;
  };
  using Snapshot = std::shared_ptr<const State>;

  BuildContext(EpCapabilities capabilities, ir::DataType dtype = ir::DataType::float32);
  ~BuildContext();
  BuildContext(const BuildContext&) = delete;
  BuildContext& operator=(const BuildContext&) = delete;

  static Snapshot snapshot();  // nullptr outside any context
  static BuildContext resume(Snapshot snapshot);

 private:
  explicit BuildContext(Snapshot state);
  Snapshot outer_;
};

inline BuildContext build_context(EpCapabilities capabilities, ir::DataType dtype = ir::DataType::float32) {
  return BuildContext(std::move(capabilities), dtype);
}

// Outside any context: the "default" EP and float32. The reference is valid until the context ends.
const EpCapabilities& ep_capabilities();
ir::DataType get_build_dtype();

}  // namespace mobius
