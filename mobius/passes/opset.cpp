// The opset that a model is written for, and the IR version that goes with it.
#include <algorithm>

#include "mobius/base/error.hpp"
#include "mobius/ops/versions.hpp"
#include "mobius/passes/older_forms.hpp"
#include "mobius/passes/passes.hpp"
#include "mobius/passes/walk.hpp"
#include "mobius/rewrite/body.hpp"

namespace mobius::passes {
namespace {

// What the file holds decides how old its IR version may be.
std::int64_t least_ir(const ir::Model& model) {
  std::int64_t least = 3;
  const auto look_at = [&](const ir::Value* v) {
    if (v) least = std::max(least, ops::least_ir_version(v->dtype()));
  };
  for (const auto* v : model.graph->inputs()) look_at(v);
  for (const auto* v : model.graph->initializers()) look_at(v);
  for_each_node(*model.graph, [&](const ir::Node& n) {
    for (const auto* v : n.outputs()) look_at(v);
    if (!n.metadata.empty() || !n.overload.empty()) least = std::max<std::int64_t>(least, 10);
  });
  for (const auto& f : model.functions) least = std::max<std::int64_t>(least, f.overload.empty() ? 8 : 10);
  return least;
}

}  // namespace

std::int64_t opset_of(const ir::Model& model) {
  const auto found = model.opset_imports.find("");
  return found == model.opset_imports.end() ? 1 : found->second;
}

namespace {

std::int64_t opset_of(const ir::Function& f, std::int64_t otherwise) {
  const auto found = f.opset_imports.find("");
  return found == f.opset_imports.end() ? otherwise : found->second;
}

// Why the node can't be raised; nullopt: it means the same there, or is an older form that is written anew (nothing else about it may have changed).
std::optional<std::string> why_not_raised(const ir::Node& n, std::int64_t own, std::int64_t opset) {
  if (opset <= own || !ops::differs_between(n, own, opset)) return std::nullopt;
  const auto since = ops::newer_form_since(n);
  const bool is_older = own >= ops::oldest_known && own < since && since <= opset && !ops::differs_between(n, since, opset);
  const auto reason = is_older ? why_no_newer_form(n) : std::nullopt;
  if (is_older && !reason) return std::nullopt;
  return fmt::format("{} of opset {} can't be raised to opset {}{}{}", ir::to_string(n.op), own, opset, reason ? ": " : "", reason.value_or(""));
}

// Runtimes read a function's body at the model's opset, whatever its own says. Where the two differ in what they make of a node, nobody knows which
// of them was meant.
std::optional<std::string> why_not_raised(const ir::Function& f, std::int64_t own, std::int64_t opset) {
  const auto of_body = opset_of(f, own);
  std::optional<std::string> why;
  for_each_node(*f.body, [&](const ir::Node& n) {
    if (why || of_body >= opset) return;
    why = why_not_raised(n, of_body, opset);
    if (!why && of_body != own && ops::differs_between(n, of_body, own))
      why = fmt::format("{} of opset {} means something else in opset {} of the model, and can't be raised to opset {}", ir::to_string(n.op), of_body, own,
                        opset);
  });
  return why;
}

}  // namespace

std::optional<std::string> why_not_raised(const ir::Model& model, std::int64_t opset) {
  const auto own = opset_of(model);
  std::optional<std::string> why;
  for_each_node(*model.graph, [&](const ir::Node& n) {
    if (why) return;
    if (const auto of_node = why_not_raised(n, own, opset)) why = fmt::format("{}: {}", rewrite::scope_of_call(n), *of_node);
  });
  for (const auto& f : model.functions) {
    if (why) break;
    if (const auto of_body = why_not_raised(f, own, opset)) why = fmt::format("function {}: {}", f.name, *of_body);
  }
  return why;
}

std::size_t raise_opset(ir::Model& model, std::int64_t opset, std::int64_t max_ir) {
  const auto own = opset_of(model);
  if (opset <= own) return 0;
  if (const auto why = why_not_raised(model, opset)) fail(ErrorKind::unsupported, "{}", *why);
  auto rewritten = write_newer_forms(*model.graph, own, opset);
  for (auto& f : model.functions) {
    const auto of_body = opset_of(f, own);
    if (of_body >= opset) continue;
    rewritten += write_newer_forms(*f.body, of_body, opset);
    make_value_names_unique(*f.body);
    if (const auto import = f.opset_imports.find(""); import != f.opset_imports.end()) import->second = opset;
  }
  model.opset_imports[""] = opset;
  model.ir_version = std::max(model.ir_version, std::min(max_ir, ops::ir_version_of(opset)));
  return rewritten;
}

void set_opset(ir::Model& model, std::int64_t opset, std::int64_t max_ir) {
  const auto own = opset_of(model);
  // Where the opset stays, only an operator that it has not can have got in: fusions write some on their way to another.
  const bool is_lowered = opset < own;
  for_each_node(*model.graph, [&](const ir::Node& n) {
    const auto needed = is_lowered ? ops::least_opset(n) : ops::since(n.op);
    if (needed > opset || (is_lowered && ops::differs_between(n, opset, own))) {
      fail(ErrorKind::unsupported, "{} ({}) can't be written for opset {}: it is of opset {} in this form", rewrite::scope_of_call(n), ir::to_string(n.op),
           opset, std::max(needed, opset + 1));
    }
  });
  auto version = std::min(model.ir_version, max_ir);
  if (opset < own) version = std::min(version, ops::ir_version_of(opset));
  if (opset > own) version = std::max(version, std::min(max_ir, ops::ir_version_of(opset)));
  if (opset != own) model.opset_imports[""] = opset;
  model.ir_version = std::max(version, least_ir(model));
}

}  // namespace mobius::passes
