//   Where(unattended, 0, Attention(q, k, v, mask))   ⟶   Attention(q, k, v, mask = 0)          zeros for queries that see nothing
//
// Exporters take out what attention makes of queries for which everything is hidden. That is what the operator does itself where the mask
// says yes or no; so the mask becomes one that does. The condition and the mask are tried on samples (attention_mask.hpp).
#include "mobius/rules/attention_form.hpp"
#include "mobius/rules/attention_mask.hpp"
#include "mobius/rules/rules.hpp"

namespace mobius::rules {
using namespace rewrite;

namespace {

Rule unattended(bool by_token) {
  const auto [condition, shape] = vars("condition", "shape");
  const auto results = any_form({"", "Attention"}, 3);
  const auto y = results[0];
  const auto cut = ops::one<Pat>({"", "Reshape"}, {y, shape}, {{"allowzero", attr<std::int64_t>("allowzero")}});
  const auto heads = by_token ? cut : transpose(cut, {0, 2, 1, 3});
  return {.name = "UnattendedQueries",
          .from = {where(condition, 0, heads), results[1], results[2]},
          .where = {has_rank(y, 3), has_rank(heads, 4), has_rank(condition, 4), {[=](const Match& m, const Target&) -> std::optional<std::string> {
                      const auto& n = *m.node(y);
                      if (!n.input(3)) return "there is no mask";
                      if (n.output(3)) return "its scores are read";
                      return marks_blind_queries(m[condition], by_token, n);
                    }}},
          .when = writes_attention,
          .make = [=](Inserter& at, const Match& m, const Target&) {
            auto& n = *m.node(y);
            auto* mask = n.input(3);
            auto operands = n.inputs();
            if (mask->dtype() != ir::DataType::boolean) operands[3] = at.shared({"", "Equal"}, {mask, at.number(mask->dtype(), 0)});
            auto made = at.add(n.op, std::move(operands), n.attributes, 3);
            made[0] = at.add({"", "Reshape"}, {made[0], m[shape]}, m.node(cut)->attributes)[0];
            if (!by_token) made[0] = at.add({"", "Transpose"}, {made[0]}, m.node(heads)->attributes)[0];
            return made;
          }};
}

}  // namespace

RuleGroup unattended_queries() { return {"UnattendedQueries", {unattended(false), unattended(true)}, undone_moves()}; }

}  // namespace mobius::rules
