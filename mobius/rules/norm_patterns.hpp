// What decomposed norms are made of, in the orders that exporters and people write.
#pragma once
#include <string>

#include "mobius/rewrite/rule.hpp"

namespace mobius::rules {

// The mean of x over some axes, an operand or (up to opset 17) an attribute: `reduces_last_axis` asks which. `name`: of the axes, one for
// each mean of a pattern.
inline rewrite::Pat mean_of(const rewrite::Pat& x, const std::string& name) {
  const auto [axes] = rewrite::vars(name);
  return ops::one<rewrite::Pat>({"", "ReduceMean"}, {x, axes}) |
         ops::one<rewrite::Pat>({"", "ReduceMean"}, {x}, {{"axes", rewrite::attr<std::vector<std::int64_t>>(name)}});
}

inline rewrite::Pat square_of(const rewrite::Pat& x) { return pow(x, 2) | x * x; }

// x / √(mean_square + ε)
inline rewrite::Pat over_root(const rewrite::Pat& x, const rewrite::Pat& mean_square, const rewrite::AttrVar<float>& epsilon) {
  const auto shifted = mean_square + epsilon;
  const auto root = sqrt(shifted) | pow(shifted, 0.5);
  const auto inverse = reciprocal(root) | ops::one<rewrite::Pat>({"", "Div"}, {1.0, root}) | pow(shifted, -0.5);
  return x * inverse | x / root;
}

inline rewrite::Pat cast_to(const rewrite::Pat& x, const rewrite::AttrVar<std::int64_t>& to) { return ops::one<rewrite::Pat>({"", "Cast"}, {x}, {{"to", to}}); }

}  // namespace mobius::rules
