//   Attention(q, k, v, mask, past)   ⟶   GroupQueryAttention(q, k, v, past, seqlens_k, total_sequence_length)
//   q = RotaryEmbedding(q'), k = RotaryEmbedding(k')  then goes inside (gqa_rope.cpp).
//
// The kernel attends causally over the tokens of each row, whose number it is told: so the mask must say just that (see
// attention_mask.hpp), and padding may stand on the right only. With Padding::any, and where the mask says more (ALiBi's distances, chunks), it
// goes along as a bias instead, and rope stays outside, where it reads every token's own position.
#include <fmt/format.h>

#include "mobius/rules/attention_mask.hpp"
#include "mobius/rules/gqa.hpp"
#include "mobius/rules/rules.hpp"

namespace mobius::rules {
using namespace rewrite;

namespace {

using ir::DataType;
using Why = std::optional<std::string>;

ir::OpName gqa_op() { return {ops::microsoft, "GroupQueryAttention"}; }

// ── may the kernel do it? ────────────────────────────────────────────────────────────────────────────────────────────────

Why sizes_do_not_fit(const ir::Node& attention, const Target& t) {
  const auto key = head_size(attention.input(4)), value = head_size(attention.input(5));
  if (!key || !value) return "the head size is not known";
  if (*key != *value) return fmt::format("key heads have size {}, value heads {}", *key, *value);
  if (*key % t.ep.gqa_head_size_multiple != 0) return fmt::format("the head size {} is no multiple of {}", *key, t.ep.gqa_head_size_multiple);
  for (std::size_t i = 0; i < 3; ++i)
    if (attention.input(i)->rank() != 3u) return attention.input(i)->name + " is not [batch, sequence, heads * size]";
  if (!t.ep.gqa_dtypes.contains(attention.input(0)->dtype())) return fmt::format("the kernel does not run {}", ir::onnx_name(attention.input(0)->dtype()));
  if (attention.float_attribute("softcap", 0) != 0 && !t.ep.supports_gqa_softcap) return "the kernel has no softcap";
  return std::nullopt;
}

// How the kernel is told what the mask says: by the number of tokens in each row, or by the mask itself. Else why it can't be told.
struct AsBias {
  ir::Value* attention_mask;  // where padding is
};
using Meaning = std::variant<CausalMask, AsBias, std::string>;

// Whether the mask can be the kernel's bias, [batch or 1, heads or 1, queries, keys].
Meaning as_bias(const ir::Node& attention, const Target& t) {
  if (!t.ep.supports_gqa_attention_bias) return "the kernel has no attention_bias, so it can't take padding on any side";
  const auto* mask = attention.input(3);
  if (!mask) return "there is no mask that tells where padding is";
  if (mask->rank() != 4u || (*mask->shape())[2] != (*attention.input(0)->shape())[1]) return "the mask has no row for each query";
  const auto found = mask_without_lookahead(attention);
  if (const auto* why = std::get_if<std::string>(&found)) return "the mask is not causal: " + *why;
  return AsBias{std::get<ir::Value*>(found)};
}

Meaning find_meaning(const ir::Node& attention, const Target& t) {
  if (t.padding == Padding::any) return as_bias(attention, t);
  const auto found = causal_mask(attention);
  if (const auto* mask = std::get_if<CausalMask>(&found)) return *mask;
  auto bias = as_bias(attention, t);
  return std::holds_alternative<AsBias>(bias) ? bias : "the mask is not causal with padding: " + std::get<std::string>(found);
}

const Meaning& meaning(const ir::Node& attention, const Target& t) {
  // Without a mask the node itself says what is seen.
  return t.remembered<Meaning>(attention.input(3) ? attention.input(3) : attention.output(), [&] { return find_meaning(attention, t); });
}

Why mask_does_not_fit(const ir::Node& attention, const Target& t) {
  const auto& found = meaning(attention, t);
  if (const auto* why = std::get_if<std::string>(&found)) return *why;
  const auto* mask = std::get_if<CausalMask>(&found);
  if (mask && mask->window && !t.ep.supports_gqa_window) return "the kernel has no window";
  return std::nullopt;
}

// ── what the kernel is told ──────────────────────────────────────────────────────────────────────────────────────────────

// Shared by all layers: they hang on the same mask.
struct Lengths {
  ir::Value *seqlens_k, *total;  // int32 [batch], tokens of each row less one; int32 [1], slots
};

ir::Value* total_slots(Inserter& at, const ir::Node& attention, ir::Value* mask) {
  auto* count =
      mask ? dimension(at, mask, 1) : at.shared({"", "Add"}, {shared_dimension(at, attention.input(4), 2), shared_dimension(at, attention.input(0), 1)});
  return at.shared({"", "Cast"}, {count}, cast_to(DataType::int32));
}

// Tokens are counted by the mask.
Lengths counted(Inserter& at, const ir::Node& attention, ir::Value* mask) {
  auto* ones = mask->dtype() == DataType::int32 ? mask : at.shared({"", "Cast"}, {mask}, cast_to(DataType::int32));
  auto* tokens = at.shared({"", "ReduceSum"}, {ones, at.integers({1})}, {{"keepdims", std::int64_t{0}}});
  return {at.shared({"", "Sub"}, {tokens, at.number(DataType::int32, 1)}), total_slots(at, attention, mask)};
}

// Every slot counts as a token: there is no mask, or a bias tells which ones do.
Lengths all_slots(Inserter& at, const ir::Node& attention, ir::Value* mask) {
  auto* total = total_slots(at, attention, mask);
  auto* last = at.shared({"", "Sub"}, {total, at.number(DataType::int32, 1)});
  auto* batch = mask ? dimension(at, mask, 0) : shared_dimension(at, attention.input(0), 0);
  return {at.shared({"", "Expand"}, {last, batch}), total};
}

// The mask as numbers to add. The lowest one, not −∞: a row that sees nothing (a query that is padding) must not become NaN.
ir::Value* bias_of(Inserter& at, ir::Value* mask, DataType dtype) {
  auto* lowest = at.number(dtype, lowest_number(dtype));
  if (mask->dtype() == DataType::boolean) return at.shared({"", "Where"}, {mask, at.number(dtype, 0), lowest});
  return at.shared({"", "Max"}, {mask, lowest});
}

// [heads], in the type of the queries: a step of the sink's recipe.
ir::Value* sink_of(Inserter& at, const ir::Node& attention, ir::Value* sink) {
  auto* flat = at.shared({"", "Reshape"}, {sink, at.integers({-1})});
  const auto dtype = attention.input(0)->dtype();
  return dtype == flat->dtype() ? flat : at.shared({"", "Cast"}, {flat}, cast_to(dtype));
}

std::vector<ir::Value*> make_gqa(Inserter& at, const ir::Node& attention, const Target& t, ir::Value* sink = nullptr) {
  const auto& in = attention.inputs();
  ir::Attributes attributes{{"num_heads", attention.int_attribute("q_num_heads", 0)}, {"kv_num_heads", attention.int_attribute("kv_num_heads", 0)}};
  for (const auto* name : {"scale", "softcap"})
    if (attention.float_attribute(name, 0) != 0) attributes[name] = attention.float_attribute(name, 0);

  std::vector<ir::Value*> operands{in[0], in[1], in[2], in[4], in[5]};
  const auto& told = meaning(attention, t);
  if (const auto* mask = std::get_if<CausalMask>(&told)) {
    const auto lengths = mask->attention_mask ? counted(at, attention, mask->attention_mask) : all_slots(at, attention, nullptr);
    operands.insert(operands.end(), {lengths.seqlens_k, lengths.total});
    if (mask->window) attributes["local_window_size"] = *mask->window;
  } else {
    const auto lengths = all_slots(at, attention, std::get<AsBias>(told).attention_mask);
    operands.insert(operands.end(), {lengths.seqlens_k, lengths.total, nullptr, nullptr, nullptr, bias_of(at, in[3], in[0]->dtype())});
  }
  if (sink) {
    operands.resize(11);
    operands.push_back(sink_of(at, attention, sink));
  }
  return at.add(gqa_op(), std::move(operands), std::move(attributes), 3);
}

AttrArgs<Pat> plain_attention() {
  return {{"q_num_heads", attr<std::int64_t>("q_num_heads")},
          {"kv_num_heads", attr<std::int64_t>("kv_num_heads")},
          {"softmax_precision", {attr<std::int64_t>("softmax_precision"), 1}},  // kernels never take less than float32
          {"scale", {attr<float>("scale"), 0.0f}}};
}

std::vector<Condition> kernel_does_it(const Pat& y) {
  return {{[=](const Match& m, const Target& t) { return sizes_do_not_fit(*m.node(y), t); }},
          {[=](const Match& m, const Target& t) { return mask_does_not_fit(*m.node(y), t); }}};
}

Rule fuse_attention(bool with_mask) {
  const auto [q, k, v, mask, past_key, past_value] = vars("q", "k", "v", "mask", "past_key", "past_value");
  auto attributes = plain_attention();
  attributes.insert({{"is_causal", attr<std::int64_t>("is_causal")}, {"softcap", attr<float>("softcap")}});
  const auto results = attention(q, k, v, with_mask ? Pat::Arg(mask) : Pat::Arg(), past_key, past_value, std::move(attributes));
  const auto y = results[0];
  return {.name = "GQAFusion",
          .from = {results[0], results[1], results[2]},
          .where = kernel_does_it(y),
          .when = has_gqa,
          .make = [=](Inserter& at, const Match& m, const Target& t) { return make_gqa(at, *m.node(y), t); }};
}

// y · σ(ln Σ exp(scores that are seen) − sink), heads apart: Decode::attend_with_sink. The kernel has the sink in its softmax. The mask alone must say what is
// seen, and scores be what the softmax takes: neither is_causal nor softcap.
Rule fuse_attention_with_sink() {
  const auto [q, k, v, mask, past_key, past_value, sink, by_head, joined] = vars("q", "k", "v", "mask", "past_key", "past_value", "sink", "by_head", "joined");
  const auto results = ops::many<4, Pat>({"", "Attention"}, {q, k, v, mask, past_key, past_value}, plain_attention());
  const auto scores = results[3] | cast(results[3], DataType::float32);
  const auto seen = where(mask, scores, attr<float>("hidden"));
  const auto log_sum = ops::one<Pat>({"", "ReduceLogSumExp"}, {seen, Pat::Arg{std::vector<std::int64_t>{3}}}, {{"keepdims", 1}});
  const auto share = sigmoid(log_sum - sink);
  const auto by_token = transpose(share | cast(share, DataType::float16) | cast(share, DataType::bfloat16), {0, 2, 1, 3});
  const auto heads = reshape(results[0], by_head);
  const auto out = reshape(heads * by_token, joined);

  const auto y = results[0];
  auto where = kernel_does_it(y);
  where.push_back(require("the sink is not one constant for each head", [=](const Match& m) {
    const auto* s = m[sink];
    return s->data() && s->rank() == 4u && s->data()->dims() == ir::Dims{1, m.node(y)->int_attribute("q_num_heads", 0), 1, 1};
  }));
  where.push_back(require("what is hidden is not as low as a number gets", [=](const Match& m) { return *m.attribute(attr<float>("hidden")) < -1e30f; }));
  where.push_back(require("heads are cut elsewhere", [=](const Match& m) {
    const auto& apart = m[heads]->shape();
    return apart && apart->size() == 4 && (*apart)[2] == ir::Dim(m.node(y)->int_attribute("q_num_heads", 0)) && m[out]->shape() == m[y]->shape();
  }));
  return {.name = "GQAFusionSink",
          .from = {out, results[1], results[2]},
          .where = std::move(where),
          .when = [](const Target& t) { return has_gqa(t) && t.ep.supports_gqa_sink; },
          .make = [=](Inserter& at, const Match& m, const Target& t) { return make_gqa(at, *m.node(y), t, m[sink]); }};
}

}  // namespace

RuleGroup gqa_fusion() { return {"GQAFusion", {fuse_attention(true), fuse_attention(false), fuse_attention_with_sink()}, rope_inside_gqa()}; }

}  // namespace mobius::rules
