// InlinePass (stage 2b): function bodies in place of operators that the target can't run.
//
//   const Inlined done = inline_functions(model, target);        // done.report: a line of the trace
//
// Expanded are
// - operators without a kernel: by a table of operators and capabilities; without custom domains, all but the standard's own;
// - operators that the target's opset lacks, in this form;
// - where the EP relies on function bodies, all but the most frequent form of an operator: a model holds one body per operator.
// Bodies are those of ops/functions.hpp, else functions that came with the model. What was expanded is cleaned: identities, constants,
// equal nodes, dead nodes.
#pragma once
#include "mobius/ir/model.hpp"
#include "mobius/rewrite/rule.hpp"

namespace mobius::passes {

struct Inlined {
  rewrite::RuleReport report;
  std::vector<std::string> warnings;  // operators that stay though the EP lacks them: they have no body in their form
};

// Error unsupported: an operator that can't stay (the opset or the domain is not there) has no body in this form.
Inlined inline_functions(ir::Model& model, const rewrite::Target& target);

}  // namespace mobius::passes
