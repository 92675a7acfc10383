// Transpose(Reshape(...)) that leads back to what it was made from.
#include "mobius/ops/layout.hpp"
#include "mobius/rules/attention_form.hpp"

namespace mobius::rules {
using namespace rewrite;

std::vector<Rule> undone_moves() {
  std::vector<Rule> rules;
  for (const auto* op : {"Reshape", "Transpose", "Squeeze", "Unsqueeze"}) {
    const auto y = any_form({"", op}, 1)[0];
    rules.push_back({.name = "UndoneMoves",
                     .from = {y},
                     .where = {require("it is not what it was made from", [=](const Match& m) { return ops::same_value(m[y]) != nullptr; })},
                     .make = [=](Inserter&, const Match& m, const Target&) { return std::vector{ops::same_value(m[y])}; }});
  }
  return rules;
}

}  // namespace mobius::rules
