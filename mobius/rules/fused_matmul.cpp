//   x · wᵀ        ⟶   FusedMatMul(x, w; transB)          also xᵀ · w, and both
//   c · (a · b)   ⟶   FusedMatMul(a, b; alpha = c)       also (c · a) · b, a · (c · b), and division by c
//
// A Linear keeps the checkpoint's [out, in] layout: the kernel reads it transposed at no cost, and the file is a copy of the checkpoint.
// Where function bodies stand in for kernels, a model holds one form of an operator: only the product of a Linear is fused then.
#include <cmath>

#include "mobius/ops/expr.hpp"
#include "mobius/rules/conditions.hpp"
#include "mobius/rules/rules.hpp"

namespace mobius::rules {
using namespace rewrite;

namespace {

constexpr ir::OpName fused = {ops::microsoft, "FusedMatMul"};

bool has_kernel(const Target& t) { return t.ep.supports_fused_matmul; }
bool has_all_forms(const Target& t) { return t.ep.supports_fused_matmul && !t.ep.relies_on_function_bodies; }

// The last two axes of a matrix, or of a stack of them.
Pat transposed(const Pat& x) { return transpose(x, {1, 0}) | transpose(x, {0, 2, 1}) | transpose(x, {0, 1, 3, 2}); }

std::vector<Condition> kernel_runs(const Pat& a, const Pat& b) {
  return {kernel_takes("FusedMatMul", &EpCapabilities::fused_matmul_dtypes, a), has_rank_in(a, 2, 4), has_rank_in(b, 2, 4)};
}

Rule product_of_linear() {
  const auto [x, w] = vars("x", "w");
  return {.name = "FusedMatMul",
          .from = {matmul(x, transpose(w, {1, 0}))},
          .to = {ms::fused_matmul(x, w, {{"transB", 1}})},
          .where = kernel_runs(x, w),
          .when = has_kernel};
}

std::vector<Rule> transposed_operands() {
  const auto [a, b] = vars("a", "b");
  const auto alpha = attr<float>("alpha");
  const auto trans_a = attr<std::int64_t>("transA"), trans_b = attr<std::int64_t>("transB");
  const auto rule = [&](const char* name, const Pat& from, const Pat& to) {
    return Rule{.name = name, .from = {from}, .to = {to}, .where = kernel_runs(a, b), .when = has_all_forms};
  };
  return {
      rule("FusedMatMulTransB", matmul(a, transposed(b)), ms::fused_matmul(a, b, {{"transB", 1}})),
      rule("FusedMatMulTransA", matmul(transposed(a), b), ms::fused_matmul(a, b, {{"transA", 1}})),
      rule("FusedMatMulAlsoTransB", ms::fused_matmul(a, transposed(b), {{"alpha", alpha}, {"transA", trans_a}, {"transB", 0}}),
           ms::fused_matmul(a, b, {{"alpha", alpha}, {"transA", trans_a}, {"transB", 1}})),
      rule("FusedMatMulAlsoTransA", ms::fused_matmul(transposed(a), b, {{"alpha", alpha}, {"transA", 0}, {"transB", trans_b}}),
           ms::fused_matmul(a, b, {{"alpha", alpha}, {"transA", 1}, {"transB", trans_b}})),
  };
}

// A product in either form, with what it has of the attributes.
struct Product {
  Product(const Pat& a, const Pat& b)
      : plain(matmul(a, b)),
        fused(ms::fused_matmul(a, b, {{"alpha", attr<float>("alpha")}, {"transA", attr<std::int64_t>("transA")}, {"transB", attr<std::int64_t>("transB")}})),
        any(plain | fused) {}
  Pat plain, fused, any;
};

Condition is_a_scale(const AttrVar<float>& c) {
  return require("the scale is zero or not a number", [=](const Match& m) { return std::isfinite(*m.attribute(c)) && std::isfinite(1 / *m.attribute(c)); });
}

// `scale` is a product or quotient with the constant c; `product` is what it belongs to.
Rule scaled(const char* name, const Pat& root, const Product& product, const Pat& divided, const Pat& a, const Pat& b) {
  const auto c = attr<float>("c");
  auto where = kernel_runs(a, b);
  where.push_back(is_a_scale(c));
  const auto make = [=](Inserter& at, const Match& m, const auto&...) {
    auto attributes = m.node(product.any)->attributes;
    const auto& own = attributes["alpha"];
    const float before = std::holds_alternative<float>(own) ? std::get<float>(own) : 1.0F;
    attributes["alpha"] = m.node(divided) ? before / *m.attribute(c) : before * *m.attribute(c);
    return at.add(fused, {m[a], m[b]}, std::move(attributes));
  };
  return {.name = name, .from = {root}, .where = std::move(where), .when = has_all_forms, .make = make};
}

std::vector<Rule> scales() {
  const auto [a, b] = vars("a", "b");
  const auto c = attr<float>("c");
  const Product product(a, b);
  const auto quotient = product.any / c, quotient_a = a / c, quotient_b = b / c;
  const Product of_a(quotient_a | a * c, b), of_b(a, quotient_b | b * c);
  return {
      scaled("FusedMatMulScale", quotient | product.any * c, product, quotient, a, b),
      scaled("FusedMatMulScaledA", of_a.any, of_a, quotient_a, a, b),
      scaled("FusedMatMulScaledB", of_b.any, of_b, quotient_b, a, b),
  };
}

}  // namespace

RuleGroup fused_matmul() {
  RuleGroup group{"FusedMatMul", {product_of_linear()}};
  for (auto rules : {transposed_operands(), scales()}) group.rules.insert(group.rules.end(), rules.begin(), rules.end());
  return group;
}

}  // namespace mobius::rules
