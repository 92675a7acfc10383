// The op vocabulary: one function per operator, named as in PyTorch or ONNX, written once for models and rules alike.
//
//   Tensor y = rms_norm(x + residual, weight, {{"epsilon", 1e-6f}});       // emits Add and RMSNormalization
//   Pat    y = rms_norm(x + residual, gamma, {{"epsilon", eps}});          // looks for them
//
// Operand order and attributes are those of the operator specifications (ONNX docs/Operators.md, ONNX Runtime
// docs/ContribOperators.md). Operators of com.microsoft are in namespace ms. An operator that is not here can be written as
// ops::one<T>({domain, type}, {operands}, {attributes}).
#pragma once
#include "mobius/ops/expr.hpp"

namespace mobius {

// ── arithmetic ───────────────────────────────────────────────────────────────────────────────────────────────────────────
template <Expr T>
T operator+(T a, Arg<T> b) {
  return ops::one<T>({"", "Add"}, {a, b});
}
template <Expr T>
T operator-(T a, Arg<T> b) {
  return ops::one<T>({"", "Sub"}, {a, b});
}
template <Expr T>
T operator*(T a, Arg<T> b) {
  return ops::one<T>({"", "Mul"}, {a, b});
}
template <Expr T>
T operator/(T a, Arg<T> b) {
  return ops::one<T>({"", "Div"}, {a, b});
}
template <Expr T>
T operator-(T a) {
  return ops::one<T>({"", "Neg"}, {a});
}
template <Expr T>
T pow(T a, Arg<T> exponent) {
  return ops::one<T>({"", "Pow"}, {a, exponent});
}
template <Expr T>
T sqrt(T a) {
  return ops::one<T>({"", "Sqrt"}, {a});
}
template <Expr T>
T reciprocal(T a) {
  return ops::one<T>({"", "Reciprocal"}, {a});
}
template <Expr T>
T exp(T a) {
  return ops::one<T>({"", "Exp"}, {a});
}
template <Expr T>
T log(T a) {
  return ops::one<T>({"", "Log"}, {a});
}
template <Expr T>
T sin(T a) {
  return ops::one<T>({"", "Sin"}, {a});
}
template <Expr T>
T cos(T a) {
  return ops::one<T>({"", "Cos"}, {a});
}
template <Expr T>
T abs(T a) {
  return ops::one<T>({"", "Abs"}, {a});
}
template <Expr T>
T floor(T a) {
  return ops::one<T>({"", "Floor"}, {a});
}
template <Expr T>
T erf(T a) {
  return ops::one<T>({"", "Erf"}, {a});
}
template <Expr T>
T maximum(T a, Arg<T> b) {
  return ops::one<T>({"", "Max"}, {a, b});
}
template <Expr T>
T minimum(T a, Arg<T> b) {
  return ops::one<T>({"", "Min"}, {a, b});
}
template <Expr T>
T clip(T a, Arg<T> low, Arg<T> high) {
  return ops::one<T>({"", "Clip"}, {a, low, high});
}
template <Expr T>
T cumsum(T a, Arg<T> axis) {
  return ops::one<T>({"", "CumSum"}, {a, axis});
}
template <Expr T>
T matmul(T a, Arg<T> b) {
  return ops::one<T>({"", "MatMul"}, {a, b});
}
template <Expr T>
T gemm(T a, Arg<T> b, Arg<T> c, AttrArgs<T> attrs) {
  return ops::one<T>({"", "Gemm"}, {a, b, c}, std::move(attrs));
}

// ── reductions (axes: a list of integers) ────────────────────────────────────────────────────────────────────────────────
template <Expr T>
T reduce_mean(T a, Arg<T> axes, std::int64_t keepdims = 1) {
  return ops::one<T>({"", "ReduceMean"}, {a, axes}, {{"keepdims", keepdims}});
}
template <Expr T>
T reduce_sum(T a, Arg<T> axes, std::int64_t keepdims = 1) {
  return ops::one<T>({"", "ReduceSum"}, {a, axes}, {{"keepdims", keepdims}});
}
template <Expr T>
T reduce_max(T a, Arg<T> axes, std::int64_t keepdims = 1) {
  return ops::one<T>({"", "ReduceMax"}, {a, axes}, {{"keepdims", keepdims}});
}

// ── comparison and logic ─────────────────────────────────────────────────────────────────────────────────────────────────
template <Expr T>
T less(T a, Arg<T> b) {
  return ops::one<T>({"", "Less"}, {a, b});
}
template <Expr T>
T less_equal(T a, Arg<T> b) {
  return ops::one<T>({"", "LessOrEqual"}, {a, b});
}
template <Expr T>
T greater(T a, Arg<T> b) {
  return ops::one<T>({"", "Greater"}, {a, b});
}
template <Expr T>
T greater_equal(T a, Arg<T> b) {
  return ops::one<T>({"", "GreaterOrEqual"}, {a, b});
}
template <Expr T>
T equal(T a, Arg<T> b) {
  return ops::one<T>({"", "Equal"}, {a, b});
}
template <Expr T>
T logical_and(T a, Arg<T> b) {
  return ops::one<T>({"", "And"}, {a, b});
}
template <Expr T>
T logical_or(T a, Arg<T> b) {
  return ops::one<T>({"", "Or"}, {a, b});
}
template <Expr T>
T logical_not(T a) {
  return ops::one<T>({"", "Not"}, {a});
}
template <Expr T>
T is_nan(T a) {
  return ops::one<T>({"", "IsNaN"}, {a});
}
template <Expr T>
T where(T condition, Arg<T> a, Arg<T> b) {
  return ops::one<T>({"", "Where"}, {condition, a, b});
}

// ── shape and data movement ──────────────────────────────────────────────────────────────────────────────────────────────
template <Expr T>
T cast(T a, ir::DataType to) {
  return ops::one<T>({"", "Cast"}, {a}, {{"to", static_cast<std::int64_t>(to)}});
}
template <Expr T>
T identity(T a) {
  return ops::one<T>({"", "Identity"}, {a});
}
template <Expr T>
T shape(T a) {
  return ops::one<T>({"", "Shape"}, {a});
}
template <Expr T>
T shape(T a, std::int64_t start, std::int64_t end) {
  return ops::one<T>({"", "Shape"}, {a}, {{"start", start}, {"end", end}});
}
template <Expr T>
T reshape(T a, Arg<T> shape) {
  return ops::one<T>({"", "Reshape"}, {a, shape});
}
template <Expr T>
T transpose(T a, std::vector<std::int64_t> perm) {
  return ops::one<T>({"", "Transpose"}, {a}, {{"perm", std::move(perm)}});
}
template <Expr T>
T unsqueeze(T a, Arg<T> axes) {
  return ops::one<T>({"", "Unsqueeze"}, {a, axes});
}
template <Expr T>
T squeeze(T a, Arg<T> axes) {
  return ops::one<T>({"", "Squeeze"}, {a, axes});
}
template <Expr T>
T expand(T a, Arg<T> shape) {
  return ops::one<T>({"", "Expand"}, {a, shape});
}
template <Expr T>
T tile(T a, Arg<T> repeats) {
  return ops::one<T>({"", "Tile"}, {a, repeats});
}
template <Expr T>
T gather(T a, Arg<T> indices, std::int64_t axis = 0) {
  return ops::one<T>({"", "Gather"}, {a, indices}, {{"axis", axis}});
}
template <Expr T>
T gather_elements(T a, Arg<T> indices, std::int64_t axis) {
  return ops::one<T>({"", "GatherElements"}, {a, indices}, {{"axis", axis}});
}
template <Expr T>
T scatter_elements(T a, Arg<T> indices, Arg<T> updates, std::int64_t axis) {
  return ops::one<T>({"", "ScatterElements"}, {a, indices, updates}, {{"axis", axis}});
}
template <Expr T>
T nonzero(T a) {
  return ops::one<T>({"", "NonZero"}, {a});
}  // [rank, n]
// The k largest along an axis, sorted, and where they are (int64).
template <Expr T>
std::array<T, 2> topk(T a, Arg<T> k, std::int64_t axis) {
  return ops::many<2, T>({"", "TopK"}, {a, k}, {{"axis", axis}});
}
template <Expr T>
T slice(T a, Arg<T> starts, Arg<T> ends, Arg<T> axes) {
  return ops::one<T>({"", "Slice"}, {a, starts, ends, axes});
}
template <Expr T>
T concat(std::vector<Arg<T>> parts, std::int64_t axis) {
  return ops::one<T>({"", "Concat"}, std::move(parts), {{"axis", axis}});
}
template <std::size_t N, Expr T>
std::array<T, N> split(T a, Arg<T> sizes, std::int64_t axis) {
  return ops::many<N, T>({"", "Split"}, {a, sizes}, {{"axis", axis}});
}

// ── activations ──────────────────────────────────────────────────────────────────────────────────────────────────────────
template <Expr T>
T sigmoid(T a) {
  return ops::one<T>({"", "Sigmoid"}, {a});
}
template <Expr T>
T tanh(T a) {
  return ops::one<T>({"", "Tanh"}, {a});
}
template <Expr T>
T relu(T a) {
  return ops::one<T>({"", "Relu"}, {a});
}
template <Expr T>
T softplus(T a) {
  return ops::one<T>({"", "Softplus"}, {a});
}
template <Expr T>
T swish(T a) {
  return ops::one<T>({"", "Swish"}, {a});
}  // x·σ(x), opset 24
template <Expr T>
T gelu(T a) {
  return ops::one<T>({"", "Gelu"}, {a});
}  // x·Φ(x)
template <Expr T>
T gelu_tanh(T a) {
  return ops::one<T>({"", "Gelu"}, {a}, {{"approximate", std::string("tanh")}});
}
template <Expr T>
T softmax(T a, std::int64_t axis) {
  return ops::one<T>({"", "Softmax"}, {a}, {{"axis", axis}});
}

// ── normalisation and attention ──────────────────────────────────────────────────────────────────────────────────────────
// x / √(mean(x²) + ε) · weight over the last axis. Attributes: epsilon, axis, stash_type.
template <Expr T>
T rms_norm(T x, Arg<T> weight, AttrArgs<T> attrs) {
  return ops::one<T>({"", "RMSNormalization"}, {x, weight}, std::move(attrs));
}
// (x − mean) / √(var + ε) · weight + bias over the last axis. bias may be absent.
template <Expr T>
T layer_norm(T x, Arg<T> weight, Arg<T> bias, AttrArgs<T> attrs) {
  return ops::one<T>({"", "LayerNormalization"}, {x, weight, bias}, std::move(attrs));
}
// x [B, S, heads·dim] or [B, heads, S, dim]; cos, sin [positions, rotary/2] with position_ids [B, S], or [B, S, rotary/2] without.
// Attributes: num_heads, interleaved, rotary_embedding_dim.
template <Expr T>
T rotary_embedding(T x, Arg<T> cos, Arg<T> sin, Arg<T> position_ids, AttrArgs<T> attrs) {
  return ops::one<T>({"", "RotaryEmbedding"}, {x, cos, sin, position_ids}, std::move(attrs));
}
// q [B, S, heads·dim], k and v [B, S, kv_heads·dim], mask bool or float [B, 1, S, T], past [B, kv_heads, P, dim].
// Results: y [B, S, heads·dim], present_key, present_value. Attributes: q_num_heads, kv_num_heads, scale, softcap, is_causal.
template <Expr T>
std::array<T, 3> attention(T q, Arg<T> k, Arg<T> v, Arg<T> mask, Arg<T> past_key, Arg<T> past_value, AttrArgs<T> attrs) {
  return ops::many<3, T>({"", "Attention"}, {q, k, v, mask, past_key, past_value}, std::move(attrs));
}

// ── com.microsoft ────────────────────────────────────────────────────────────────────────────────────────────────────────
namespace ms {

// alpha · A' · B', each operand transposed in its last two axes where transA, transB say so.
template <Expr T>
T fused_matmul(T a, Arg<T> b, AttrArgs<T> attrs) {
  return ops::one<T>({ops::microsoft, "FusedMatMul"}, {a, b}, std::move(attrs));
}
// s = x + skip (+ bias); y = RMSNorm(s) · gamma. Results: y, mean and inv_std (unused), s. bias may be absent.
template <Expr T>
std::array<T, 4> skip_rms_norm(T x, Arg<T> skip, Arg<T> gamma, Arg<T> bias, AttrArgs<T> attrs) {
  return ops::many<4, T>({ops::microsoft, "SkipSimplifiedLayerNormalization"}, {x, skip, gamma, bias}, std::move(attrs));
}
// s = x + skip (+ bias); y = LayerNorm(s) · gamma + beta. Results as above; beta and bias may be absent.
template <Expr T>
std::array<T, 4> skip_layer_norm(T x, Arg<T> skip, Arg<T> gamma, Arg<T> beta, Arg<T> bias, AttrArgs<T> attrs) {
  return ops::many<4, T>({ops::microsoft, "SkipLayerNormalization"}, {x, skip, gamma, beta, bias}, std::move(attrs));
}
// Gelu(x + bias): the erf form.
template <Expr T>
T bias_gelu(T x, Arg<T> bias) {
  return ops::one<T>({ops::microsoft, "BiasGelu"}, {x, bias});
}
// Gelu(x + bias): the tanh form. bias may be absent.
template <Expr T>
T fast_gelu(T x, Arg<T> bias) {
  return ops::one<T>({ops::microsoft, "FastGelu"}, {x, bias});
}

// Operands in the operator's order: query [B, S, heads·dim] (packed: [B, S, (heads + 2·kv_heads)·dim], then key and value are absent),
// key, value, past_key, past_value [B, kv_heads, P, dim], seqlens_k [B] (tokens of each row − 1), total_sequence_length, cos_cache,
// sin_cache, position_ids, attention_bias, ... Results: output, present_key, present_value.
template <Expr T>
std::array<T, 3> group_query_attention(std::vector<Arg<T>> operands, AttrArgs<T> attrs) {
  return ops::many<3, T>({ops::microsoft, "GroupQueryAttention"}, std::move(operands), std::move(attrs));
}

// A recurrence over states [B, kv_heads, dk, dv], token by token. query [B, S, q_heads·dk], key [B, S, (kv_heads or fewer)·dk],
// value [B, S, kv_heads·dv], decay (log) [B, S, kv_heads or kv_heads·dk], beta [B, S, kv_heads or 1]. Results: output
// [B, S, max(q_heads, kv_heads)·dv], present_state. Attributes: q_num_heads, kv_num_heads, update_rule (linear, gated, delta, gated_delta), scale.
template <Expr T>
std::array<T, 2> linear_attention(T query, Arg<T> key, Arg<T> value, Arg<T> past_state, Arg<T> decay, Arg<T> beta, AttrArgs<T> attrs) {
  return ops::many<2, T>({ops::microsoft, "LinearAttention"}, {query, key, value, past_state, decay, beta}, std::move(attrs));
}
// A depthwise convolution of x [B, C, S] over [past_state, x]: weight [C, 1, k], bias [C], past_state [B, C, k − 1]. Results: y [B, C, S],
// present_state. Attribute: activation (none, silu).
template <Expr T>
std::array<T, 2> causal_conv_with_state(T x, Arg<T> weight, Arg<T> bias, Arg<T> past_state, AttrArgs<T> attrs) {
  return ops::many<2, T>({ops::microsoft, "CausalConvWithState"}, {x, weight, bias, past_state}, std::move(attrs));
}

}  // namespace ms
}  // namespace mobius
