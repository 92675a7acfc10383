//   Attention(Transpose(Reshape(q)), Expand(Concat(past_key, k)), ...)   ⟶   Attention(q, k, v, mask, past_key, past_value)
//
// From [batch, heads, length, size] to [batch, length, heads * size], which is what projections give and take; with grouped heads instead
// of repeated ones, the cache as operands, and scaling inside. How a graph cuts, repeats and turns its tensors does not matter: what
// matters is where the elements end up (ops/layout.hpp).
#include <fmt/format.h>

#include <cmath>

#include "mobius/ops/layout.hpp"
#include "mobius/rules/attention_form.hpp"
#include "mobius/rules/conditions.hpp"
#include "mobius/rules/elementwise.hpp"
#include "mobius/rules/heads.hpp"
#include "mobius/rules/rules.hpp"

namespace mobius::rules {
using namespace rewrite;

namespace {

using ops::History;
using Why = std::optional<std::string>;

// ── the cache ────────────────────────────────────────────────────────────────────────────────────────────────────────────

struct Cached {
  ir::Value *past, *recent, *present;  // present = Concat(past, recent)
  std::int64_t heads;
  double factor;
};

bool joins_along_length(const ir::Node* n) {
  if (!n || !n->is("Concat") || n->inputs().size() != 2 || n->output()->rank() != 4u || n->input(1)->rank() != 4u) return false;
  const auto axis = n->int_attribute("axis", 0);
  return axis == 2 || axis == -2;
}

// The cache comes first, and as many keys as there are queries behind it. In another order keys are what the operator has for its past, but
// then the cache stands for the new ones, which must not be none at all.
std::optional<Cached> find_cache(ir::Value* operand, const ir::Value* query, std::int64_t heads, std::int64_t size, bool scaled) {
  const History h(operand, scaled ? scaled_operand : History::Through{});
  for (std::size_t i = 0; i < h.size(); ++i) {
    if (!joins_along_length(h.node(i))) continue;
    const auto source = as_source(h, i, HeadForm::by_head, {.heads = heads, .size = size, .grouped = true, .scaled = scaled});
    if (!source) return std::nullopt;
    const auto* concat = h.node(i);
    if ((*concat->input(1)->shape())[2] != (*query->shape())[2]) return std::nullopt;
    return Cached{concat->input(0), concat->input(1), h[i], source->heads, source->factor};
  }
  return std::nullopt;
}

// ── the whole node ───────────────────────────────────────────────────────────────────────────────────────────────────────

struct Plan {
  HeadSource q, k, v;
  std::optional<Cached> key, value;  // both or none
  double scale = 0;                  // 0: the default
};
using Planned = std::variant<Plan, std::string>;

std::optional<std::int64_t> static_axis(const ir::Value* v, std::size_t i) { return v && v->rank() == 4u ? (*v->shape())[i].as_static() : std::nullopt; }

Planned plan_of(const ir::Node& n) {
  const auto heads = static_axis(n.input(0), 1), size = static_axis(n.input(0), 3);
  const auto kv_heads = static_axis(n.input(1), 1), value_size = static_axis(n.input(2), 3);
  if (!heads || !size || !kv_heads || !value_size || static_axis(n.input(2), 1) != kv_heads) return "the numbers of heads or their sizes are not known";
  if (n.input(6) || n.output(3)) return "it has operands or results that other forms lack";

  Plan plan;
  const auto q = find_source(n.input(0), {.heads = *heads, .size = *size, .scaled = true});
  if (!q) return n.input(0)->name + " can't be told to be queries by heads";
  plan.q = *q;
  ir::Value *key = n.input(1), *value = n.input(2);
  auto cached_heads = *kv_heads;
  double key_factor = 1;
  // "Causal" and windows count from the end of past_key: with the cache among the keys they mean something else.
  const bool counts_from_past = n.int_attribute("is_causal", 0) != 0 || n.attribute("left_window_size") || n.attribute("right_window_size");
  if (!n.input(4) && !counts_from_past) {
    plan.key = find_cache(key, n.input(0), *kv_heads, *size, true);
    plan.value = find_cache(value, n.input(0), *kv_heads, *value_size, false);
    if (!plan.key || !plan.value || plan.key->heads != plan.value->heads || plan.key->present == plan.value->present) plan.key = plan.value = std::nullopt;
    if (plan.key) {
      key = plan.key->recent, value = plan.value->recent;
      cached_heads = plan.key->heads;
      key_factor = plan.key->factor;
    }
  }
  const bool has_cache = plan.key || n.input(4);  // what is cached keeps its heads and its scale
  const auto k = find_source(key, {.heads = cached_heads, .size = *size, .grouped = !has_cache, .scaled = !has_cache});
  const auto v = find_source(value, {.heads = cached_heads, .size = *value_size, .grouped = !has_cache});
  if (!k || !v || k->heads != v->heads) return (k ? value : key)->name + " can't be told to be keys and values by heads";
  plan.k = *k, plan.v = *v;
  const bool shows_cache = (n.output(1) && n.output(1)->is_used()) || (n.output(2) && n.output(2)->is_used());
  if (shows_cache && (plan.key || k->heads != *kv_heads || k->factor != 1)) return "present_key or present_value are used, which would be others";
  const double standard = 1 / std::sqrt(static_cast<double>(*size));
  const double given = static_cast<double>(n.float_attribute("scale", 0));
  const double scale = (given != 0 ? given : standard) * plan.q.factor * plan.k.factor * key_factor;
  if (scale == 0) return "the scale is 0";
  plan.scale = std::abs(scale / standard - 1) < 1e-6 ? 0 : scale;
  return plan;
}

// Without any operand that lies by tokens there would be more nodes than before, and nothing gained but a cache.
Why changes_nothing(const Plan& plan) {
  if (plan.key || plan.k.heads != plan.q.heads || plan.q.factor != 1 || plan.k.factor != 1) return std::nullopt;
  for (const auto* s : {&plan.q, &plan.k, &plan.v})
    if (s->form != HeadForm::by_head) return std::nullopt;
  return "it is by heads on all sides";
}

// What reads the joined cache from here on reads it from the new node; the nodes that led to the old one go with it. An earlier reader
// keeps the Concat.
void take_over(ir::Value* from, ir::Value* to) {
  auto& graph = *from->graph();
  const auto uses = from->uses();
  for (const auto& use : uses)
    if (&use.node->graph() == &graph && graph.precedes(to->producer(), use.node)) use.node->set_input(use.index, to);
  for (std::size_t i = 0; i < graph.outputs().size(); ++i) {
    if (graph.outputs()[i] != from) continue;
    auto name = from->name;
    if (!to->is_graph_output()) graph.rename(to, std::move(name));
    graph.set_output(i, to);
  }
}

std::vector<ir::Value*> make_flat(Inserter& at, const ir::Node& n, const Plan& plan) {
  std::vector<ir::Value*> operands{flat(at, plan.q), flat(at, plan.k), flat(at, plan.v), n.input(3), n.input(4), n.input(5)};
  if (plan.key) operands[4] = plan.key->past, operands[5] = plan.value->past;
  auto attributes = n.attributes;
  attributes["q_num_heads"] = plan.q.heads;
  attributes["kv_num_heads"] = plan.k.heads;
  attributes.erase("scale");
  if (plan.scale != 0) attributes["scale"] = static_cast<float>(plan.scale);

  auto results = at.add(n.op, std::move(operands), std::move(attributes), 3);
  if (plan.key) {
    take_over(plan.key->present, results[1]);
    take_over(plan.value->present, results[2]);
  }
  results[0] = by_head(at, results[0], plan.q.heads, plan.v.size);
  return results;
}

Rule bring_into_form() {
  const auto results = any_form({"", "Attention"}, 3);
  const auto y = results[0];
  return {.name = "AttentionLayout",
          .from = {results.begin(), results.end()},
          .where = {has_rank(y, 4), {[=](const Match& m, const Target&) -> Why {
                      const auto plan = plan_of(*m.node(y));
                      if (const auto* why = std::get_if<std::string>(&plan)) return *why;
                      return changes_nothing(std::get<Plan>(plan));
                    }}},
          .when = writes_attention,
          .make = [=](Inserter& at, const Match& m, const Target&) { return make_flat(at, *m.node(y), std::get<Plan>(plan_of(*m.node(y)))); }};
}

}  // namespace

RuleGroup attention_layout() { return {"AttentionLayout", {bring_into_form()}, undone_moves()}; }

}  // namespace mobius::rules
