// Recurrent and convolution states of a decoder graph.
#include <limits>
#include <numeric>

#include "mobius/base/error.hpp"
#include "mobius/components/decode.hpp"
#include "mobius/ep/context.hpp"
#include "mobius/nn/layers.hpp"

namespace mobius {

using ir::DataType;
using nn::scoped;

Decode::Decode(Tensor input_ids)
    : input_ids_(input_ids), attention_mask_(input_ids), position_ids_(input_ids), has_mask_(false), past_prefix_("past_states.") {}

namespace {

// 1, 2, ... along each row of x [B, n]: int32.
Tensor counted(Tensor x) { return cumsum(cast(x, DataType::int32) * 0 + 1, 1); }

// The part of a mask [B, P + S] that is about the tokens at hand: int32 [B, S]. A graph that is captured can't read sizes on the host, and its device may
// gather numbers only.
Tensor of_this_call(Tensor mask, Tensor input_ids) {
  if (!ep_capabilities().requires_graph_capture_rewrite)
    return cast(slice(mask, -shape(input_ids, 1, 2), {std::numeric_limits<std::int64_t>::max()}, {1}), DataType::int32);
  const auto slots = counted(input_ids);
  const auto past = reduce_max(counted(mask), {}, 0) - reduce_max(slots, {}, 0);
  return cast(gather_elements(cast(mask, DataType::float32), slots + (past - 1), 1), DataType::int32);
}

}  // namespace

Tensor Decode::only_tokens(Tensor x) {
  if (!has_mask_) return x;
  if (!token_weights_)
    token_weights_ = scoped(x.builder(), "attention_mask", [&] { return cast(unsqueeze(of_this_call(attention_mask_, input_ids_), {2}), x.dtype()); });
  return x * *token_weights_;
}

// ── convolutions ─────────────────────────────────────────────────────────────────────────────────────────────────────────

// Which steps of [state, x] are the next state: with the last token at step e of x (counted from 1), e ... e + kept - 1. No token at all
// leaves the state as it was. int32 [B, channels, kept].
Tensor Decode::conv_steps(std::int64_t channels, std::int64_t kept) {
  const auto known = conv_steps_.find({channels, kept});
  if (known != conv_steps_.end()) return known->second;
  const auto steps = scoped(attention_mask_.builder(), "attention_mask", [&] {
    const auto last = reduce_max(counted(input_ids_) * of_this_call(attention_mask_, input_ids_), {1});  // [B, 1]
    std::vector<double> offsets(static_cast<std::size_t>(kept));
    std::iota(offsets.begin(), offsets.end(), 0.0);
    const nn::Parameter after("attention_mask.steps_" + std::to_string(kept), ir::make_tensor_of(DataType::int32, {kept}, offsets));
    return expand(unsqueeze(last + after, {1}), {1, channels, 1});
  });
  return conv_steps_.emplace(std::pair(channels, kept), steps).first->second;
}

Tensor Decode::causal_conv(Tensor x, const nn::Parameter& weight, const std::optional<nn::Parameter>& bias, std::string_view activation) {
  const auto channels = weight.dims().at(0), kept = weight.dims().at(2) - 1;
  const auto number = next_number();
  const auto state = past(number, "conv_state", {"batch", channels, kept});
  const auto steps = transpose(only_tokens(x), {0, 2, 1});  // [B, C, S]
  const bool fused = activation == "silu" || activation == "swish";
  ir::Attributes attributes;
  if (fused) attributes["activation"] = std::string("silu");
  auto [y, present] = ms::causal_conv_with_state(steps, weight, bias ? Tensor::Arg(*bias) : Tensor::Arg(), state, std::move(attributes));
  if (has_mask_) present = gather_elements(concat<Tensor>({state, steps}, 2), conv_steps(channels, kept), 2);
  states_.push_back({number, "conv_state", present});
  y = transpose(y, {0, 2, 1});
  return fused || activation.empty() ? y : nn::activation(activation, y);
}

// ── recurrences ──────────────────────────────────────────────────────────────────────────────────────────────────────────

Tensor Decode::recur(Tensor q, Tensor k, Tensor v, const std::optional<Tensor>& decay, const std::optional<Tensor>& beta, const RecurrenceSpec& spec) {
  if (spec.flat && spec.value_dim != 1) fail(ErrorKind::internal, "a flat state has values of 1, not {}", spec.value_dim);
  const auto number = next_number();
  const std::string name(spec.state);
  const auto state = spec.flat ? unsqueeze(past(number, name, {"batch", spec.heads, spec.key_dim}), {3})
                               : past(number, name, {"batch", spec.heads, spec.key_dim, spec.value_dim});
  const auto rule = decay ? (beta ? "gated_delta" : "gated") : (beta ? "delta" : "linear");
  const auto or_absent = [](const std::optional<Tensor>& t) { return t ? Tensor::Arg(*t) : Tensor::Arg(); };
  auto [y, present] = ms::linear_attention(
      q, k, v, state, or_absent(decay), or_absent(beta),
      {{"q_num_heads", spec.query_heads}, {"kv_num_heads", spec.heads}, {"update_rule", std::string(rule)}, {"scale", static_cast<float>(spec.scale)}});
  states_.push_back({number, name, spec.flat ? squeeze(present, {3}) : present});
  return y;
}

}  // namespace mobius
