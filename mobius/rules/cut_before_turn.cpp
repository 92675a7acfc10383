//   Split(Transpose(x), axis = -1)   ⟶   Transpose of each part of Split(x)           Slice likewise
//
// Where heads are turned to the front before queries, keys and values are cut from each: the parts of what the projection gave then lie by
// tokens, as other rules want them. Only where the last axis stays the last, and parts are cut from that.
#include "mobius/rules/attention_form.hpp"
#include "mobius/rules/conditions.hpp"

namespace mobius::rules {
using namespace rewrite;

namespace {

const std::vector<std::int64_t> heads_to_front{0, 2, 1, 3};

bool is_turned(const ir::Value* x) {
  const auto* turn = x->producer();
  return turn && turn->is("Transpose") && turn->ints_attribute("perm") == heads_to_front;
}

bool is_last(std::int64_t axis) { return axis == -1 || axis == 3; }

bool cuts_last_axis(const ir::Node& n) {
  if (n.is("Split")) return is_last(n.int_attribute("axis", 0));
  const auto axis = single_integer(n.input(3));
  return axis && is_last(*axis);
}

Rule cut(std::string_view op, std::size_t parts) {
  const auto results = any_form({"", op}, parts);
  const auto y = results[0];
  return {.name = "CutBeforeTurn",
          .from = results,
          .where = {require("it is not cut along the size of heads that were turned to the front",
                            [=](const Match& m) {
                              const auto& n = *m.node(y);
                              return n.outputs().size() == parts && n.input(0) && is_turned(n.input(0)) && cuts_last_axis(n);
                            })},
          .when = writes_attention,
          .make = [=](Inserter& at, const Match& m, const Target&) {
            const auto& n = *m.node(y);
            auto operands = n.inputs();
            operands[0] = operands[0]->producer()->input(0);
            auto cut = at.add(n.op, std::move(operands), n.attributes, parts);
            for (auto*& part : cut) part = at.add({"", "Transpose"}, {part}, {{"perm", heads_to_front}})[0];
            return cut;
          }};
}

}  // namespace

std::vector<Rule> cuts_before_turns() { return {cut("Split", 2), cut("Split", 3), cut("Slice", 1)}; }

}  // namespace mobius::rules
