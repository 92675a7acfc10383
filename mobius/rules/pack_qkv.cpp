//   GroupQueryAttention(x·Wq, x·Wk, x·Wv, ...)   ⟶   GroupQueryAttention(x·[Wq Wk Wv], ...)      biases likewise
//
// One large product in place of three. The Concat of the weights becomes part of their recipe: three byte ranges, one after the other.
#include <optional>

#include "mobius/rules/gqa.hpp"
#include "mobius/rules/rules.hpp"

namespace mobius::rules {
using namespace rewrite;

namespace {

struct Projection {
  Pat weight, bias, result;
};

Projection project(const Pat& x, const std::string& name, Product kind, bool biased) {
  const auto [weight, bias] = vars(name + "_weight", name + "_bias");
  const auto y = product(x, weight, kind);
  return {weight, bias, biased ? y + bias : y};
}

Condition constants_of_rank(std::vector<Pat> parts, std::size_t rank) {
  return {[=](const Match& m, const Target&) -> std::optional<std::string> {
    for (const auto& p : parts) {
      if (!m[p]->data()) return m[p]->name + " is not a constant";
      if (m[p]->rank() != rank) return m[p]->name + " is not of rank " + std::to_string(rank);
    }
    return std::nullopt;
  }};
}

// `rotating`: with rope inside; else the projections are used as they are.
Rule pack(Product kind, bool biased, bool rotating, bool has_sink) {
  const auto x = Pat::variable("x");
  const auto q = project(x, "q", kind, biased), k = project(x, "k", kind, biased), v = project(x, "v", kind, biased);
  const auto [past_key, past_value, seqlens, total, cos, sin, sink] = vars("past_key", "past_value", "seqlens_k", "total", "cos", "sin", "sink");

  const std::vector<Pat::Arg> rest =
      rotating ? std::vector<Pat::Arg>{past_key, past_value, seqlens, total, cos, sin} : std::vector<Pat::Arg>{past_key, past_value, seqlens, total};
  const auto attend = [&](std::vector<Pat::Arg> operands) {
    operands.insert(operands.end(), rest.begin(), rest.end());
    if (has_sink) operands = with_sink(std::move(operands), sink);
    return ms::group_query_attention<Pat>(std::move(operands), gqa_attributes(rotating ? 1 : 0));
  };
  const auto separate = attend({q.result, k.result, v.result});

  const auto y = product(x, concat<Pat>({q.weight, k.weight, v.weight}, output_axis(kind)), kind);
  const auto packed = biased ? y + concat<Pat>({q.bias, k.bias, v.bias}, 0) : y;
  const auto together = attend({packed, {}, {}});

  Rule rule = {.name = "PackQKV",
               .from = {separate.begin(), separate.end()},
               .to = {together.begin(), together.end()},
               .where = {constants_of_rank({q.weight, k.weight, v.weight}, 2)},
               .when = [](const Target& t) { return t.role == "decoder" && t.ep.qkv_pack_dtypes.contains(t.dtype); }};
  if (biased) rule.where.push_back(constants_of_rank({q.bias, k.bias, v.bias}, 1));
  return rule;
}

}  // namespace

RuleGroup pack_qkv() {
  RuleGroup group{"PackQKV", {}};
  for (const bool rotating : {true, false})
    for (const auto kind : all_products)
      for (const bool biased : {false, true})
        for (const bool has_sink : {false, true}) group.rules.push_back(pack(kind, biased, rotating, has_sink));
  return group;
}

}  // namespace mobius::rules
