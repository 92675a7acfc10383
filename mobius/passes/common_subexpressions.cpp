// Equal nodes become one, and so do equal initializers.
#include <array>
#include <unordered_map>

#include "mobius/base/error.hpp"
#include "mobius/passes/passes.hpp"

namespace mobius::passes {
namespace {

constexpr std::array random_ops{"RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike", "Multinomial", "Bernoulli", "Dropout"};

void append(std::string& key, const ir::Attribute& a) {
  std::visit(
      [&](const auto& v) {
        using T = std::decay_t<decltype(v)>;
        if constexpr (std::is_same_v<T, std::int64_t>) key += std::to_string(v);
        else if constexpr (std::is_same_v<T, float>) key += fmt::format("{}f", v);
        else if constexpr (std::is_same_v<T, std::string>) key += fmt::format("{}:{}", v.size(), v);
        else if constexpr (std::is_same_v<T, std::vector<std::int64_t>>) {
          for (auto x : v) key += std::to_string(x) + ",";
        } else if constexpr (std::is_same_v<T, std::vector<float>>) {
          for (auto x : v) key += fmt::format("{}f,", x);
        } else if constexpr (std::is_same_v<T, ir::TensorPtr>) {
          key += v && !v->identity().empty() ? v->identity() : fmt::format("{}", static_cast<const void*>(v.get()));
        } else {
          key += fmt::format("{}", static_cast<const void*>(&v));  // never equal to another's
        }
      },
      a);
}

// Everything that a node's value depends on; empty when it is not a function of its operands.
std::string key_of(const ir::Node& n) {
  for (const auto* r : random_ops)
    if (n.op.type == r) return {};
  if (!n.subgraphs().empty()) return {};
  auto key = ir::to_string(n.op) + "/" + n.overload + "(";
  for (const auto* v : n.inputs()) key += fmt::format("{},", static_cast<const void*>(v));
  key += fmt::format(")x{}", n.outputs().size());
  for (const auto& [name, value] : n.attributes) {
    key += "|" + name + "=" + std::to_string(value.index()) + ":";
    append(key, value);
  }
  return key;
}

bool can_merge(const ir::Node& kept, const ir::Node& n) {
  for (std::size_t i = 0; i < n.outputs().size(); ++i) {
    const auto *a = kept.output(i), *b = n.output(i);
    if (b && b->is_graph_output()) return false;  // the interface keeps its own value
    if (b && b->is_used() && !a) return false;
  }
  return true;
}

}  // namespace

std::size_t eliminate_common_subexpressions(ir::Graph& graph) {
  std::size_t removed = 0;
  std::unordered_map<std::string, ir::Node*> seen;  // looked up only: which node stays is decided by graph order
  for (auto* n = graph.first(); n;) {
    auto* next = n->next();
    for (auto* g : n->subgraphs()) removed += eliminate_common_subexpressions(*g);
    if (auto key = key_of(*n); !key.empty()) {
      const auto [it, fresh] = seen.try_emplace(std::move(key), n);
      if (!fresh && can_merge(*it->second, *n)) {
        for (std::size_t i = 0; i < n->outputs().size(); ++i)
          if (n->output(i) && n->output(i)->is_used()) graph.replace_all_uses(n->output(i), it->second->output(i));
        graph.erase(n);
        ++removed;
      }
    }
    n = next;
  }
  return removed;
}

std::size_t deduplicate_initializers(ir::Graph& graph) {
  std::size_t removed = 0;
  std::unordered_map<std::string, ir::Value*> seen;
  const auto initializers = graph.initializers();
  for (auto* v : initializers) {
    auto id = v->data()->identity();
    if (id.empty() || v->is_graph_input() || v->is_graph_output()) continue;
    id += fmt::format("|{}|", static_cast<int>(v->dtype()));
    for (auto d : v->data()->dims()) id += std::to_string(d) + ",";
    const auto [it, fresh] = seen.try_emplace(std::move(id), v);
    if (fresh) continue;
    graph.replace_all_uses(v, it->second);
    graph.remove_initializer(v);
    ++removed;
  }
  return removed;
}

}  // namespace mobius::passes
