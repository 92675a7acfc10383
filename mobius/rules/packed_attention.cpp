//   Attention(q, k, v, mask)   ⟶   PackedMultiHeadAttention(q, k, v, token_offset, cumulative_sequence_length)
//
// where the mask keeps the sequences apart that lie one behind the other in q, k and v [1, tokens, heads · size] (packed_sequences.hpp):
// vision towers attend so, each image or window of patches for itself. The kernel skips what the mask would hide.
#include "mobius/rules/attention_form.hpp"
#include "mobius/rules/conditions.hpp"
#include "mobius/rules/packed_sequences.hpp"
#include "mobius/rules/rules.hpp"

namespace mobius::rules {
using namespace rewrite;

namespace {

using ir::DataType;
using Bounds = std::variant<ir::Value*, std::string>;

const Bounds& bounds_of(const ir::Node& attention, const Target& t) {
  return t.remembered<Bounds>(attention.input(3), [&] { return packed_sequences(attention); });
}

Condition is_one_row(const Pat& x) {
  return {[=](const Match& m, const Target&) -> std::optional<std::string> {
    const auto& shape = m[x]->shape();
    if (shape && shape->size() == 3 && (*shape)[0].as_static() == 1) return std::nullopt;
    return m[x]->name + " is " + shape_text(m[x]) + ", expected [1, tokens, channels]";
  }};
}

Condition same_number(const AttrVar<std::int64_t>& a, const AttrVar<std::int64_t>& b) {
  return require("as many key heads as query heads", [=](const Match& m) { return m.attribute(a) == m.attribute(b); });
}

// int64 [sequences + 1]: 0, the bounds inside the row, its length. Whether `bounds` holds the first and the last one itself can't be told
// from a mask, which is the same either way.
ir::Value* all_bounds(Inserter& at, ir::Value* bounds, ir::Value* row) {
  if (bounds->dtype() != DataType::int64) bounds = at.shared({"", "Cast"}, {bounds}, cast_to(DataType::int64));
  auto *first = at.integers({0}), *last = shared_dimension(at, row, 1);
  auto* inside = at.shared({"", "And"}, {at.shared({"", "Greater"}, {bounds, first}), at.shared({"", "Less"}, {bounds, last})});
  auto* inner = at.shared({"", "Compress"}, {bounds, inside}, {{"axis", std::int64_t{0}}});
  return at.shared({"", "Concat"}, {first, inner, last}, {{"axis", std::int64_t{0}}});
}

// int32 [sequences, longest]: where each token lies once every sequence is padded to the longest one, and behind that where the padding lies.
ir::Value* token_offset(Inserter& at, ir::Value* bounds) {
  const auto part = [&](std::int64_t begin, std::int64_t end) {
    return at.shared({"", "Slice"}, {bounds, at.integers({begin}), at.integers({end}), at.integers({0})});
  };
  auto* lengths = at.shared({"", "Sub"}, {part(1, std::numeric_limits<std::int64_t>::max()), part(0, -1)});
  auto* longest = at.shared({"", "ReduceMax"}, {lengths}, {{"keepdims", std::int64_t{0}}});
  auto* columns = at.shared({"", "Range"}, {at.number(DataType::int64, 0), longest, at.number(DataType::int64, 1)});
  auto* is_token = at.shared({"", "Less"}, {columns, at.shared({"", "Unsqueeze"}, {lengths, at.integers({1})})});
  auto* flat = at.shared({"", "Reshape"}, {is_token, at.integers({-1})});
  auto* tokens = at.shared({"", "NonZero"}, {flat});
  auto* padding = at.shared({"", "NonZero"}, {at.shared({"", "Not"}, {flat})});
  auto* both = at.shared({"", "Concat"}, {tokens, padding}, {{"axis", std::int64_t{1}}});
  return at.shared({"", "Cast"}, {at.shared({"", "Reshape"}, {both, at.shared({"", "Shape"}, {is_token})})}, cast_to(DataType::int32));
}

std::vector<ir::Value*> make_packed(Inserter& at, const ir::Node& attention, ir::Value* list) {
  std::vector<ir::Value*> operands;
  for (std::size_t i = 0; i < 3; ++i) operands.push_back(at.shared({"", "Squeeze"}, {attention.input(i), at.integers({0})}));
  auto* bounds = all_bounds(at, list, attention.input(0));
  operands.insert(operands.end(), {nullptr, token_offset(at, bounds), at.shared({"", "Cast"}, {bounds}, cast_to(DataType::int32))});
  ir::Attributes attributes{{"num_heads", attention.int_attribute("q_num_heads", 0)}};
  if (const auto scale = attention.float_attribute("scale", 0); scale != 0) attributes["scale"] = scale;
  auto* y = at.add({ops::microsoft, "PackedMultiHeadAttention"}, std::move(operands), std::move(attributes))[0];
  return {at.add({"", "Unsqueeze"}, {y, at.integers({0})})[0]};
}

}  // namespace

RuleGroup packed_multi_head_attention() {
  const auto [q, k, v, mask] = vars("q", "k", "v", "mask");
  const auto heads = attr<std::int64_t>("q_num_heads"), key_heads = attr<std::int64_t>("kv_num_heads");
  // Kernels never take less than float32 for the softmax.
  const auto y = ops::one<Pat>({"", "Attention"}, {q, k, v, mask},
                               {{"q_num_heads", heads},
                                {"kv_num_heads", key_heads},
                                {"scale", {attr<float>("scale"), 0.0f}},
                                {"softmax_precision", {attr<std::int64_t>("softmax_precision"), 1}}});
  Rule rule{.name = "PackedMultiHeadAttention",
            .from = {y},
            .where = {is_one_row(q),
                      is_one_row(k),
                      is_one_row(v),
                      same_number(heads, key_heads),
                      kernel_takes("PackedMultiHeadAttention", &EpCapabilities::packed_multi_head_attention_dtypes, q),
                      {[=](const Match& m, const Target& t) -> std::optional<std::string> {
                        const auto* why = std::get_if<std::string>(&bounds_of(*m.node(y), t));
                        return why ? std::optional("the mask does not keep sequences apart: " + *why) : std::nullopt;
                      }}},
            .when = [](const Target& t) { return t.ep.supports_packed_multi_head_attention && t.ep.packed_multi_head_attention_dtypes.contains(t.dtype); },
            .make = [=](Inserter& at, const Match& m, const Target& t) { return make_packed(at, *m.node(y), std::get<ir::Value*>(bounds_of(*m.node(y), t))); }};
  return {"PackedMultiHeadAttention", {std::move(rule)}};
}

}  // namespace mobius::rules
