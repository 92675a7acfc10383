// Walks recipes down to their placeholders, and collects everything that does not fit before saying so.
#include "mobius/weights/bind.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <set>
#include <unordered_set>

#include "mobius/base/error.hpp"
#include "mobius/base/option_name.hpp"
#include "mobius/base/parallel.hpp"
#include "mobius/ir/recipe.hpp"

namespace mobius::weights {
namespace {

// Leaves first seen first. The set only answers "seen before?".
class PlaceholderWalk {
 public:
  std::vector<const ir::Placeholder*> found;

  void graph(const ir::Graph& graph) {
    for (const ir::Value* value : graph.initializers()) tensor(*value->data());
    for (const ir::Node* node : graph.nodes()) {
      for (const ir::Graph* body : node->subgraphs()) this->graph(*body);
    }
  }

 private:
  void tensor(const ir::TensorData& tensor) {
    if (!seen_.insert(&tensor).second) return;
    if (const auto* leaf = dynamic_cast<const ir::Placeholder*>(&tensor)) {
      found.push_back(leaf);
      return;
    }
    for (const auto& source : tensor.sources()) this->tensor(*source);
  }

  std::unordered_set<const ir::TensorData*> seen_;
};

std::string shape_text(const ir::Dims& dims) { return fmt::format("[{}]", fmt::join(dims, ", ")); }

// What float weights may be stored as. Narrower floats mean nothing without their scales.
bool is_weight_dtype(ir::DataType type) {
  using enum ir::DataType;
  return type == float32 || type == float16 || type == bfloat16 || type == float64;
}

// Whether two tensors of equal dims hold the same weights once they are of this dtype.
bool are_equal(const ir::TensorPtr& a, const ir::TensorPtr& b, ir::DataType dtype) {
  constexpr std::uint64_t chunk = 1 << 20;
  const bool as_they_are = a->dtype() == b->dtype();
  const auto x = as_they_are ? a : ir::cast(a, dtype), y = as_they_are ? b : ir::cast(b, dtype);
  const std::uint64_t size = x->byte_size();
  std::atomic<bool> equal = true;
  parallel_for(static_cast<std::size_t>((size + chunk - 1) / chunk), [&](std::size_t i) {
    if (!equal) return;
    const std::uint64_t offset = i * chunk;
    std::vector<std::byte> left(static_cast<std::size_t>(std::min(chunk, size - offset))), right(left.size());
    x->read(offset, left);
    y->read(offset, right);
    if (left != right) equal = false;
  });
  return equal;
}

// Without those that only leave out the start of the first: they are told by it.
std::vector<std::string> distinct(const std::vector<std::string>& names) {
  std::vector<std::string> out;
  for (const auto& name : names)
    if (out.empty() || !names.front().ends_with("." + name)) out.push_back(name);
  return out;
}

class Binder {
 public:
  Binder(const Checkpoint& checkpoint, const BindOptions& options) : checkpoint_(checkpoint), options_(options) {}

  BindReport run(const std::vector<ir::Model*>& models) {
    BindReport report;
    for (const ir::Model* model : models) {
      for (const ir::Placeholder* leaf : placeholders(*model)) report.bound += bind(*leaf) ? 1 : 0;
    }
    for (const auto& name : checkpoint_.names()) {
      if (used_.contains(name)) continue;
      if (is_excused(name)) {
        report.ignored.push_back(name);
        continue;
      }
      complain(fmt::format("{} is in the checkpoint but unused", name));
      has_extra_ = true;
    }
    if (!findings_.empty()) fail_with_findings();
    return report;
  }

 private:
  bool bind(const ir::Placeholder& leaf) {
    const std::string* stored = nullptr;
    std::vector<std::string> copies;
    for (const auto& name : leaf.names()) {
      if (!checkpoint_.contains(name)) continue;
      if (stored && is_excused(name)) continue;
      if (stored) copies.push_back(name);
      else stored = &name;
      used_.insert(name);
    }
    if (!stored) return bind_otherwise(leaf);

    ir::TensorPtr source;
    try {
      source = checkpoint_.find(*stored);
    } catch (const Error& e) {
      return complain(e.what());
    }
    if (source->dims() != leaf.dims()) return complain(*stored, shape_text(source->dims()), shape_text(leaf.dims()));
    if (ir::is_floating_point(leaf.dtype()) && !is_weight_dtype(source->dtype())) {
      return complain(*stored, ir::short_name(source->dtype()), "f32, f16 or bf16");
    }
    for (const auto& copy : copies) {
      const auto other = checkpoint_.find(copy);
      if (other->dims() == leaf.dims() && is_weight_dtype(other->dtype()) && are_equal(source, other, leaf.dtype())) continue;
      return complain(
          fmt::format("{} differs from {}, although the config says that they are one (tie_word_embeddings); "
                      "set that to false, or take {} alone with {} {}",
                      copy, *stored, *stored, option_name("ignore_extra"), copy));
    }
    leaf.bind(std::move(source));
    return true;
  }

  bool bind_otherwise(const ir::Placeholder& leaf) {
    auto source = options_.otherwise ? options_.otherwise(leaf) : nullptr;
    if (!source) return complain(fmt::format("{} is not in {}", fmt::join(distinct(leaf.names()), " or "), place()));
    leaf.bind(std::move(source));
    return true;
  }

  bool is_excused(std::string_view name) const {
    for (const auto glob : options_.ignorable) {
      if (matches_glob(name, glob)) return true;
    }
    for (const auto& glob : options_.ignore_extra) {
      if (matches_glob(name, glob)) return true;
    }
    return false;
  }

  // Several parameters may be parts of one tensor: it is named once.
  bool complain(std::string finding) {
    if (said_.insert(finding).second) findings_.push_back(std::move(finding));
    return false;
  }
  bool complain(const std::string& name, std::string_view found, std::string_view expected) {
    return complain(fmt::format("{} is {}, expected {} ({})", name, found, expected, checkpoint_.origin(name)));
  }

  std::string place() const {
    const auto& files = checkpoint_.provenance().files;
    return files.size() == 1 ? files.front().first : fmt::format("the checkpoint's {} files", files.size());
  }

  [[noreturn]] void fail_with_findings() const {
    if (findings_.size() == 1)
      fail(ErrorKind::invalid_argument, "{}{}", findings_.front(), has_extra_ ? fmt::format(" ({} GLOB to allow it)", option_name("ignore_extra")) : "");
    fail(ErrorKind::invalid_argument, "the checkpoint does not fit the model in {} places{}:\n  {}", findings_.size(),
         has_extra_ ? fmt::format(" ({} GLOB to allow unused tensors)", option_name("ignore_extra")) : "", fmt::join(findings_, "\n  "));
  }

  const Checkpoint& checkpoint_;
  const BindOptions& options_;
  std::set<std::string, std::less<>> used_;
  std::vector<std::string> findings_;
  bool has_extra_ = false;
  std::set<std::string> said_;
};

}  // namespace

BindReport bind_weights(const std::vector<ir::Model*>& models, const Checkpoint& checkpoint, const BindOptions& options) {
  return Binder(checkpoint, options).run(models);
}

std::vector<const ir::Placeholder*> placeholders(const ir::Model& model) {
  PlaceholderWalk walk;
  walk.graph(*model.graph);
  return std::move(walk.found);
}

bool matches_glob(std::string_view text, std::string_view glob) {
  // After a mismatch, the last star takes one character more; earlier stars never need to.
  std::size_t t = 0, g = 0, star = glob.npos, resume = 0;
  while (t < text.size()) {
    if (g < glob.size() && glob[g] == '*') {
      star = g++;
      resume = t;
    } else if (g < glob.size() && (glob[g] == '?' || glob[g] == text[t])) {
      ++g;
      ++t;
    } else if (star != glob.npos) {
      g = star + 1;
      t = ++resume;
    } else {
      return false;
    }
  }
  while (g < glob.size() && glob[g] == '*') ++g;
  return g == glob.size();
}

}  // namespace mobius::weights
