//   d = x − mean(x)
//   d / √(mean(d²) + ε) · γ + β   ⟶   LayerNormalization(x, γ, β)          means over the last axis; γ and β may be absent
//
// Casts around the quotient in half precision are what the operator does itself; see rms_norm_fusion.cpp. Torch makes an
// RMSNormalization of d of some of these: that is taken back.
#include <fmt/core.h>

#include <utility>

#include "mobius/rules/conditions.hpp"
#include "mobius/rules/norm_patterns.hpp"
#include "mobius/rules/rules.hpp"

namespace mobius::rules {
using namespace rewrite;

namespace {

constexpr DataTypeSet half_types = {ir::DataType::float16, ir::DataType::bfloat16};
constexpr DataTypeSet stash_types = {ir::DataType::float32, ir::DataType::float16, ir::DataType::bfloat16};  // that float32 can hold

// The quotient, and what holds of it.
struct Normalized {
  Pat value;
  std::vector<Condition> where;
};

Normalized plain(const Pat& x) {
  const auto mean = mean_of(x, "axes"), d = x - mean, variance = mean_of(square_of(d), "axes of the variance");
  return {over_root(d, variance, attr<float>("eps")), {reduces_last_axis(mean), reduces_last_axis(variance), is_one_of(x, stash_types)}};
}

Normalized with_casts(const Pat& x) {
  const auto back = attr<std::int64_t>("back");
  auto [value, where] = plain(cast(x, ir::DataType::float32));
  where.back() = is_one_of(x, half_types);
  where.push_back(casts_to_type_of(back, x));
  return {cast_to(value, back), std::move(where)};
}

bool has_op(const Target& t) { return t.opset >= 17; }

Rule rule(std::string name, const Pat& x, const Pat& from, const Pat& to, std::vector<Condition> where, std::initializer_list<Pat> vectors) {
  for (const auto& vector : vectors) {
    where.push_back(is_channel_vector(vector, x));
    where.push_back(same_dtype(vector, x));
  }
  return {.name = std::move(name), .from = {from}, .to = {to}, .where = std::move(where), .when = has_op};
}

// A norm without weights gets a weight of ones.
Rule without_weight(std::string name, const Pat& x, Normalized n) {
  n.where.push_back(require("the last axis has no fixed length", [=](const Match& m) {
    const auto& shape = m[x]->shape();
    return shape && !shape->empty() && shape->back().is_static();
  }));
  const auto make = [=](Inserter& at, const Match& m, const Target&) {
    auto* ones = at.constant(ir::make_filled(m[x]->dtype(), {m[x]->shape()->back().value()}, 1), "ones");
    return at.add({"", "LayerNormalization"}, {m[x], ones}, {{"epsilon", *m.attribute(attr<float>("eps"))}});
  };
  return {.name = std::move(name), .from = {n.value}, .where = std::move(n.where), .when = has_op, .make = make};
}

}  // namespace

RuleGroup layer_norm_fusion() {
  const auto [x, gamma, beta] = vars("x", "gamma", "beta");
  const auto eps = attr<float>("eps");
  const auto whole = layer_norm(x, gamma, beta, {{"epsilon", eps}}), no_beta = layer_norm(x, gamma, {}, {{"epsilon", eps}});

  // The longer form of each comes first: the shorter one is a part of it.
  std::vector<Rule> rules;
  for (const auto& [form, n] : {std::pair{"InFloat", with_casts(x)}, std::pair{"", plain(x)}}) {
    rules.push_back(rule(fmt::format("LayerNorm{}", form), x, n.value * gamma + beta, whole, n.where, {gamma, beta}));
    rules.push_back(rule(fmt::format("LayerNorm{}NoBias", form), x, n.value * gamma, no_beta, n.where, {gamma}));
    rules.push_back(without_weight(fmt::format("LayerNorm{}NoWeight", form), x, n));
  }
  const auto mean = mean_of(x, "axes");
  const auto axis = attr<std::int64_t>("axis");
  const auto of_centred = rms_norm(x - mean, gamma, {{"epsilon", eps}, {"axis", axis}});
  const std::vector<Condition> where = {reduces_last_axis(mean), is_last_axis(axis, x)};
  rules.push_back(rule("LayerNormOfCentred", x, of_centred + beta, whole, where, {gamma, beta}));
  rules.push_back(rule("LayerNormOfCentredNoBias", x, of_centred, no_beta, where, {gamma}));
  return {"LayerNormFusion", std::move(rules)};
}

}  // namespace mobius::rules
