// Inference: the other com.microsoft operators: skip norms, activations, quantised products, experts, linear attention.
#include <algorithm>

#include "mobius/ops/infer_context.hpp"

namespace mobius::ops {
namespace {

using ir::DataType;
using ir::Dim;
using ir::Shape;

void want_last_axis(const InferContext& c, std::size_t i) {
  if (!c.shape(0) || c.shape(0)->empty() || !c.shape(i)) return;
  c.want_rank(i, 1);
  if (known_to_differ(c.shape(0)->back(), c.dim(i, 0))) c.error("input {} is {}, expected the last axis of {}", i, c.show(i), c.show(0));
}

// input, skip, gamma, (beta?,) bias? -> output, mean?, inv_std_var?, input_skip_bias_sum?
void infer_skip_norm(InferContext& c) {
  c.want_rank_in(0, 2, 3);
  for (std::size_t i = 2; i < c.inputs(); ++i) want_last_axis(c, i);
  if (c.shape(0) && c.shape(1)) {
    auto together = c.broadcast({0, 1});
    if (together->size() != c.shape(0)->size()) c.error("input is {}, skip is {}", c.show(0), c.show(1));
  }
  c.same_as_input();
  std::optional<Shape> statistics = c.shape(0);
  if (statistics && !statistics->empty()) statistics->back() = Dim(1);
  c.output(1, DataType::float32, statistics);
  c.output(2, DataType::float32, statistics);
  c.output(3, c.dtype(0), c.shape(0));
}

void infer_bias_activation(InferContext& c) {
  want_last_axis(c, 1);
  c.same_as_input();
}

// A [..., K], B [N, blocks, bytes] -> [..., N]
void infer_matmul_nbits(InferContext& c) {
  auto k = c.required_int("K"), n = c.required_int("N");
  if (!c.shape(0)) return c.output(0, c.dtype(0));
  Shape result = *c.shape(0);
  if (result.empty()) c.error("A has rank 0");
  c.want_equal(result.back(), Dim(k), "last axis of A and K");
  if (c.rank(1) && *c.rank(1) > 0) c.want_equal(c.dim(1, 0), Dim(n), "rows of B and N");
  result.back() = Dim(n);
  c.output(0, c.dtype(0), std::move(result));
}

// data, indices, scales, zero_points? -> indices' shape in place of data's gather axis; packed bytes hold 8 / bits values
void infer_gather_block_quantized(InferContext& c) {
  if (!c.shape(0) || !c.shape(1)) return c.output(0, c.dtype(2));
  Shape data = *c.shape(0);
  auto axis = c.axis(c.int_attribute("gather_axis", 0), data.size());
  auto bits = c.int_attribute("bits", 4);
  if (bits != 2 && bits != 4 && bits != 8) c.error("bits is {}, expected 2, 4 or 8", bits);
  if (c.dtype(0) == DataType::uint8) data.back() = data.back() * Dim(8 / bits);
  Shape result(data.begin(), data.begin() + static_cast<std::ptrdiff_t>(axis));
  result.insert(result.end(), c.shape(1)->begin(), c.shape(1)->end());
  result.insert(result.end(), data.begin() + static_cast<std::ptrdiff_t>(axis) + 1, data.end());
  c.output(0, c.dtype(2), std::move(result));
}

// input [tokens | B, S, H], router_probs [tokens, E], fc1 [E, f·I, H], ...
void infer_moe(InferContext& c) {
  c.want_rank_in(0, 2, 3);
  c.want_rank(1, 2);
  c.want_rank(2, 3);
  c.want_equal(c.dim(1, 1), c.dim(2, 0), "experts of router_probs and fc1");
  bool packed = c.node().op.type == "QMoE";
  if (!packed && c.rank(0)) c.want_equal(c.dim(0, *c.rank(0) - 1), c.dim(2, 2), "widths of input and fc1");
  c.same_as_input();
}

// query [B, T, Hq·dk], key [B, T, Hkv·dk], value [B, T, Hkv·dv], past_state? [B, Hkv, dk, dv], ... -> output, present_state
void infer_linear_attention(InferContext& c) {
  for (std::size_t i = 0; i < 3; ++i) c.want_rank(i, 3);
  c.want_rank(3, 4);
  auto hq = c.heads("q_num_heads"), hkv = c.heads("kv_num_heads");

  Dim dk = divide_exactly(c.dim(0, 2), hq), dv = divide_exactly(c.dim(2, 2), hkv);
  bool ms = c.node().op.domain == "com.microsoft";
  c.output(0, c.dtype(0), Shape{c.dim(0, 0), c.dim(0, 1), dv * Dim(ms ? std::max(hq, hkv) : hq)});
  c.output(1, c.has(3) ? c.dtype(3) : c.dtype(0), Shape{c.dim(0, 0), Dim(hkv), dk, dv});
}

// input [B, C, L] (channels_last: [B, L, C]), weight [C, 1, k], bias?, past_state? [B, C, (k-1)·dilation] -> output, present_state
void infer_causal_conv(InferContext& c) {
  c.want_rank_in(0, 3, 5);
  bool last = c.int_attribute("channels_last", 0) != 0;
  Dim channels = c.dim(0, last ? c.rank(0).value_or(3) - 1 : 1);
  c.want_equal(channels, c.dim(1, 0), "channels of input and weight");
  c.same_as_input();
  if (c.has(3)) return c.output(1, c.dtype(3), c.shape(3));
  Dim kernel = c.rank(1) ? c.dim(1, *c.rank(1) - 1) : Dim();
  auto dtype = c.dtype(0);
  if (c.rank(0) != std::optional<std::size_t>(3)) return c.output(1, dtype);
  Dim kept = (kernel - Dim(1)) * Dim(c.int_attribute("dilation", 1));
  c.output(1, dtype, last ? Shape{c.dim(0, 0), kept, channels} : Shape{c.dim(0, 0), channels, kept});
}

// a, dt_bias, decay_scale, b? -> decay, beta
void infer_linear_attention_gate(InferContext& c) {
  c.output(0, c.dtype(0), c.shape(0));
  c.output(1, c.dtype(3), c.shape(3));
}

// X, Y -> gelu(X)·Y and the like: [.., 2n] -> [.., n]
void infer_bias_split_gelu(InferContext& c) {
  auto result = c.shape(0);
  if (result && !result->empty()) result->back() = divide_exactly(result->back(), 2);
  c.output(0, c.dtype(0), std::move(result));
}

}  // namespace

void add_infer_contrib(InferTable& table) {
  auto& ms = table.microsoft;
  ms["SkipLayerNormalization"] = ms["SkipSimplifiedLayerNormalization"] = {infer_skip_norm, 3};
  ms["BiasGelu"] = ms["FastGelu"] = {infer_bias_activation, 1};
  ms["Gelu"] = ms["QuickGelu"] = {infer_same, 1};
  ms["GatedRMSNorm"] = {infer_same, 3};
  ms["GroupNorm"] = {infer_same, 3};
  ms["BiasSplitGelu"] = {infer_bias_split_gelu, 2};
  ms["MatMulNBits"] = {infer_matmul_nbits, 3};
  ms["GatherBlockQuantized"] = {infer_gather_block_quantized, 3};
  ms["MoE"] = {infer_moe, 5};
  ms["QMoE"] = {infer_moe, 5};
  ms["LinearAttention"] = {infer_linear_attention, 3};
  ms["CausalConvWithState"] = {infer_causal_conv, 2};
  ms["LinearAttentionGate"] = {infer_linear_attention_gate, 3};
  table.onnx["LinearAttention"] = {infer_linear_attention, 3};
  table.onnx["CausalConvWithState"] = {infer_causal_conv, 2};
}

}  // namespace mobius::ops
