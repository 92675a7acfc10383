// Function bodies of the normalisations: RMSNormalization, SimplifiedLayerNormalization, Skip(Simplified)LayerNormalization.
//   RMSNorm(x)   = x / √(mean(x²) + ε)
//   LayerNorm(x) = (x − mean(x)) / √(mean((x − mean(x))²) + ε)
// both in the stash type (float32), over the axes from `axis` to the last.
#include "mobius/ops/functions_body.hpp"

namespace mobius::ops {
namespace {

using ir::DataType;
using ir::Value;

// The normalised axes, as negative numbers; nullopt when they depend on a rank that is not known.
std::optional<std::vector<std::int64_t>> normalized_axes(const BodyBuilder& b) {
  auto axis = b.node().int_attribute("axis", -1);
  if (axis >= 0) {
    if (!b.rank(0)) return std::nullopt;
    axis -= static_cast<std::int64_t>(*b.rank(0));
  }
  if (axis >= 0 || axis < -8) return std::nullopt;
  std::vector<std::int64_t> axes;
  for (; axis < 0; ++axis) axes.push_back(axis);
  return axes;
}

Value* inverse_root(BodyBuilder& b, Value* variance, float epsilon, Value* like) {
  Value* shifted = b.add(variance, like ? b.attribute_like("epsilon", epsilon, like) : b.attribute("epsilon", epsilon));
  return b.op("Reciprocal", {b.op("Sqrt", {shifted})});
}

bool wants(const BodyBuilder& b, std::size_t output) { return b.node().output(output) != nullptr; }

// 1 / √(mean(x²) + ε) over the last axis, in float32.
Value* inverse_rms(BodyBuilder& b, Value* x, float epsilon) {
  Value* wide = b.cast(x, DataType::float32);
  return inverse_root(b, b.reduce("ReduceMean", b.mul(wide, wide), {-1}), epsilon, nullptr);
}

bool has_scale_of_its_own_type(const ir::Node& node) { return node.input(0) && node.input(1) && node.input(0)->dtype() != node.input(1)->dtype(); }

// X, scale -> Y, (SimplifiedLayerNormalization:) inv_std_var?
std::optional<ir::Function> rms_norm(BodyBuilder& b) {
  auto axes = normalized_axes(b);
  auto stash = b.node().int_attribute("stash_type", 1);
  if (!axes || (stash != 1 && stash != 11 && stash != 10 && stash != 16)) return std::nullopt;
  if (b.node().op.type != "RMSNormalization" && b.opset() >= 23 && b.node().outputs().size() == 1) {
    b.output(0, b.op("RMSNormalization", {b.input(0), b.input(1)},
                     {{"axis", b.node().int_attribute("axis", -1)}, {"epsilon", b.reference("epsilon", 1e-5F)}, {"stash_type", stash}}));
    return b.finish();
  }
  Value* x = b.cast(b.input(0), static_cast<DataType>(stash));
  Value* inv_std = inverse_root(b, b.reduce("ReduceMean", b.mul(x, x), *axes), 1e-5F, stash == 1 ? nullptr : x);
  Value* normalized = b.cast_like(b.mul(x, inv_std), b.input(0));
  if (has_scale_of_its_own_type(b.node())) normalized = b.cast_like(normalized, b.input(1));
  b.output(0, b.mul(normalized, b.input(1)));
  b.output(1, inv_std);
  return b.finish();
}

Value* skip_sum(BodyBuilder& b, std::size_t bias) {
  Value* sum = b.add(b.input(0), b.input(1));
  return b.input(bias) ? b.add(sum, b.input(bias)) : sum;
}

// input, skip, gamma, bias? -> output, mean?, inv_std_var?, input_skip_bias_sum?
std::optional<ir::Function> skip_rms_norm(BodyBuilder& b) {
  constexpr float epsilon = 1e-12F;
  Value* sum = skip_sum(b, 3);
  Value* inv_std = nullptr;
  if (b.opset() >= 23) {
    b.output(0, b.op("RMSNormalization", {sum, b.input(2)}, {{"epsilon", b.reference("epsilon", epsilon)}}));
    if (wants(b, 1) || wants(b, 2)) inv_std = inverse_rms(b, sum, epsilon);
  } else {
    inv_std = inverse_rms(b, sum, epsilon);
    b.output(0, b.mul(b.cast_like(b.mul(b.cast(sum, DataType::float32), inv_std), b.input(0)), b.input(2)));
  }
  if (wants(b, 1)) b.output(1, b.sub(inv_std, inv_std));  // no mean is taken away
  if (wants(b, 2)) b.output(2, inv_std);
  b.output(3, sum);
  return b.finish();
}

// input, skip, gamma, beta?, bias? -> output, mean?, inv_std_var?, input_skip_bias_sum?
std::optional<ir::Function> skip_layer_norm(BodyBuilder& b) {
  Value* sum = skip_sum(b, 4);
  const bool statistics = wants(b, 1) || wants(b, 2);
  auto y = b.op_n("LayerNormalization", {sum, b.input(2), b.input(3)}, statistics ? 3 : 1, {{"epsilon", b.reference("epsilon", 1e-12F)}});
  b.output(0, y[0]);
  if (wants(b, 1)) b.output(1, y[1]);
  if (wants(b, 2)) b.output(2, y[2]);
  b.output(3, sum);
  return b.finish();
}

std::string form_of_rms_norm(const ir::Node& node) {
  const Value* x = node.input(0);
  const auto rank = node.int_attribute("axis", -1) < 0 ? "" : (x && x->rank() ? " rank=" + std::to_string(*x->rank()) : " rank=?");
  return rank + (has_scale_of_its_own_type(node) ? " scale of its own type" : "");
}

}  // namespace

void add_norm_functions(FunctionTable& table) {
  table[{"", "RMSNormalization"}] = {rms_norm, {"X", "scale"}, {"epsilon"}, {{"axis", std::int64_t{-1}}, {"stash_type", std::int64_t{1}}}, form_of_rms_norm};
  table[{"", "SimplifiedLayerNormalization"}] = {
      rms_norm, {"X", "scale"}, {"epsilon"}, {{"axis", std::int64_t{-1}}, {"stash_type", std::int64_t{1}}}, form_of_rms_norm};
  table[{"com.microsoft", "SkipSimplifiedLayerNormalization"}] = {skip_rms_norm, {"input", "skip", "gamma", "bias"}, {"epsilon"}};
  table[{"com.microsoft", "SkipLayerNormalization"}] = {skip_layer_norm, {"input", "skip", "gamma", "beta", "bias"}, {"epsilon"}};
}

}  // namespace mobius::ops
