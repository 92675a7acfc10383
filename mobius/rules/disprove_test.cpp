// Every rule of the pipeline on its examples: both sides compute the same, and a wrong right-hand side is noticed.
#include <fmt/format.h>

#include <set>

#include "mobius/rules/all_rules_test.hpp"

namespace mobius::rules {
namespace {

TEST(AllRules, ExamplesBelongToOne) {
  const auto rules = all_rules();
  for (const auto& [name, examples] : RuleExamples::all())
    EXPECT_TRUE(std::ranges::find(rules, name, &Variants::name) != rules.end()) << name << ": no rule of passes/pipeline.cpp has this name";
}

// Rules that take away: what stands in the place was there before.
const std::set<std::string> puts_nothing_new = {"UndoneMoves"};

class EveryRule : public testing::TestWithParam<Variants> {
 protected:
  const RuleExamples& examples() const { return RuleExamples::all()[GetParam().name]; }
};

TEST_P(EveryRule, KeepsTheNumbers) {
  if (const auto why = rewrite::disprove(GetParam().rules, examples().examples)) ADD_FAILURE() << *why;
}

TEST_P(EveryRule, IsToldFromAWrongOne) {
  std::size_t mutants = 0, noticed = 0;
  std::set<std::string> unnoticed;
  for (const auto& rule : GetParam().rules)
    for (const auto& what : rewrite::mutations_of(rule, examples().examples)) {
      ++mutants;
      if (rewrite::is_noticed(rewrite::mutant(rule, what), examples().examples)) ++noticed;
      else unnoticed.insert(what);
    }
  for (const auto& what : unnoticed) EXPECT_TRUE(examples().equivalent.contains(what)) << what << ": not noticed";
  for (const auto& [what, reason] : examples().equivalent) EXPECT_TRUE(unnoticed.contains(what)) << what << ": said to change nothing, but it is noticed";
  EXPECT_EQ(mutants == 0, puts_nothing_new.contains(GetParam().name))
      << "whether there are wrong right-hand sides to try; the examples may show none (KeepsTheNumbers), or the rule puts nothing new";
  fmt::print("{}: {} wrong right-hand sides, {} noticed, {} that change nothing\n", GetParam().name, mutants, noticed, mutants - noticed);
  RecordProperty("mutants", static_cast<int>(mutants));
  RecordProperty("noticed", static_cast<int>(noticed));
}

INSTANTIATE_TEST_SUITE_P(Rules, EveryRule, testing::ValuesIn(all_rules()), [](const auto& rule) { return rule.param.name; });

}  // namespace
}  // namespace mobius::rules
