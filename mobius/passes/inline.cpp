// Which operators have to go, and the walk that expands them.
#include "mobius/passes/inline.hpp"

#include <algorithm>
#include <optional>
#include <set>

#include "mobius/base/error.hpp"
#include "mobius/ops/expr.hpp"
#include "mobius/ops/functions.hpp"
#include "mobius/ops/versions.hpp"
#include "mobius/passes/passes.hpp"
#include "mobius/passes/walk.hpp"
#include "mobius/rewrite/body.hpp"

namespace mobius::passes {
namespace {

using ir::DataType;
using rewrite::Target;

// ── the table: what a com.microsoft operator asks of an EP ───────────────────────────────────────────────────────────────

struct Kernel {
  std::string_view op;
  // The capability that says no to this node; "" when the kernel takes it.
  std::string_view (*lacks)(const EpCapabilities& ep, DataType dtype, const ir::Node& node);
};

std::string_view unless(bool has, std::string_view capability) { return has ? std::string_view() : capability; }

std::string_view skip_norm(const EpCapabilities& ep, DataType dtype, const ir::Node& node) {
  if (!ep.supports_skip_layer_norm) return "supports_skip_layer_norm";
  const auto *x = node.input(0), *skip = node.input(1);
  const bool broadcasts = x && skip && x->shape() && skip->shape() && *x->shape() != *skip->shape();
  if (broadcasts && !ep.supports_skip_broadcast) return "supports_skip_broadcast";
  return unless(ep.skip_layer_norm_dtypes.contains(dtype), "skip_layer_norm_dtypes");
}

std::string_view skip_rms_norm(const EpCapabilities& ep, DataType dtype, const ir::Node& node) {
  if (node.input(3) && !ep.supports_skip_rms_norm_bias) return "supports_skip_rms_norm_bias";
  return skip_norm(ep, dtype, node);
}

// The size of a head; nullopt where the query's is not known.
std::optional<std::int64_t> gqa_head_size(const ir::Node& node) {
  const auto* query = node.input(0);
  if (!query || !query->shape() || query->shape()->empty()) return std::nullopt;
  const auto width = query->shape()->back().as_static();
  const auto heads = node.int_attribute("num_heads", 0) + (node.input(1) ? 0 : 2 * node.int_attribute("kv_num_heads", 0));
  return width && heads > 0 ? std::optional(*width / heads) : std::nullopt;
}

std::string_view gqa(const EpCapabilities& ep, DataType dtype, const ir::Node& node) {
  if (!ep.gqa_dtypes.contains(dtype)) return "gqa_dtypes";
  if (node.int_attribute("local_window_size", -1) >= 0 && !ep.supports_gqa_window) return "supports_gqa_window";
  if (node.float_attribute("softcap", 0) != 0 && !ep.supports_gqa_softcap) return "supports_gqa_softcap";
  if (node.input(10) && !ep.supports_gqa_attention_bias) return "supports_gqa_attention_bias";
  if (node.input(11) && !ep.supports_gqa_sink) return "supports_gqa_sink";
  const auto size = gqa_head_size(node);
  if (!size) return {};
  if (*size % ep.gqa_head_size_multiple != 0) return "gqa_head_size_multiple";
  // Rope inside is taken out by SeparateRoPE where the EP has none.
  const bool rotates = node.int_attribute("do_rotary", 0) != 0 && ep.supports_fused_rope;
  return unless(!rotates || *size % ep.gqa_rotary_head_size_multiple == 0, "gqa_rotary_head_size_multiple");
}

std::string_view packed_attention(const EpCapabilities& ep, DataType dtype, const ir::Node&) {
  return unless(ep.supports_packed_multi_head_attention && ep.packed_multi_head_attention_dtypes.contains(dtype), "supports_packed_multi_head_attention");
}
std::string_view fused_matmul(const EpCapabilities& ep, DataType dtype, const ir::Node&) {
  return unless(ep.supports_fused_matmul && ep.fused_matmul_dtypes.contains(dtype), "supports_fused_matmul");
}
std::string_view experts(const EpCapabilities& ep, DataType, const ir::Node&) { return unless(ep.supports_fused_moe, "supports_fused_moe"); }
std::string_view bias_gelu(const EpCapabilities& ep, DataType dtype, const ir::Node&) {
  return unless(ep.supports_bias_gelu && ep.gelu_dtypes.contains(dtype), "supports_bias_gelu");
}
std::string_view fast_gelu(const EpCapabilities& ep, DataType dtype, const ir::Node&) {
  return unless(ep.supports_fast_gelu && ep.gelu_dtypes.contains(dtype), "supports_fast_gelu");
}
std::string_view attention(const EpCapabilities& ep, DataType, const ir::Node&) { return unless(ep.supports_attention, "supports_attention"); }
std::string_view rope(const EpCapabilities& ep, DataType, const ir::Node&) { return unless(ep.supports_rotary_embedding, "supports_rotary_embedding"); }
std::string_view matmul_nbits(const EpCapabilities& ep, DataType, const ir::Node&) { return unless(ep.supports_matmul_nbits, "supports_matmul_nbits"); }

constexpr Kernel kernels[] = {
    {"SkipLayerNormalization", skip_norm},
    {"SkipSimplifiedLayerNormalization", skip_rms_norm},
    {"FusedMatMul", fused_matmul},
    {"GroupQueryAttention", gqa},
    {"MultiHeadAttention", attention},
    {"PackedMultiHeadAttention", packed_attention},
    {"RotaryEmbedding", rope},
    {"MoE", experts},
    {"QMoE", experts},
    {"BiasGelu", bias_gelu},
    {"FastGelu", fast_gelu},
    {"MatMulNBits", matmul_nbits},
};

// ONNX Runtime's own, though it stands in the standard's domain.
bool is_standard(ir::OpName op) { return ops::is_standard_domain(op.domain) && op.type != "SimplifiedLayerNormalization"; }

DataType dtype_of(const ir::Node& node, DataType otherwise) {
  for (const auto* v : node.inputs())
    if (v && ir::is_floating_point(v->dtype())) return v->dtype();
  return otherwise;
}

// Functions that call functions can grow without end. No model of layers comes near this.
constexpr std::size_t most_expansions = 200'000;

// Why an operator has to go.
struct Reason {
  std::string text;
  bool may_stay;  // it would be slow or not run on this EP, but the model is valid
};

class Inline {
 public:
  Inline(ir::Model& model, const Target& target) : model_(model), target_(target), own_opset_(model.opset_imports.contains("") ? model.opset_imports[""] : 1) {}

  Inlined run() {
    refuse_recursion();
    const auto before = count_operators(model_);
    do expand_all();
    while (target_.ep.relies_on_function_bodies && choose_forms());
    if (done_.report.applied > 0) clean();
    if (done_.report.applied > 0 || !target_.ep.supports_custom_domains) drop_unused_functions();
    done_.report.rule = "InlinePass";
    for (const auto& [op, change] : difference(before, count_operators(model_))) {
      done_.report.change_per_op[op] = change;
      (change > 0 ? done_.report.added : done_.report.removed) += static_cast<std::size_t>(std::abs(change));
    }
    if (target_.ep.relies_on_function_bodies) note_bodiless();
    describe_left();
    return std::move(done_);
  }

 private:
  // ── what has to go ──

  std::optional<Reason> reason(const ir::Node& node) const {
    if (const auto* function = model_.find_function(node.op, node.overload); function && !is_contrib(node)) return reason_of_call(*function);
    if (is_standard(node.op)) return reason_of_standard(node);
    if (!target_.ep.supports_custom_domains) return Reason{target_.ep.name + " runs the standard's own operators only", false};
    if (target_.ep.relies_on_function_bodies) {
      if (node.op.domain.empty()) return Reason{"it is not of the standard", true};
      return std::nullopt;
    }
    if (node.op.domain != ops::microsoft) return std::nullopt;
    const auto* kernel = std::ranges::find(kernels, node.op.type, &Kernel::op);
    const auto dtype = dtype_of(node, target_.dtype);
    const auto lacking = kernel == std::end(kernels) ? std::string_view() : kernel->lacks(target_.ep, dtype, node);
    if (lacking.empty()) return std::nullopt;
    return Reason{fmt::format("{} has no kernel for it in {} ({})", target_.ep.name, ir::short_name(dtype), lacking), true};
  }

  std::optional<Reason> reason_of_standard(const ir::Node& node) const {
    const auto needed = own_opset_ > target_.opset ? ops::least_opset(node) : ops::since(node.op);
    if (needed <= target_.opset) return std::nullopt;
    return Reason{fmt::format("it needs opset {}, the target is {}", needed, target_.opset), false};
  }

  // A function that came with the model goes when something in it has to. Asked once for each: a body may call another one many times, and that a third.
  const std::optional<Reason>& reason_of_call(const ir::Function& function) const {
    const auto known = reasons_.find(&function);
    return known != reasons_.end() ? known->second : reasons_.emplace(&function, find_reason(function)).first->second;
  }

  std::optional<Reason> find_reason(const ir::Function& function) const {
    if (!target_.ep.supports_custom_domains) return Reason{target_.ep.name + " runs the standard's own operators only", false};
    const auto opset = function.opset_imports.find("");
    if (opset != function.opset_imports.end() && opset->second > target_.opset) return Reason{fmt::format("its body is of opset {}", opset->second), false};
    std::optional<Reason> found;
    for_each_node(*function.body, [&](const ir::Node& inner) {
      if (!found) found = reason(inner);
    });
    return found;
  }

  // An operator that ONNX Runtime has: a function of that name in the model says the same.
  bool is_contrib(const ir::Node& node) const { return node.overload.empty() && ops::has_function_body(node.op); }

  // ── expanding ──

  void expand_all() { expand_in(*model_.graph); }

  void expand_in(ir::Graph& graph) {
    for (auto* node = graph.first(); node;) {
      for (auto* g : node->subgraphs()) expand_in(*g);
      const auto why = reason(*node);
      node = why ? expand_or_leave(graph, node, *why) : node->next();
    }
  }

  // The next node to look at: the first of the body, since it may hold what has to go too.
  ir::Node* expand_or_leave(ir::Graph& graph, ir::Node* node, const Reason& why) {
    if (auto body = body_of(*node)) return expand(graph, node, *body);
    if (!why.may_stay) {
      fail(ErrorKind::unsupported, "{} ({}): {}, and it can't be expanded: no function body is known for the form {}", rewrite::scope_of_call(*node),
           ir::to_string(node->op), why.text, ops::function_form(*node));
    }
    note(*node, why.text);
    return node->next();
  }

  struct Body {
    const ir::Function* function;
    std::optional<ir::Function> made;  // owns `function` when it did not come with the model
  };
  std::optional<Body> body_of(const ir::Node& node) const {
    if (node.overload.empty()) {
      if (auto made = ops::function_body(node, target_.opset)) return Body{nullptr, std::move(made)};
    }
    const auto* function = model_.find_function(node.op, node.overload);
    if (!function) return std::nullopt;
    const auto opset = function->opset_imports.find("");
    for_each_node(*function->body, [&](const ir::Node& inner) {
      if (opset == function->opset_imports.end() || !ops::differs_between(inner, opset->second, target_.opset)) return;
      fail(ErrorKind::unsupported, "{}: function {} is written for opset {}, and can't be expanded in opset {} ({} differs)", rewrite::scope_of_call(node),
           ir::to_string(node.op), opset->second, target_.opset, ir::to_string(inner.op));
    });
    return Body{function, std::nullopt};
  }

  ir::Node* expand(ir::Graph& graph, ir::Node* node, const Body& body) {
    const auto& function = body.made ? *body.made : *body.function;
    if (done_.report.applied == most_expansions)
      fail(ErrorKind::unsupported, "{} ({}): more than {} calls of functions would have to be expanded", rewrite::scope_of_call(*node), ir::to_string(node->op),
           most_expansions);
    for (const auto& [domain, version] : function.opset_imports) model_.opset_imports.try_emplace(domain, version);
    auto* before = node->previous();
    rewrite::Inserter at(graph, node, rewrite::scope_of_call(*node));
    if (!body.made) at.allow_contradictions();
    const auto results = rewrite::insert_body(at, *node, function);
    for (std::size_t i = 0; i < results.size(); ++i)
      if (results[i] && node->output(i)->is_used()) at.redirect(node->output(i), results[i]);
    graph.erase(node);
    ++done_.report.applied;
    return before ? before->next() : graph.first();
  }

  // ── one form per operator ──

  struct Form {
    std::vector<ir::Node*> nodes;
    bool has_body = false;
  };

  // Expands the rarer forms; true when there were any.
  bool choose_forms() {
    std::map<std::string, std::vector<ir::Node*>> by_operator;
    for_each_node(*model_.graph, [&](ir::Node& n) {
      if (n.op.domain == ops::microsoft && is_contrib(n)) by_operator[std::string(n.op.type)].push_back(&n);
    });
    bool any = false;
    for (auto& [op, nodes] : by_operator) {
      align_outputs(nodes);
      std::vector<Form> forms = forms_of(nodes);
      if (forms.size() < 2) continue;
      const auto* kept =
          std::ranges::all_of(forms, &Form::has_body) ? &*std::ranges::max_element(forms, {}, [](const Form& f) { return f.nodes.size(); }) : nullptr;
      for (const auto& form : forms) {
        if (&form == kept || !form.has_body) continue;
        for (auto* node : form.nodes) expand(node->graph(), node, *body_of(*node));
        any = true;
      }
    }
    return any;
  }

  // In the order in which they are met, so that of equally frequent ones the first stays.
  std::vector<Form> forms_of(const std::vector<ir::Node*>& nodes) const {
    std::vector<Form> forms;
    std::map<std::string, std::size_t> index;
    for (auto* node : nodes) {
      const auto [it, fresh] = index.try_emplace(ops::function_form(*node), forms.size());
      if (fresh) forms.push_back({{}, ops::function_body(*node, target_.opset).has_value()});
      forms[it->second].nodes.push_back(node);
    }
    return forms;
  }

  // Nodes that differ only in which results they give become one form: a result that nobody reads costs nothing.
  static void align_outputs(const std::vector<ir::Node*>& nodes) {
    std::set<std::size_t> present;
    for (const auto* n : nodes)
      for (std::size_t i = 0; i < n->outputs().size(); ++i)
        if (n->output(i)) present.insert(i);
    for (auto* n : nodes) {
      bool changed = false;
      for (const auto i : present) {
        if (n->output(i)) continue;
        n->restore_output(i, n->graph().unique_name(fmt::format("{}:{}", rewrite::scope_of_call(*n), i)));
        changed = true;
      }
      if (changed) infer_types(*n);
    }
  }

  // ── afterwards ──

  void clean() {
    auto& graph = *model_.graph;
    remove_identities(graph);
    fold_constants(graph);
    deduplicate_initializers(graph);
    eliminate_common_subexpressions(graph);
    remove_dead_code(graph);
  }

  void drop_unused_functions() {
    std::set<const ir::Function*> used;
    const auto mark = [&](const auto& self, const ir::Graph& graph) -> void {
      for_each_node(graph, [&](const ir::Node& n) {
        const auto* f = model_.find_function(n.op, n.overload);
        if (f && used.insert(f).second) self(self, *f->body);
      });
    };
    mark(mark, *model_.graph);
    std::erase_if(model_.functions, [&](const ir::Function& f) { return !used.contains(&f); });
    if (target_.ep.supports_custom_domains) return;
    std::erase_if(model_.opset_imports, [](const auto& entry) { return !ops::is_standard_domain(entry.first); });
  }

  // Where an EP relies on function bodies, an operator without one runs only where the runtime happens to have a kernel.
  void note_bodiless() {
    for_each_node(*model_.graph, [&](const ir::Node& n) {
      if (is_standard(n.op) || body_of(n)) return;
      note(n, target_.ep.name + " relies on function bodies");
    });
  }

  void note(const ir::Node& node, const std::string& why) {
    auto& left = left_[ops::function_form(node)];
    if (left.names.empty()) left.first = rewrite::scope_of_call(node), left.why = why;
    left.names.insert(rewrite::scope_of_call(node));
  }

  void describe_left() {
    for (const auto& [form, left] : left_) {
      const auto count = left.names.size();
      done_.warnings.push_back(fmt::format("{} ({}{}) stays: {}, and no function body is known for the form {}", left.first, form.substr(0, form.find('(')),
                                           count > 1 ? fmt::format(", and {} more", count - 1) : "", left.why, form));
    }
  }

  // A function that calls itself could be expanded for ever.
  void refuse_recursion() const {
    std::set<const ir::Function*> open, done;
    const auto visit = [&](const auto& self, const ir::Function& f) -> void {
      if (done.contains(&f)) return;
      if (!open.insert(&f).second) fail(ErrorKind::corrupt_file, "function {}::{} calls itself", f.domain, f.name);
      for_each_node(*f.body, [&](const ir::Node& n) {
        if (const auto* inner = model_.find_function(n.op, n.overload)) self(self, *inner);
      });
      open.erase(&f);
      done.insert(&f);
    };
    for (const auto& f : model_.functions) visit(visit, f);
  }

  struct Left {
    std::string first, why;
    std::set<std::string> names;
  };

  ir::Model& model_;
  const Target& target_;
  std::int64_t own_opset_;
  Inlined done_;
  std::map<std::string, Left> left_;  // by form
  mutable std::map<const ir::Function*, std::optional<Reason>> reasons_;
};

}  // namespace

Inlined inline_functions(ir::Model& model, const rewrite::Target& target) { return Inline(model, target).run(); }

}  // namespace mobius::passes
