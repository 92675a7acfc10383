//   Σⱼ wⱼ · (W2[eⱼ] · swiglu(W1[eⱼ] · x))   with (w, e) = TopK(Softmax(logits), k)   ⟶   MoE(x, logits, W1, b1, W2, b2)
//
// Experts whose matrices are gathered for each token, as transformers' "batched_mm" exports them; a prompt copies whole matrices per token
// there. Biases may be there or not; w may be divided by its sum, or be the softmax of the k largest logits; gates are SiLU, or
// gpt-oss's with its limits. The kernel wants rows of gate and up taking turns: that goes into the weights' recipe.
#include <fmt/format.h>

#include <limits>
#include <utility>

#include "mobius/ops/layout.hpp"
#include "mobius/rules/conditions.hpp"
#include "mobius/rules/gqa.hpp"
#include "mobius/rules/norm_patterns.hpp"
#include "mobius/rules/rules.hpp"

namespace mobius::rules {
using namespace rewrite;

namespace {

using ir::DataType;
using Why = std::optional<std::string>;
using IntAttr = AttrVar<std::int64_t>;

enum class Stored { out_in, in_out };          // of a matrix
enum class Halves { in_order, taking_turns };  // of gate and up in the rows of fc1

struct Form {
  Stored stored;
  Halves halves;
};

// ── the pattern ──────────────────────────────────────────────────────────────────────────────────────────────────────────

struct Parts {
  Pat rows, logits, count, w1 = Pat::variable("w1"), w2 = Pat::variable("w2"), b1 = Pat::variable("b1"), b2 = Pat::variable("b2");
  Pat fc1, gate, up, summands, root;
  Pat of_scores, of_logits, shares;  // the k largest of either; those of the scores divided by their sum
};

const AttrVar<float> alpha{"alpha"}, limit{"limit"}, lowest{"lowest"};
const IntAttr softmax_axis{"softmax axis"}, choice_axis{"choice axis"}, half_axis{"axis of the halves"}, type_of_weights{"type of the weights"};

// As [tokens * k], [tokens * k, 1] or [tokens, k, hidden]: exporters differ in what they say of zeros.
Pat reshaped(const Pat& x, Pat::Arg shape, const std::string& about) {
  return ops::one<Pat>({"", "Reshape"}, {x, std::move(shape)}, {{"allowzero", {IntAttr{"allowzero of " + about}, 0}}});
}
Pat behind(const Pat& x, std::int64_t rank) { return unsqueeze<Pat>(x, {-1}) | unsqueeze<Pat>(x, {rank}); }

class Writer {
 public:
  explicit Writer(const Form& form) : form_(form) {
    std::tie(p.rows, p.logits, p.count) = std::tuple(Pat::variable("rows"), Pat::variable("logits"), Pat::variable("count"));
  }

  Parts write() {
    const auto weight = router();
    flat_ids_ = reshaped(ids_, {-1}, "choices");
    ids_behind_ = behind(flat_ids_, 1);
    p.fc1 = linear(p.rows, p.w1, p.b1);
    const auto fc2 = linear(gated(), p.w2, p.b2);
    const auto weighted = (fc2 | cast(fc2, DataType::float32)) * behind(reshaped(weight, {-1}, "weights"), 1);
    p.summands = reshaped(weighted, Pat::variable("shape"), "summands");
    p.root = reduce_sum<Pat>(p.summands | cast(p.summands, DataType::float32), {1}, 0);
    return p;
  }

 private:
  // The weights [tokens, k].
  Pat router() {
    const auto logits = p.logits | cast(p.logits, DataType::float32);
    const auto soften = [](const Pat& x) { return ops::one<Pat>({"", "Softmax"}, {x}, {{"axis", {softmax_axis, -1}}}); };
    const auto choose = [&](const Pat& x) {
      return ops::many<2, Pat>({"", "TopK"}, {x, p.count}, {{"axis", {choice_axis, -1}}, {"sorted", {IntAttr{"sorted"}, 1}}});
    };
    const auto of_scores = choose(soften(logits)), of_logits = choose(logits);
    ids_ = of_scores[1] | of_logits[1];
    p.of_scores = of_scores[0], p.of_logits = of_logits[0];
    p.shares = p.of_scores / (reduce_sum<Pat>(p.of_scores, {-1}) | reduce_sum<Pat>(p.of_scores, {1}));
    const auto weights = p.shares | p.of_scores | soften(p.of_logits);
    return weights | cast_to(weights, type_of_weights);
  }

  Pat chosen_of(const Pat& stack) const { return ops::one<Pat>({"", "GatherND"}, {stack, ids_behind_}) | gather<Pat>(stack, flat_ids_); }

  Pat linear(const Pat& x, const Pat& w, const Pat& b) const {
    const auto y = form_.stored == Stored::out_in
                       ? squeeze<Pat>(matmul<Pat>(chosen_of(w), behind(x, 2)), {-1}) | squeeze<Pat>(matmul<Pat>(chosen_of(w), behind(x, 2)), {2})
                       : squeeze<Pat>(matmul<Pat>(unsqueeze<Pat>(x, {1}), chosen_of(w)), {1});
    return (y + chosen_of(b)) | y;
  }

  Pat gated() {
    if (form_.halves == Halves::taking_turns) {
      constexpr auto end = std::numeric_limits<std::int64_t>::max();
      const auto every_other = [&](std::int64_t first) {
        return ops::one<Pat>({"", "Slice"}, {p.fc1, {first}, {end}, {1}, {2}}) | ops::one<Pat>({"", "Slice"}, {p.fc1, {first}, {end}, {-1}, {2}});
      };
      p.gate = clip<Pat>(every_other(0), {}, limit);
      p.up = clip<Pat>(every_other(1), lowest, limit);
      return (p.up + 1) * (p.gate * sigmoid(p.gate * alpha));
    }
    const auto whole = ops::many<2, Pat>({"", "Split"}, {p.fc1}, {{"axis", half_axis}, {"num_outputs", {IntAttr{"halves"}, 2}}});
    p.gate = whole[0], p.up = whole[1];
    return (p.gate * sigmoid(p.gate)) * p.up | swish(p.gate) * p.up | p.gate * (sigmoid(p.gate) * p.up);
  }

  Form form_;
  Parts p;
  Pat ids_, flat_ids_, ids_behind_;
};

// ── conditions ───────────────────────────────────────────────────────────────────────────────────────────────────────────

// tokens [tokens, hidden] of which `rows` has each k times, one after the other; nullptr: they are not that.
ir::Value* tokens_of(ir::Value* rows, std::int64_t k) {
  const ops::History h(rows);
  for (std::size_t i = 0; i < h.size(); ++i) {
    if (h[i]->rank() != 2u) continue;
    const auto& tokens = *h[i]->shape();
    auto repeated = ops::Layout(tokens).with_axes({1});
    if (repeated) repeated = repeated->expanded({tokens[0], k, tokens[1]});
    if (repeated) repeated = repeated->reshaped({tokens[0] * k, tokens[1]});
    if (repeated && h.layout(i) == repeated) return h[i];
  }
  return nullptr;
}

struct Sizes {
  std::int64_t experts, inner, hidden, k;
};

std::optional<ir::Dims> dims_of(const ir::Value* stack, Stored stored) {
  if (!stack->data() || stack->rank() != 3u) return std::nullopt;
  auto dims = stack->data()->dims();
  if (stored == Stored::in_out) std::swap(dims[1], dims[2]);
  return dims;
}

std::variant<Sizes, std::string> sizes_of(const Match& m, const Parts& p, const Form& form) {
  const auto w1 = dims_of(m[p.w1], form.stored), w2 = dims_of(m[p.w2], form.stored);
  if (!w1 || !w2) return fmt::format("{} is no stack of constant matrices", m[w1 ? p.w2 : p.w1]->name);
  const auto k = single_integer(m[p.count]);
  if (!k) return m[p.count]->name + " is no constant";
  const Sizes s{(*w1)[0], (*w2)[2], (*w1)[2], *k};
  if (*w1 != ir::Dims{s.experts, 2 * s.inner, s.hidden} || *w2 != ir::Dims{s.experts, s.hidden, s.inner})
    return fmt::format("{} is {}, {} is {}", m[p.w1]->name, shape_text(m[p.w1]), m[p.w2]->name, shape_text(m[p.w2]));
  for (const auto& [bias, length] : {std::pair(p.b1, 2 * s.inner), std::pair(p.b2, s.hidden)})
    if (m.has(bias) && (!m[bias]->data() || m[bias]->data()->dims() != ir::Dims{s.experts, length}))
      return fmt::format("{} is {}, expected constants [{}, {}]", m[bias]->name, shape_text(m[bias]), s.experts, length);
  if (last_size(m[p.logits]) != s.experts || m[p.logits]->rank() != 2u)
    return fmt::format("{} is {}, expected [tokens, {}]", m[p.logits]->name, shape_text(m[p.logits]), s.experts);
  const auto& summands = m[p.summands]->shape();
  if (!summands || summands->size() != 3 || (*summands)[1].as_static() != s.k || (*summands)[2].as_static() != s.hidden)
    return fmt::format("{} is {}, expected [tokens, {}, {}]", m[p.summands]->name, shape_text(m[p.summands]), s.k, s.hidden);
  return s;
}

Condition fits_kernel(const Parts& p, const Form& form) {
  return {[=](const Match& m, const Target& t) -> Why {
    const auto found = sizes_of(m, p, form);
    if (const auto* why = std::get_if<std::string>(&found)) return *why;
    const auto& s = std::get<Sizes>(found);
    const auto* tokens = tokens_of(m[p.rows], s.k);
    if (!tokens) return fmt::format("{} does not have each token {} times", m[p.rows]->name, s.k);
    for (const auto* v : {m[p.logits], m[p.w1], m[p.w2]})
      if (v->dtype() != tokens->dtype()) return fmt::format("{} is {}, {} is {}", tokens->name, dtype_text(tokens), v->name, dtype_text(v));
    const auto multiple = t.ep.fused_moe_size_multiple;
    if (s.hidden % multiple != 0 || s.inner % multiple != 0) return fmt::format("the kernel takes sizes of a multiple of {}", multiple);
    return std::nullopt;
  }};
}

Condition is_last_of_two(const IntAttr& axis) {
  return {[=](const Match& m, const Target&) -> Why {
    const auto found = m.attribute(axis);
    return !found || *found == -1 || *found == 1 ? std::nullopt : Why(fmt::format("{} is {}", axis.name, *found));
  }};
}

Condition chooses_once(const Parts& p) {
  return require("experts and weights of one TopK", [=](const Match& m) { return m.has(p.of_scores) != m.has(p.of_logits); });
}

Condition has_limits_alike() {
  return require("limits that are alike on both sides",
                 [](const Match& m) { return m.attribute(lowest) && *m.attribute(limit) >= 0 && *m.attribute(lowest) == -*m.attribute(limit); });
}

// A cast of the weights only narrows them to what the experts compute in.
Condition weights_keep_their_type(const Parts& p) {
  return {[=](const Match& m, const Target&) -> Why {
    const auto to = m.attribute(type_of_weights);
    if (!to || static_cast<DataType>(*to) == m[p.w2]->dtype() || static_cast<DataType>(*to) == DataType::float32) return std::nullopt;
    return fmt::format("the weights of the choice become {}", ir::onnx_name(static_cast<DataType>(*to)));
  }};
}

// ── the operator ─────────────────────────────────────────────────────────────────────────────────────────────────────────

// [experts, 2 * inner, hidden], rows of gate and up taking turns; the same of a bias [experts, 2 * inner].
ir::Value* taking_turns(Inserter& at, ir::Value* w, std::int64_t experts, std::int64_t inner, std::optional<std::int64_t> hidden) {
  std::vector<std::int64_t> apart{experts, 2, inner}, together{experts, 2 * inner}, perm{0, 2, 1};
  if (hidden) apart.push_back(*hidden), together.push_back(*hidden), perm.push_back(3);
  auto* halves = at.add({"", "Reshape"}, {w, at.integers(apart)})[0];
  auto* turned = at.add({"", "Transpose"}, {halves}, {{"perm", std::move(perm)}})[0];
  return at.add({"", "Reshape"}, {turned, at.integers(together)})[0];
}

std::vector<ir::Value*> make_moe(Inserter& at, const Match& m, const Parts& p, const Form& form) {
  const auto s = std::get<Sizes>(sizes_of(m, p, form));
  const auto out_in = [&](ir::Value* w) {
    return form.stored == Stored::out_in ? w : at.add({"", "Transpose"}, {w}, {{"perm", std::vector<std::int64_t>{0, 2, 1}}})[0];
  };
  auto *w1 = out_in(m[p.w1]), *w2 = out_in(m[p.w2]), *b1 = m.has(p.b1) ? m[p.b1] : nullptr, *b2 = m.has(p.b2) ? m[p.b2] : nullptr;
  if (form.halves == Halves::in_order) {
    w1 = taking_turns(at, w1, s.experts, s.inner, s.hidden);
    if (b1) b1 = taking_turns(at, b1, s.experts, s.inner, std::nullopt);
  }
  ir::Attributes attributes{{"k", s.k},
                            {"activation_type", std::string("swiglu")},
                            {"swiglu_fusion", std::int64_t{1}},
                            {"activation_alpha", m.attribute(alpha).value_or(1)},
                            {"activation_beta", form.halves == Halves::taking_turns ? 1.0f : 0.0f},
                            {"normalize_routing_weights", std::int64_t{m.has(p.of_logits) || m.has(p.shares)}}};
  if (const auto bound = m.attribute(limit)) attributes["swiglu_limit"] = *bound;
  auto* tokens = tokens_of(m[p.rows], s.k);
  auto* y = at.add({ops::microsoft, "MoE"}, {tokens, m[p.logits], w1, b1, w2, b2}, std::move(attributes))[0];
  if (m[p.root]->dtype() != y->dtype()) y = at.add({"", "Cast"}, {y}, cast_to(m[p.root]->dtype()))[0];
  return {y};
}

Rule rule(const Form& form) {
  const auto p = Writer(form).write();
  std::vector<Condition> where{is_last_of_two(softmax_axis),
                               is_last_of_two(choice_axis),
                               chooses_once(p),
                               weights_keep_their_type(p),
                               kernel_takes("MoE", &EpCapabilities::fused_moe_dtypes, p.rows),
                               fits_kernel(p, form)};
  where.push_back(form.halves == Halves::taking_turns ? has_limits_alike() : is_last_of_two(half_axis));
  return {.name = "MoE",
          .from = {p.root},
          .where = std::move(where),
          .when = [](const Target& t) { return t.ep.supports_fused_moe && t.ep.fused_moe_dtypes.contains(t.dtype); },
          .make = [=](Inserter& at, const Match& m, const Target&) { return make_moe(at, m, p, form); }};
}

}  // namespace

RuleGroup moe_fusion() {
  RuleGroup group{"MoEFusion", {}};
  for (const auto stored : {Stored::out_in, Stored::in_out})
    for (const auto halves : {Halves::in_order, Halves::taking_turns}) group.rules.push_back(rule({stored, halves}));
  return group;
}

}  // namespace mobius::rules
