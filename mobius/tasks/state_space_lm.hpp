// ssm-text-generation: the graph interface of a language model that has states instead of a key/value cache.
//
//   in   input_ids int64 [batch, sequence_len]; past_states.{i}.conv_state [batch, channels, kernel - 1];
//        past_states.{i}.ssm_state [batch, channels, state] (ssm2: [batch, heads, state, head_dim])
//   out  logits [batch, sequence_len, vocab_size]; present.{i}.conv_state, .ssm_state
//
// There is no attention_mask: every row of a call is tokens throughout.
#pragma once
#include "mobius/tasks/causal_lm.hpp"

namespace mobius {

Component state_space_lm(ir::DataType dtype, const CausalLMForward& forward);

}  // namespace mobius
