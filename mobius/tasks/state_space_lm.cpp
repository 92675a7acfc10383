// Declares the graph's inputs and outputs, and lets the model fill in the middle.
#include "mobius/tasks/state_space_lm.hpp"

namespace mobius {

Component state_space_lm(ir::DataType dtype, const CausalLMForward& forward) {
  Component c{"model", "decoder", {}};
  c.model.opset_imports[""] = 24;
  Builder b(*c.model.graph, dtype);
  const auto input_ids = b.input("input_ids", ir::DataType::int64, {"batch", "sequence_len"});
  Decode at(input_ids);
  b.output("logits", forward(input_ids, at));
  at.output_caches();
  import_domains(c.model);
  return c;
}

}  // namespace mobius
