// Operators that provably return their operand, or what it was made from.
#include <algorithm>

#include "mobius/ops/layout.hpp"
#include "mobius/passes/passes.hpp"
#include "mobius/rewrite/body.hpp"

namespace mobius::passes {
namespace {

bool same_shape(const ir::Value* a, const ir::Value* b) { return a->shape() && b->shape() && *a->shape() == *b->shape(); }

bool is_number(const ir::Value* v, double number) {
  const auto found = v && v->data() ? ir::as_scalar(*v->data()) : std::nullopt;
  return found && *found == number;
}

bool all_are(const ir::Value* v, double number) {
  if (!v || !v->data() || v->data()->elements() > 64) return false;
  const auto values = ir::as_doubles(*v->data());
  return values && std::ranges::all_of(*values, [&](double x) { return x == number; });
}

// Every value of `from` is one of `to`.
bool holds_all_of(ir::DataType to, ir::DataType from) {
  using enum ir::DataType;
  if (to == from) return true;
  if (to == float64) return from == float32 || from == float16 || from == bfloat16;
  if (to == float32) return from == float16 || from == bfloat16;
  if (to == int64) return from == int32 || from == boolean;
  return to == int32 && from == boolean;
}

// A Cast to the type that is there; or back to it, by way of a wider one.
ir::Value* uncast(const ir::Node& cast) {
  auto* x = cast.input(0);
  const auto to = static_cast<ir::DataType>(cast.int_attribute("to", 0));
  if (x->dtype() == to && to != ir::DataType::undefined) return x;
  const auto* before = x->producer();
  if (!before || !before->is("Cast") || before->input(0)->graph() != x->graph()) return nullptr;
  auto* source = before->input(0);
  return source->dtype() == to && to != ir::DataType::undefined && holds_all_of(x->dtype(), to) ? source : nullptr;
}

// x in x · 1, x + 0, x ∧ true; nullptr: the operand with the number changes something.
ir::Value* without_neutral(const ir::Node& n) {
  auto *a = n.input(0), *b = n.input(1), *y = n.output();
  const auto keeps = [&](ir::Value* x, const ir::Value* number, double neutral) { return x && is_number(number, neutral) && same_shape(x, y); };
  const double neutral = n.op.type == "Mul" || n.op.type == "Div" || n.op.type == "And" ? 1 : 0;
  if (keeps(a, b, neutral)) return a;
  const bool commutes = n.op.type != "Div" && n.op.type != "Sub";
  return commutes && keeps(b, a, neutral) ? b : nullptr;
}

// What the node's only result is equal to.
ir::Value* equal_value(const ir::Node& n) {
  auto* x = n.input(0);
  auto* y = n.output();
  if (!x || !y || !n.op.domain.empty() || n.outputs().size() != 1) return nullptr;
  const auto type = n.op.type;
  if (type == "Identity") return x;
  if (type == "Cast") return uncast(n);
  if (type == "Mul" || type == "Div" || type == "Add" || type == "Sub" || type == "And" || type == "Or") return without_neutral(n);
  // As many elements as before, in steps of one: all of them.
  if (type == "Slice") return same_shape(x, y) && (!n.input(4) || all_are(n.input(4), 1)) ? x : nullptr;
  if (type == "Dropout") return !n.input(2) || is_number(n.input(2), 0) ? x : nullptr;
  if (type == "Concat" && n.inputs().size() == 1) return x;
  if (const auto perm = n.ints_attribute("perm"); type == "Transpose" && perm && std::ranges::is_sorted(*perm)) return x;
  return ops::moved_operand(n) ? ops::same_value(y) : nullptr;
}

}  // namespace

std::size_t remove_identities(ir::Graph& graph) {
  std::size_t removed = 0;
  for (auto* n = graph.first(); n;) {
    auto* next = n->next();
    for (auto* g : n->subgraphs()) removed += remove_identities(*g);
    if (auto* x = equal_value(*n)) {
      auto* y = n->output(0);
      // An output of the graph keeps a node of its own when its operand can't take the name.
      const bool operand_is_interface = x->is_graph_input() || x->is_graph_output() || x->is_initializer() || x->graph() != &graph;
      if (!(y->is_graph_output() && operand_is_interface)) {
        // What was stated of either holds for both: the interface of a subgraph is read by those who can't infer it.
        x->type = rewrite::joined(x->type, y->type);
        graph.replace_all_uses(y, x);
        graph.erase(n);
        ++removed;
      }
    }
    n = next;
  }
  return removed;
}

}  // namespace mobius::passes
