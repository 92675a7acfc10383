//   GroupQueryAttention(packed, ...)   ⟶   GroupQueryAttention(q, k, v, ...)      q, k, v = Split(packed)
//   Split(x·[Wq Wk Wv] + [bq bk bv])   ⟶   x·Wq + bq, x·Wk + bk, x·Wv + bv
//
// For kernels that don't take packed operands. The Split goes up through bias and product until it meets the weights, where it becomes a
// part of their recipes.
#include "mobius/rules/conditions.hpp"
#include "mobius/rules/gqa.hpp"
#include "mobius/rules/rules.hpp"

namespace mobius::rules {
using namespace rewrite;

namespace {

bool needs_unpacking(const Target& t) { return !t.ep.supports_fused_rope; }

// Heads of size D: packed is [B, S, (heads + 2·kv_heads)·D].
std::optional<std::vector<std::int64_t>> sizes_of(const ir::Node& gqa) {
  const auto heads = gqa.int_attribute("num_heads", 0), kv_heads = gqa.int_attribute("kv_num_heads", 0);
  const auto* packed = gqa.input(0);
  const auto width = packed->rank() == 3u ? (*packed->shape())[2].as_static() : std::nullopt;
  if (!width || heads <= 0 || kv_heads <= 0 || *width % (heads + 2 * kv_heads) != 0) return std::nullopt;
  const auto size = *width / (heads + 2 * kv_heads);
  return std::vector{heads * size, kv_heads * size, kv_heads * size};
}

Rule split_operand(bool rotating) {
  const auto [packed, past_key, past_value, seqlens, total, cos, sin] = vars("packed", "past_key", "past_value", "seqlens_k", "total", "cos", "sin");
  std::vector<Pat::Arg> operands{packed, {}, {}, past_key, past_value, seqlens, total};
  if (rotating) operands.insert(operands.end(), {cos, sin});
  const auto results = ms::group_query_attention<Pat>(operands, gqa_attributes());
  const auto y = results[0];
  return {.name = "UnpackQKV",
          .from = {results.begin(), results.end()},
          .where = {require("the width of the packed operand is not known", [=](const Match& m) { return sizes_of(*m.node(y)).has_value(); })},
          .when = needs_unpacking,
          .make = [=](Inserter& at, const Match& m, const Target&) {
            const auto parts = at.add({"", "Split"}, {m[packed], at.integers(*sizes_of(*m.node(y)))}, {{"axis", std::int64_t{2}}}, 3);
            auto in = m.node(y)->inputs();
            std::copy(parts.begin(), parts.end(), in.begin());
            return at.add(m.node(y)->op, std::move(in), m.node(y)->attributes, 3);
          }};
}

// Queries, keys and values beside each other: three parts of the last of three axes.
std::vector<Condition> is_cut_like_packed(const Pat& part, const Pat& whole) {
  return {require("it is not cut into three parts", [=](const Match& m) { return m.node(part)->outputs().size() == 3; }), has_rank(whole, 3)};
}

Rule through_bias() {
  const auto [product, bias, sizes] = vars("product", "bias", "sizes");
  const auto parts = split<3>(product + bias, sizes, 2);
  auto where = is_cut_like_packed(parts[0], product);
  where.insert(where.end(), {is_constant(bias), is_channel_vector(bias, product)});
  const auto products = split<3>(product, sizes, 2), biases = split<3>(bias, sizes, 0);
  return {.name = "SplitBias",
          .from = {parts.begin(), parts.end()},
          .to = {products[0] + biases[0], products[1] + biases[1], products[2] + biases[2]},
          .where = std::move(where),
          .when = needs_unpacking};
}

Rule through_product(Product kind) {
  const auto [x, weight, sizes] = vars("x", "weight", "sizes");
  const auto y = product(x, weight, kind);
  const auto parts = split<3>(y, sizes, 2), weights = split<3>(weight, sizes, output_axis(kind));
  auto where = is_cut_like_packed(parts[0], y);
  where.insert(where.end(), {is_constant(weight), has_rank(weight, 2)});
  return {.name = "SplitProduct",
          .from = {parts.begin(), parts.end()},
          .to = {product(x, weights[0], kind), product(x, weights[1], kind), product(x, weights[2], kind)},
          .where = std::move(where),
          .when = needs_unpacking};
}

}  // namespace

RuleGroup unpack_qkv() {
  RuleGroup group{"UnpackQKV", {split_operand(true), split_operand(false)}, {through_bias()}};
  for (const auto kind : all_products) group.then.push_back(through_product(kind));
  return group;
}

}  // namespace mobius::rules
