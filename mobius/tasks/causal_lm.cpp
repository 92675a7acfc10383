// Declares the graph's inputs and outputs, and lets the model fill in the middle.
#include "mobius/tasks/causal_lm.hpp"

namespace mobius {

Component causal_lm(ir::DataType dtype, const CausalLMForward& forward) {
  Component c{"model", "decoder", {}};
  c.model.opset_imports[""] = 24;
  auto& graph = *c.model.graph;
  Builder b(graph, dtype);

  const ir::Shape tokens{"batch", "sequence_len"};
  const auto input_ids = b.input("input_ids", ir::DataType::int64, tokens);
  const auto attention_mask = b.input("attention_mask", ir::DataType::int64, {"batch", "past_sequence_len + sequence_len"});
  const auto position_ids = b.input("position_ids", ir::DataType::int64, tokens);

  Decode at(input_ids, attention_mask, position_ids);
  b.output("logits", forward(input_ids, at));
  at.output_caches();

  for (const auto& unread : {attention_mask, position_ids})
    if (!unread.value()->is_used()) graph.remove_input(unread.value());
  import_domains(c.model);
  return c;
}

}  // namespace mobius
