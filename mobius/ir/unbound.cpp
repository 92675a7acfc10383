// Looks through a recipe's sources, each once: recipes share them.
#include "mobius/ir/unbound.hpp"

#include <unordered_set>

namespace mobius::ir {

namespace {

const Placeholder* search(const TensorData& tensor, std::unordered_set<const TensorData*>& seen) {
  if (const auto* leaf = dynamic_cast<const Placeholder*>(&tensor); leaf && !leaf->is_bound()) return leaf;
  for (const TensorPtr& source : tensor.sources()) {
    if (!seen.insert(source.get()).second) continue;
    if (const auto* leaf = search(*source, seen)) return leaf;
  }
  return nullptr;
}

}  // namespace

const Placeholder* unbound_leaf(const TensorData& tensor) {
  std::unordered_set<const TensorData*> seen;
  return search(tensor, seen);
}

}  // namespace mobius::ir
