// Types and constants of graphs as they come.
#include <algorithm>

#include "mobius/base/error.hpp"
#include "mobius/ops/infer.hpp"
#include "mobius/passes/passes.hpp"
#include "mobius/rewrite/body.hpp"

namespace mobius::passes {
namespace {

void infer_leniently(ops::TypeInference& inference, ir::Node& node) {
  try {
    inference.infer(node);
  } catch (const Error&) {  // what it says about the model is for the runtime to say
  }
}

}  // namespace

void infer_types(ir::Node& node) {
  ops::TypeInference inference;
  infer_leniently(inference, node);
}

std::size_t infer_shapes(ir::Graph& graph) {
  ops::TypeInference inference;
  std::size_t found = 0;
  for (auto* node : graph.nodes()) {
    const auto shapes = [&] { return std::ranges::count_if(node->outputs(), [](auto* o) { return o && o->shape().has_value(); }); };
    const auto before = shapes();
    infer_leniently(inference, *node);
    found += static_cast<std::size_t>(shapes() - before);
  }
  return found;
}

std::size_t lift_constants(ir::Graph& graph) {
  std::size_t lifted = 0;
  for (auto* n = graph.first(); n;) {
    auto* next = n->next();
    for (auto* g : n->subgraphs()) lifted += lift_constants(*g);
    if (n->is("Constant") && n->output() && !n->output()->is_graph_output()) {
      if (auto data = rewrite::constant_of(n->attributes)) {
        auto* v = n->output();
        auto name = v->name;
        auto* made = graph.add_initializer(graph.unique_name(name), std::move(data));
        graph.replace_all_uses(v, made);
        made->metadata = v->metadata;
        made->doc = v->doc;
        graph.erase(n);
        graph.rename(made, std::move(name));
        ++lifted;
      }
    }
    n = next;
  }
  return lifted;
}

}  // namespace mobius::passes
