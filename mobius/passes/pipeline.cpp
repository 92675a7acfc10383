// The order in which passes and rules run, and why.
#include "mobius/passes/pipeline.hpp"

#include "mobius/base/error.hpp"
#include "mobius/base/log.hpp"
#include "mobius/ep/registry.hpp"
#include "mobius/passes/passes.hpp"
#include "mobius/rules/rules.hpp"

namespace mobius {
namespace {

using rewrite::Rule;
using rewrite::Target;

void check([[maybe_unused]] const ir::Model& model, [[maybe_unused]] std::string_view after) {
#ifdef MOBIUS_VERIFY
  const auto findings = ir::verify(model);
  if (!findings.empty()) fail(ErrorKind::internal, "the graph is broken after {}: {}", after, findings.front());
#endif
}

class Pipeline {
 public:
  Pipeline(ir::Model& model, Target target, bool trace) : model_(model), target_(std::move(target)), trace_(trace) {}

  void run() {
    line("Target: {}, dtype: {}, role: {}", target_.ep.name, ir::onnx_name(target_.dtype), target_.role);
    // 1 Equal subgraphs first: a pattern that meets two copies of one value does not match.
    measure("Cleanup", [&] {
      passes::remove_identities(graph());
      passes::deduplicate_initializers(graph());
      passes::eliminate_common_subexpressions(graph());
      passes::remove_dead_code(graph());
    });
    // 2 The product of a Linear before anything that looks at products; norms last, since they take the Adds that biases leave.
    for (const auto& rule : {rules::fused_matmul(), rules::skip_norm()}) apply(rule);
    // 4 What is left of constants becomes part of the weights.
    measure("Fold", [&] {
      passes::fold_constants(graph());
      passes::remove_dead_code(graph());
    });
    passes::attach_function_bodies(model_);
    check(model_, "the pipeline");
  }

 private:
  ir::Graph& graph() { return *model_.graph; }

  template <class... Args>
  void line(fmt::format_string<Args...> f, Args&&... args) {
    if (trace_) logging::write(logging::Level::info, "[EP Trace] " + fmt::vformat(f, fmt::make_format_args(args...)));
  }

  template <class F>
  void measure(std::string_view stage, F&& body) {
    const auto before = graph().node_count();
    body();
    const auto after = graph().node_count();
    check(model_, stage);
    line("  {}: {} → {} nodes ({:+})", stage, before, after, static_cast<std::int64_t>(after) - static_cast<std::int64_t>(before));
  }

  void apply(const Rule& rule) {
    if (rule.when && !rule.when(target_)) return;
    const auto report = rewrite::apply(rule, graph(), target_);
    check(model_, rule.name);
    line("  {:<26}: applied {}", rule.name, report.applied);
  }

  ir::Model& model_;
  Target target_;
  bool trace_;
};

}  // namespace

void optimize_model(ir::Model& model, const OptimizeOptions& options) {
  const auto& ep = ep_registry().require(options.ep);
  const auto opset = model.opset_imports.contains("") ? model.opset_imports[""] : 1;
  Pipeline(model, {ep, options.dtype, options.model_role, opset}, options.trace).run();
}

}  // namespace mobius
