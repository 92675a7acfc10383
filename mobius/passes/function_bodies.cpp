// Function bodies make custom operators portable: a runtime without the kernel runs the body.
#include <map>
#include <vector>

#include "mobius/ops/expr.hpp"
#include "mobius/ops/functions.hpp"
#include "mobius/passes/passes.hpp"
#include "mobius/passes/walk.hpp"

namespace mobius::passes {

void attach_function_bodies(ir::Model& model, std::int64_t opset) {
  std::map<std::string, std::map<std::string, const ir::Node*>> forms;  // operator -> its forms, each with a node that has it
  const auto collect = [&](const ir::Node& n) {
    if (n.op.domain != ops::microsoft) return;
    model.opset_imports.try_emplace(std::string(n.op.domain), 1);
    if (n.overload.empty()) forms[std::string(n.op.type)].emplace(ops::function_form(n), &n);
  };
  for_each_node(*model.graph, collect);
  for (const auto& f : model.functions) for_each_node(*f.body, collect);
  for (const auto& [op, nodes] : forms) {
    // Several forms have no body in common; then the EP has kernels, or InlinePass has warned.
    if (nodes.size() != 1) continue;
    auto body = ops::function_body(*nodes.begin()->second, opset);
    if (!body) continue;
    // One that came with the model may be for another form.
    std::erase_if(model.functions, [&](const ir::Function& f) { return f.domain == ops::microsoft && f.name == op && f.overload.empty(); });
    model.functions.push_back(std::move(*body));
  }
}

}  // namespace mobius::passes
