// Function bodies of activations and of FusedMatMul.
//   Gelu(x) = x/2 · (1 + erf(x/√2)), its tanh form x/2 · (1 + tanh(√(2/π)·(x + 0.044715·x³))), Swish(x) = x·σ(αx)
#include <algorithm>
#include <numeric>

#include "mobius/ops/functions_body.hpp"

namespace mobius::ops {

ir::Value* gelu_tanh_body(GraphBuilder& b, ir::Value* x) {
  ir::Value* cube = b.mul(b.mul(x, x), x);
  ir::Value* inner = b.mul(b.add(x, b.mul(cube, b.scalar_like(0.044715, x))), b.scalar_like(0.79788456080286535588, x));
  return b.mul(b.mul(x, b.scalar_like(0.5, x)), b.add(b.op("Tanh", {inner}), b.scalar_like(1, x)));
}

namespace {

using ir::Value;

Value* gelu_erf(BodyBuilder& b, Value* x) {
  if (b.opset() >= 20) return b.op("Gelu", {x});
  Value* phi = b.add(b.op("Erf", {b.mul(x, b.scalar_like(0.70710678118654752440, x))}), b.scalar_like(1, x));
  return b.mul(b.mul(x, b.scalar_like(0.5, x)), phi);
}

Value* gelu_tanh(BodyBuilder& b, Value* x) {
  if (b.opset() >= 20) return b.op("Gelu", {x}, {{"approximate", std::string("tanh")}});
  return gelu_tanh_body(b, x);
}

std::optional<ir::Function> gelu(BodyBuilder& b) {
  // Spelled out also where the version has a Gelu: this is that operator's own body.
  BodyBuilder plain(b.node(), std::min<std::int64_t>(b.opset(), 19), {"X"});
  bool tanh = b.node().string_attribute("approximate", "none") == "tanh";
  plain.output(0, tanh ? gelu_tanh(plain, plain.input(0)) : gelu_erf(plain, plain.input(0)));
  auto function = plain.finish();
  function.opset_imports[""] = b.opset();
  return function;
}

std::optional<ir::Function> ms_gelu(BodyBuilder& b) {
  b.output(0, gelu_erf(b, b.input(0)));
  return b.finish();
}

std::optional<ir::Function> bias_gelu(BodyBuilder& b) {
  b.output(0, gelu_erf(b, b.add(b.input(0), b.input(1))));
  return b.finish();
}

std::optional<ir::Function> fast_gelu(BodyBuilder& b) {
  b.output(0, gelu_tanh(b, b.input(1) ? b.add(b.input(0), b.input(1)) : b.input(0)));
  return b.finish();
}

std::optional<ir::Function> swish_with(BodyBuilder& b, float alpha) {
  Value* x = b.input(0);
  const bool scales = alpha != 1.0F || b.node().attribute("alpha");
  b.output(0, b.mul(x, b.op("Sigmoid", {scales ? b.mul(x, b.attribute_like("alpha", alpha, x)) : x})));
  return b.finish();
}
std::optional<ir::Function> quick_gelu(BodyBuilder& b) { return swish_with(b, 1.702F); }
std::optional<ir::Function> swish(BodyBuilder& b) { return swish_with(b, 1.0F); }

// An operand of FusedMatMul as MatMul reads it: transBatch reads [r, b..., c] as [b..., r, c], then trans exchanges the last two axes.
Value* fused_operand(BodyBuilder& b, std::size_t i, bool trans, bool trans_batch) {
  Value* x = b.input(i);
  if (!trans && !trans_batch) return x;
  auto rank = b.rank(i);
  if (!rank) return trans_batch ? nullptr : b.op("Einsum", {x}, {{"equation", std::string("...ij->...ji")}});
  auto n = *rank;
  if (n < 2 || (trans_batch && n < 3)) return n == 1 && !trans_batch ? x : nullptr;
  std::vector<std::int64_t> perm(n);
  std::iota(perm.begin(), perm.end(), 0);
  if (trans_batch) std::rotate(perm.begin(), perm.begin() + 1, perm.end() - 1);
  if (trans) std::swap(perm[n - 1], perm[n - 2]);
  return b.transpose(x, std::move(perm));
}

std::optional<ir::Function> fused_matmul(BodyBuilder& b) {
  const auto& node = b.node();
  Value* left = fused_operand(b, 0, node.int_attribute("transA", 0) != 0, node.int_attribute("transBatchA", 0) != 0);
  Value* right = fused_operand(b, 1, node.int_attribute("transB", 0) != 0, node.int_attribute("transBatchB", 0) != 0);
  if (!left || !right) return std::nullopt;
  Value* y = b.matmul(left, right);
  auto alpha = node.float_attribute("alpha", 1.0F);
  b.output(0, alpha == 1.0F ? y : b.mul(y, b.scalar_like(alpha, y)));
  return b.finish();
}

std::string ranks_of_transposed(const ir::Node& node) {
  std::string result;
  for (std::size_t i = 0; i < 2; ++i) {
    std::string letter = i == 0 ? "A" : "B";
    if (node.int_attribute("trans" + letter, 0) == 0 && node.int_attribute("transBatch" + letter, 0) == 0) continue;
    const Value* x = node.input(i);
    result += " rank" + letter + "=" + (x && x->rank() ? std::to_string(*x->rank()) : "?");
  }
  return result;
}

}  // namespace

void add_activation_functions(FunctionTable& table) {
  const std::int64_t no = 0;
  const std::map<std::string_view, ir::Attribute> fused_defaults{{"alpha", 1.0F}, {"transA", no}, {"transB", no}, {"transBatchA", no}, {"transBatchB", no}};
  table[{"", "Gelu"}] = {gelu, {"X"}};
  table[{"", "Swish"}] = {swish, {"X"}, {"alpha"}};
  table[{"com.microsoft", "Gelu"}] = {ms_gelu, {"X"}};
  table[{"com.microsoft", "BiasGelu"}] = {bias_gelu, {"A", "B"}};
  table[{"com.microsoft", "FastGelu"}] = {fast_gelu, {"X", "bias"}};
  table[{"com.microsoft", "QuickGelu"}] = {quick_gelu, {"X"}, {"alpha"}};
  table[{"com.microsoft", "FusedMatMul"}] = {fused_matmul, {"A", "B"}, {}, fused_defaults, ranks_of_transposed};
}

}  // namespace mobius::ops
