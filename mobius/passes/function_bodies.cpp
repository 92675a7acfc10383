// Function bodies make custom operators portable: a runtime without the kernel runs the body.
#include <map>

#include "mobius/ops/expr.hpp"
#include "mobius/ops/functions.hpp"
#include "mobius/passes/passes.hpp"

namespace mobius::passes {
namespace {

void visit(const ir::Graph& graph, const auto& each) {
  for (const auto* n : graph.nodes()) {
    each(*n);
    for (const auto* g : n->subgraphs()) visit(*g, each);
  }
}

}  // namespace

void attach_function_bodies(ir::Model& model) {
  std::map<std::string, std::string> forms;  // operator -> the form its body is for
  visit(*model.graph, [&](const ir::Node& n) {
    if (n.op.domain != ops::microsoft) return;
    model.opset_imports.try_emplace(std::string(n.op.domain), 1);
    if (model.find_function(n.op, n.overload) && !forms.contains(std::string(n.op.type))) return;  // came with the model
    auto form = ops::function_form(n);
    const auto [it, fresh] = forms.try_emplace(std::string(n.op.type), form);
    if (!fresh) {
      // One body can't serve two forms: then none is there, and the operator is left to kernels.
      if (it->second != form) std::erase_if(model.functions, [&](const ir::Function& f) { return f.domain == n.op.domain && f.name == n.op.type; });
      return;
    }
    if (auto body = ops::function_body(n, model.opset_imports[""])) model.functions.push_back(std::move(*body));
  });
}

}  // namespace mobius::passes
