//   x / √(mean(x²) + ε) · γ   ⟶   RMSNormalization(x, γ)          mean over the last axis
//
// In half precision exporters write Casts to float32 around the quotient, which is what the operator does itself: it rounds before γ.
// Without Casts it computes the same with smaller errors, and no square overflows. A γ that takes part in float32 stays there: the norm is
// then one of float32, with its Casts outside.
#include "mobius/ep/versions.hpp"
#include "mobius/rules/conditions.hpp"
#include "mobius/rules/norm_patterns.hpp"
#include "mobius/rules/rules.hpp"

namespace mobius::rules {
using namespace rewrite;

namespace {

constexpr DataTypeSet half_types = {ir::DataType::float16, ir::DataType::bfloat16};
constexpr DataTypeSet stash_types = {ir::DataType::float32, ir::DataType::float16, ir::DataType::bfloat16};  // that float32 can hold

// Where the target lacks the operator, it is written on the way to SkipSimplifiedLayerNormalization; InlinePass expands the norms that no sum
// stands before.
bool has_op(const Target& t) {
  const bool leads_to_skip_norm = t.opset >= lowest_opset && t.ep.supports_skip_layer_norm && t.ep.skip_layer_norm_dtypes.contains(t.dtype);
  return t.opset >= 23 || leads_to_skip_norm;
}

Rule plain() {
  const auto [x, gamma] = vars("x", "gamma");
  const auto eps = attr<float>("eps");
  const auto mean = mean_of(square_of(x), "axes");
  return {.name = "RMSNorm",
          .from = {over_root(x, mean, eps) * gamma},
          .to = {rms_norm(x, gamma, {{"epsilon", eps}})},
          .where = {reduces_last_axis(mean), is_channel_vector(gamma, x), same_dtype(gamma, x), is_one_of(x, stash_types)},
          .when = has_op};
}

Rule with_casts() {
  const auto [x, gamma] = vars("x", "gamma");
  const auto eps = attr<float>("eps");
  const auto back = attr<std::int64_t>("back");
  const auto wide = cast(x, ir::DataType::float32);
  const auto mean = mean_of(square_of(wide), "axes");
  return {.name = "RMSNormInFloat",
          .from = {cast_to(over_root(wide, mean, eps), back) * gamma},
          .to = {rms_norm(x, gamma, {{"epsilon", eps}})},
          .where = {reduces_last_axis(mean), is_channel_vector(gamma, x), same_dtype(gamma, x), is_one_of(x, half_types), casts_to_type_of(back, x)},
          .when = has_op};
}

// ONNX Runtime's operator from before there was a standard one.
Rule simplified_layer_norm() {
  const auto [x, gamma] = vars("x", "gamma");
  const auto eps = attr<float>("eps");
  const auto axis = attr<std::int64_t>("axis");
  return {.name = "SimplifiedLayerNorm",
          .from = {ops::one<Pat>({"", "SimplifiedLayerNormalization"}, {x, gamma}, {{"epsilon", eps}, {"axis", axis}})},
          .to = {rms_norm(x, gamma, {{"epsilon", eps}, {"axis", axis}})},
          .where = {same_dtype(gamma, x)},
          .when = has_op};
}

// γ of another type is legal, and what torch writes for Gemma's norm; but kernels want one type.
Rule with_float_weight() {
  const auto [x, gamma] = vars("x", "gamma");
  const auto eps = attr<float>("eps");
  const auto axis = attr<std::int64_t>("axis");
  return {.name = "RMSNormOneType",
          .from = {rms_norm(x, gamma, {{"epsilon", eps}, {"axis", axis}})},
          .to = {rms_norm(cast(x, ir::DataType::float32), gamma, {{"epsilon", eps}, {"axis", axis}})},
          .where = {is_one_of(x, half_types), is_one_of(gamma, {ir::DataType::float32})},
          .when = has_op};
}

}  // namespace

RuleGroup rms_norm_fusion() { return {"RMSNormFusion", {with_casts(), plain(), simplified_layer_norm(), with_float_weight()}}; }

}  // namespace mobius::rules
