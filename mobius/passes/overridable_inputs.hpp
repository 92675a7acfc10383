// Graph inputs with a default value: callers may feed another one (ONNX IR 4 and later), so the default is no constant.
//
//   OverridableInputs inputs(model);     // passes and rules now see values that nothing is known of
//   ...
//   inputs.restore();                    // else the destructor does it, where something failed
//
// A node that no pass and no rule knows stands between each of them and its readers meanwhile.
#pragma once
#include "mobius/ir/model.hpp"

namespace mobius::passes {

class OverridableInputs {
 public:
  explicit OverridableInputs(ir::Model& model);
  ~OverridableInputs() { restore(); }
  OverridableInputs(const OverridableInputs&) = delete;
  OverridableInputs& operator=(const OverridableInputs&) = delete;
  void restore();  // a second time nothing is left to do

 private:
  ir::Graph& graph_;
};

}  // namespace mobius::passes
