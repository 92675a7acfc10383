// Names of values in subgraphs.
#include <algorithm>
#include <vector>

#include "mobius/base/error.hpp"
#include "mobius/passes/passes.hpp"

namespace mobius::passes {
namespace {

class Renaming {
 public:
  std::size_t run(ir::Graph& graph) {
    around_.push_back(&graph);
    for (auto* n : graph.nodes()) {
      for (auto* g : n->subgraphs()) {
        rename_in(*g);
        run(*g);
      }
    }
    around_.pop_back();
    return renamed_;
  }

 private:
  void rename_in(ir::Graph& graph) {
    for (auto* v : graph.inputs()) rename(graph, v);
    for (auto* v : graph.initializers()) rename(graph, v);
    for (auto* n : graph.nodes())
      for (auto* v : n->outputs())
        if (v) rename(graph, v);
  }

  void rename(ir::Graph& graph, ir::Value* v) {
    if (!is_taken(v->name)) return;
    auto name = v->name;
    for (int i = 1; is_taken(name) || graph.find_value(name); ++i) name = fmt::format("{}_inner_{}", v->name, i);
    graph.rename(v, std::move(name));
    ++renamed_;
  }

  bool is_taken(const std::string& name) const {
    return std::ranges::any_of(around_, [&](const ir::Graph* g) { return g->find_value(name) != nullptr; });
  }

  std::vector<ir::Graph*> around_;  // from the main graph to the one whose subgraphs are looked at
  std::size_t renamed_ = 0;
};

}  // namespace

std::size_t make_value_names_unique(ir::Graph& graph) { return Renaming().run(graph); }

}  // namespace mobius::passes
