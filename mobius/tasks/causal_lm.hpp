// text-generation: the graph interface of a decoder-only language model.
//
//   in   input_ids, position_ids int64 [batch, sequence_len]; attention_mask int64 [batch, past_sequence_len + sequence_len];
//        past_key_values.{i}.key / .value [batch, kv_heads, past_sequence_len, head_dim]
//   out  logits [batch, sequence_len, vocab_size]; present.{i}.key / .value
//
// An input that nothing reads (position_ids of a model without positions) is left out of the graph.
#pragma once
#include <functional>

#include "mobius/components/decode.hpp"
#include "mobius/tasks/component.hpp"

namespace mobius {

using CausalLMForward = std::function<Tensor(Tensor input_ids, Decode& at)>;  // -> logits

Component causal_lm(ir::DataType dtype, const CausalLMForward& forward);

}  // namespace mobius
