// The order in which passes and rules run, and why.
#include "mobius/passes/pipeline.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "mobius/base/error.hpp"
#include "mobius/base/log.hpp"
#include "mobius/ep/registry.hpp"
#include "mobius/ep/versions.hpp"
#include "mobius/passes/inline.hpp"
#include "mobius/passes/overridable_inputs.hpp"
#include "mobius/passes/passes.hpp"
#include "mobius/rules/rules.hpp"

namespace mobius {
namespace {

using rewrite::RuleGroup;
using rewrite::Target;

struct Pass {
  std::string_view name;
  std::size_t (*run)(ir::Graph&);
};

// Equal subgraphs become one before anything is matched: a pattern that meets two copies of one value does not match.
constexpr Pass cleanup[] = {
    {"ConstantsToInitializers", passes::lift_constants},
    {"ShapeInference", passes::infer_shapes},
    {"SizeFolding", passes::fold_sizes},
    {"SizesFromInputs", passes::read_sizes_from_inputs},
    {"IdentityElimination", passes::remove_identities},
    {"DeduplicateInitializers", passes::deduplicate_initializers},
    {"CommonSubexpressionElimination", passes::eliminate_common_subexpressions},
    {"DeadCodeElimination", passes::remove_dead_code},
};
// What is left of constants becomes part of the weights. Lowering gives each node its own constants and shapes: those become one again.
constexpr Pass fold[] = {
    {"ConstantFolding", passes::fold_constants},
    {"DeduplicateInitializers", passes::deduplicate_initializers},
    {"CommonSubexpressionElimination", passes::eliminate_common_subexpressions},
    {"DeadCodeElimination", passes::remove_dead_code},
    {"UniqueNodeNames", passes::make_node_names_unique},
    {"UniqueValueNames", passes::make_value_names_unique},
};

}  // namespace

std::vector<RuleGroup> fusions() {
  return {
      // What others decompose comes first, in the forms that the fusions look for. A LayerNorm holds what looks like an RMSNorm.
      rules::layer_norm_fusion(),
      rules::rms_norm_fusion(),
      rules::gelu_fusion(),
      rules::linear(),
      // Before FusedMatMul, which would take the scaled product of queries and keys. Attention's operands are put in order once it is one.
      rules::rotary_fusion(),
      rules::attention_fusion(),
      rules::attention_layout(),
      rules::unattended_queries(),  // it tries the mask, which the cache's sizes belong to
      rules::moe_fusion(),
      rules::fused_matmul(),  // the product of a Linear comes before what looks at products
      rules::packed_multi_head_attention(),
      rules::gqa_fusion(),
      rules::pack_qkv(),
      // After the Gelus that others decompose.
      rules::bias_gelu(),
      rules::fast_gelu(),
      // Norms come last, since they take the Adds that biases leave.
      rules::skip_norm(),
      rules::skip_layer_norm(),
  };
}
std::vector<RuleGroup> lowerings() {
  return {
      rules::tied_head(),
      rules::unpack_qkv(),  // packed operands are taken apart before rope is: it needs the queries and keys
      rules::separate_rope(),
      // What standard operators lack, after those that make them; Range after what counts positions.
      rules::decompose_attention(),
      rules::decompose_rotary_embedding(),
      rules::scatter_nd(),
      rules::constant_range(),
      rules::rank3_rms_norm(),
      rules::eliminate_shape(),
  };
}

namespace {

// The float type that a model computes in: the one that was told, else that of its first float input or weight; nullopt: it has none.
std::optional<ir::DataType> dtype_of(const ir::Model& model, const OptimizeOptions& options) {
  if (options.dtype) return options.dtype;
  const auto is_float = [](const ir::Value* v) { return any_float.contains(v->dtype()); };
  for (const auto* list : {&model.graph->inputs(), &model.graph->initializers()}) {
    const auto it = std::ranges::find_if(*list, is_float);
    if (it != list->end()) return (*it)->dtype();
  }
  return std::nullopt;
}

class Pipeline {
 public:
  Pipeline(ir::Model& model, Target target, const OptimizeOptions& options) : model_(model), target_(std::move(target)), options_(options) {
    report_.ep = target_.ep.name;
    report_.role = target_.role;
    report_.dtype = target_.dtype;
  }

  OptimizeReport run() {
    line("Target: {}, dtype: {}, role: {}", target_.ep.name, ir::onnx_name(target_.dtype), target_.role);
    check_dtype();
    const passes::StatedTypes stated(graph());
    raise_opset();
    passes::OverridableInputs overridable(model_);
    line("Stage 1: Cleanup ({} passes)", std::size(cleanup));
    stage("Cleanup", cleanup);
    const auto fusion = registered(fusions());
    line("Stage 2: Fusion ({} rule groups)", fusion.size());
    for (const auto& group : fusion) apply("Fusion", group);
    check_fusions();
    line("Stage 2b: InlinePass (expand unsupported custom ops)");
    inline_functions();
    const auto lowering = registered(lowerings());
    line("Stage 3: Lowering ({} rule groups for {})", lowering.size(), target_.ep.name);
    for (const auto& group : lowering) apply("Lowering", group);
    line("Stage 4: Constant folding");
    stage("Fold", fold);
    overridable.restore();
    remove_dead_inputs();
    passes::attach_function_bodies(model_, target_.opset);
    set_opset();
    line("Summary:");
    for (const auto& row : summary_table(report_)) line("  {}", row);
    return std::move(report_);
  }

 private:
  ir::Graph& graph() { return *model_.graph; }

  template <class... Args>
  void line(fmt::format_string<Args...> f, Args&&... args) {
    if (options_.trace) logging::write(logging::Level::info, "[EP Trace] " + fmt::vformat(f, fmt::make_format_args(args...)));
  }

  std::vector<RuleGroup> registered(std::vector<RuleGroup> groups) {
    std::erase_if(groups, [&](const RuleGroup& g) { return !g.applies_to(target_); });
    return groups;
  }

  // The one place through which every pass and rule goes. `body` fills in what a rule did.
  template <class F>
  void step(std::string_view stage, std::string_view name, F&& body) {
    if (std::ranges::find(options_.skip, name) != options_.skip.end()) return;
    auto& s = report_.steps.emplace_back();
    s.stage = stage;
    s.name = name;
    s.nodes_before = graph().node_count();
    const auto start = std::chrono::steady_clock::now();
    body(s);
    s.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    s.nodes_after = graph().node_count();
    if (options_.print && options_.print_after == name) options_.print(name, ir::to_text(model_, {.max_elements = 16}));
#ifdef MOBIUS_VERIFY
    const auto findings = ir::verify(model_);
    if (!findings.empty()) fail(ErrorKind::internal, "the graph is broken after {}: {}", name, findings.front());
#endif
  }

  template <std::size_t N>
  void stage(std::string_view name, const Pass (&passes)[N]) {
    const auto before = graph().node_count();
    for (const auto& pass : passes) step(name, pass.name, [&](StepReport&) { pass.run(graph()); });
    const auto after = graph().node_count();
    line("  {}: {} → {} nodes ({:+})", name, before, after, static_cast<std::int64_t>(after) - static_cast<std::int64_t>(before));
  }

  void apply(std::string_view stage, const RuleGroup& group) {
    step(stage, group.name, [&](StepReport& s) {
      s.is_rule = true;
      s.rule = rewrite::apply(group, graph(), target_);
      line("  {:<26}: {}", group.name, describe_change(s.rule));
    });
  }

  void inline_functions() {
    step("InlinePass", "InlinePass", [&](StepReport& s) {
      auto done = passes::inline_functions(model_, target_);
      s.is_rule = true;
      s.rule = std::move(done.report);
      line("  {:<26}: {}", "InlinePass", describe_change(s.rule));
      for (auto& text : done.warnings) warn(std::move(text));
    });
  }

  // What is built is in a type that its EP runs; what others made is taken as it is. No built-in EP states f64.
  void check_dtype() {
    const auto dtype = dtype_of(model_, options_);
    if (!dtype || *dtype == ir::DataType::float64 || target_.ep.dtypes.contains(*dtype)) return;
    warn(fmt::format("The model is in {}, which '{}' does not run; nothing is converted", ir::short_name(*dtype), target_.ep.name));
  }

  // First of all: rules read and write nodes as the target's opset has them.
  void raise_opset() {
    const auto opset = passes::opset_of(model_), ir_version = model_.ir_version;
    if (opset >= target_.opset) return;
    step("Cleanup", "OpsetRaise", [&](StepReport&) { passes::raise_opset(model_, target_.opset, target_.ep.max_ir); });
    line("Opset: {} → {}, IR version: {} → {}", opset, target_.opset, ir_version, model_.ir_version);
  }

  void set_opset() {
    const auto opset = passes::opset_of(model_), ir_version = model_.ir_version;
    passes::set_opset(model_, target_.opset, target_.ep.max_ir);
    if (opset != target_.opset) line("Opset: {} → {}, IR version: {} → {}", opset, target_.opset, ir_version, model_.ir_version);
  }

  // The specification's fusion assertion: an EP that is fast by GroupQueryAttention should not be left without it unnoticed.
  void check_fusions() {
    if (target_.role != "decoder" || !target_.ep.gqa_dtypes.contains(target_.dtype)) return;
    std::size_t attention = 0;
    for (const auto* n : graph().nodes()) {
      if (n->is("GroupQueryAttention", "com.microsoft")) return;
      attention += n->is("Attention");
    }
    if (attention == 0) return;
    warn(
        fmt::format("GQA fusion expected for ep='{}'/dtype={} but found 0 GroupQueryAttention and {} Attention nodes. The model may run slower than "
                    "expected on this EP. Check that the attention pattern matches the GQA rewrite rule.",
                    target_.ep.name, ir::onnx_name(target_.dtype), attention));
  }

  // What went is told in the metadata, for whoever feeds the graph.
  void remove_dead_inputs() {
    step("Fold", "DeadInputElimination", [&](StepReport&) {
      const auto removed = passes::remove_dead_inputs(graph());
      if (!removed.empty()) model_.metadata["mobius.removed_inputs"] = fmt::format("{}", fmt::join(removed, ", "));
    });
  }

  void warn(std::string text) {
    logging::write(logging::Level::warning, text);
    report_.warnings.push_back(std::move(text));
  }

  ir::Model& model_;
  Target target_;
  const OptimizeOptions& options_;
  OptimizeReport report_;
};

// The one asked for; else the EP's highest, or the model's own where a node would mean something else there.
std::int64_t target_opset(const ir::Model& model, const EpCapabilities& ep, const OptimizeOptions& options) {
  const auto why_not = passes::why_not_raised(model, options.opset.value_or(ep.max_opset));
  if (!options.opset) return why_not ? passes::opset_of(model) : ep.max_opset;
  if (*options.opset < lowest_opset || *options.opset > ep.max_opset)
    fail(ErrorKind::invalid_argument, "opset {} can't be written for {}: expected {} to {}", *options.opset, ep.name, lowest_opset, ep.max_opset);
  if (why_not) fail(ErrorKind::unsupported, "{}", *why_not);
  return *options.opset;
}

}  // namespace

std::vector<std::string> optimization_steps() {
  std::vector<std::string> names;
  const auto add = [&](std::string_view name) {
    if (std::ranges::find(names, name) == names.end()) names.emplace_back(name);
  };
  for (const auto& pass : cleanup) add(pass.name);
  for (const auto& group : fusions()) add(group.name);
  add("InlinePass");
  for (const auto& group : lowerings()) add(group.name);
  for (const auto& pass : fold) add(pass.name);
  add("DeadInputElimination");
  return names;
}

namespace {

void check_names(const OptimizeOptions& options) {
  const auto known = optimization_steps();
  const auto check = [&](std::string_view option, const std::string& name) {
    if (std::ranges::find(known, name) == known.end())
      fail(ErrorKind::invalid_argument, "{} is '{}', expected one of {}", option, name, fmt::join(known, ", "));
  };
  for (const auto& name : options.skip) check("skip", name);
  if (!options.print_after.empty()) check("print_after", options.print_after);
}

}  // namespace

OptimizeReport optimize_model(ir::Model& model, const OptimizeOptions& options) {
  check_names(options);
  const auto& ep = ep_registry().require(options.ep);
  const Target target{ep, dtype_of(model, options).value_or(ir::DataType::float32), options.model_role, target_opset(model, ep, options), options.padding};
  return Pipeline(model, target, options).run();
}

}  // namespace mobius
