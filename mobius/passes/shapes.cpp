// Types and constants of graphs as they come.
#include <algorithm>

#include "mobius/base/error.hpp"
#include "mobius/ops/infer.hpp"
#include "mobius/passes/passes.hpp"
#include "mobius/rewrite/body.hpp"

namespace mobius::passes {

void infer_types(ir::Node& node, ops::TypeInference& inference) {
  try {
    inference.infer(node);
  } catch (const Error&) {  // what it says about the model is for the runtime to say
  }
}

void infer_types(ir::Node& node) {
  ops::TypeInference inference;
  infer_types(node, inference);
}

std::size_t infer_shapes(ir::Graph& graph) {
  ops::TypeInference inference;
  std::size_t found = 0;
  for (auto* node : graph.nodes()) {
    const auto shapes = [&] { return std::ranges::count_if(node->outputs(), [](auto* o) { return o && o->shape().has_value(); }); };
    const auto before = shapes();
    infer_types(*node, inference);
    found += static_cast<std::size_t>(shapes() - before);
  }
  return found;
}

namespace {

// "past_sequence_length + 1", where new tokens are really as many as input_ids has: exporters write what their example had. A sum of
// symbols is taken at its word.
bool is_doubtful(const ir::Dim& d) {
  return d.is_symbolic() && d.sum()->size() > 1 && std::ranges::any_of(*d.sum(), [](const auto& term) { return term.symbols.empty(); });
}

}  // namespace

StatedTypes::StatedTypes(ir::Graph& graph) : graph_(graph) {
  for (auto* v : graph.inputs()) {
    inputs_.emplace_back(v, v->type);
    if (!v->type.shape) continue;
    for (auto& d : *v->type.shape)
      if (is_doubtful(d)) d = ir::Dim::symbol(d.to_string());
  }
  for (auto* v : graph.outputs()) {
    outputs_.push_back(v->type);
    if (!v->type.shape || v->is_graph_input()) continue;
    for (auto& d : *v->type.shape)
      if (d.is_symbolic()) d = ir::Dim();
  }
}

StatedTypes::~StatedTypes() {
  for (auto& [v, type] : inputs_)
    if (std::ranges::find(graph_.inputs(), v) != graph_.inputs().end()) v->type = type;
  for (std::size_t i = 0; i < outputs_.size() && i < graph_.outputs().size(); ++i)
    if (auto* v = graph_.outputs()[i]; !v->is_graph_input()) v->type = rewrite::joined(outputs_[i], v->type);
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
