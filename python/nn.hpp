// Graphs under construction in Python's hands.
//
//   const GraphInWork work(input_ids.builder());
//   function(work.op(), work.wrap(input_ids));       // afterwards, what Python kept of it is refused instead of dangling
#pragma once
#include <algorithm>
#include <memory>
#include <vector>

#include "mobius/components/decode.hpp"
#include "mobius/nn/tensor.hpp"
#include "python/bindings.hpp"

namespace mobius::python {

// What all handles of one graph share; empty once the graph is done.
struct Workshop {
  nn::Builder* builder = nullptr;        // of the graph that is written now: inside a body, the body's
  nn::Builder* outermost = nullptr;      // constants and parameters are the model's, also those that a body reads
  std::vector<int> open = {0};           // the graphs that are being written, outermost first; values of others are out of reach
  int graphs = 0;                        // so far, besides the outermost
  std::vector<ir::GraphPtr> bodies;      // that no node has yet; none may outlive the values around it
  std::unique_ptr<nn::Builder> own;      // of a graph that Python made itself
  std::unique_ptr<ir::Model> own_model;  // likewise

  nn::Builder& get() const {
    if (!builder) fail(ErrorKind::invalid_argument, "this belongs to a graph that is finished; use it inside forward() only");
    return *builder;
  }
  nn::Builder& whole() const { return get(), *outermost; }
};
using WorkshopPtr = std::shared_ptr<Workshop>;

struct TensorHandle {
  WorkshopPtr workshop;
  ir::Value* value = nullptr;
  int graph = 0;  // where it was made; 0: outside of any body
  Tensor get() const {
    auto& builder = workshop->get();
    if (std::ranges::find(workshop->open, graph) == workshop->open.end())
      fail(ErrorKind::invalid_argument, "this tensor belongs to a body that is finished; what a body makes is seen outside as a result of its node");
    return {builder, value};
  }
};
struct DecodeHandle {
  WorkshopPtr workshop;
  Decode* decode = nullptr;
  Decode& get() const {
    workshop->get();
    if (workshop->open.size() > 1) fail(ErrorKind::unsupported, "masks, rope and the cache are made outside of bodies");
    return *decode;
  }
};

class GraphInWork {
 public:
  explicit GraphInWork(nn::Builder& builder);
  ~GraphInWork() {
    workshop_->bodies.clear();
    workshop_->builder = nullptr;
  }
  GraphInWork(const GraphInWork&) = delete;
  GraphInWork& operator=(const GraphInWork&) = delete;

  py::object op() const;  // mobius.nn.OpBuilder
  py::object wrap(Tensor tensor) const;
  py::object wrap(Decode& decode) const;

 private:
  WorkshopPtr workshop_;
};

Tensor tensor_of(const py::handle& object);

}  // namespace mobius::python
