// Two graphs side by side on the same inputs.
#include "mobius/rewrite/disprove.hpp"

#include <algorithm>
#include <cmath>

#include "mobius/base/error.hpp"

namespace mobius::rewrite {
namespace {

using ops::Array;

std::string text(const ir::Dims& dims) {
  std::string t;
  for (const auto d : dims) t += (t.empty() ? "" : ", ") + std::to_string(d);
  return "[" + t + "]";
}

std::optional<std::string> compare(const Array& found, const Array& want, double tolerance) {
  if (found.dtype != want.dtype) return fmt::format("is {}, expected {}", ir::text_name(found.dtype), ir::text_name(want.dtype));
  if (found.dims != want.dims) return fmt::format("has shape {}, expected {}", text(found.dims), text(want.dims));
  double largest = 1;
  for (const auto v : want.values)
    if (std::isfinite(v)) largest = std::max(largest, std::abs(v));
  for (std::size_t i = 0; i < want.values.size(); ++i) {
    const auto a = found.values[i], b = want.values[i];
    const bool equal = a == b || (std::isnan(a) && std::isnan(b)) || std::abs(a - b) <= tolerance * largest;
    if (!equal) return fmt::format("element {} is {}, expected {}", i, a, b);
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> difference(const ir::Model& original, const ir::Model& rewritten, const Trials& trials) {
  for (int round = 0; round < trials.rounds; ++round) {
    const auto inputs = random_inputs({&original, &rewritten}, trials, round);
    const auto want = ops::interpret(*original.graph, inputs, &original.functions);
    const auto found = ops::interpret(*rewritten.graph, inputs, &rewritten.functions);
    std::string on;
    for (const auto& [name, a] : inputs) on += (on.empty() ? "" : ", ") + name + " " + text(a.dims);
    if (found.size() != want.size()) return fmt::format("there are {} outputs, expected {}", found.size(), want.size());
    for (const auto& [name, a] : want) {
      const auto it = found.find(name);
      if (it == found.end()) return "output " + name + " is gone";
      if (const auto why = compare(it->second, a, trials.tolerance)) return fmt::format("{} {} (inputs {})", name, *why, on);
    }
  }
  return std::nullopt;
}

}  // namespace mobius::rewrite
