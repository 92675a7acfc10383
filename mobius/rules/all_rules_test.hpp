// Every rule of the pipeline, by name.
#pragma once
#include <algorithm>
#include <ostream>
#include <string>
#include <vector>

#include "mobius/passes/pipeline.hpp"
#include "mobius/rules/rule_test.hpp"

namespace mobius::rules {

// The rules of one name: variants that one function makes.
struct Variants {
  std::string name;
  std::vector<rewrite::Rule> rules;
};
inline std::ostream& operator<<(std::ostream& out, const Variants& v) { return out << v.rules.size() << " variants"; }

inline std::vector<Variants> all_rules() {
  std::vector<Variants> out;
  for (const auto& groups : {fusions(), lowerings()})
    for (const auto& group : groups)
      for (const auto* part : {&group.rules, &group.then})
        for (const auto& rule : *part) {
          const auto same = std::ranges::find(out, rule.name, &Variants::name);
          if (same == out.end()) out.push_back({rule.name, {rule}});
          else same->rules.push_back(rule);
        }
  return out;
}

}  // namespace mobius::rules
