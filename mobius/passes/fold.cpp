// Constant folding that never evaluates big data: data movement becomes a step of the recipe.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "mobius/base/error.hpp"
#include "mobius/ir/recipe.hpp"
#include "mobius/ops/infer.hpp"
#include "mobius/ops/interpreter.hpp"
#include "mobius/passes/passes.hpp"

namespace mobius::passes {
namespace {

constexpr std::int64_t small = 4096;  // elements that are computed rather than kept as a recipe

bool constant_operands(const ir::Node& n) {
  return !n.inputs().empty() && std::ranges::all_of(n.inputs(), [](auto* v) { return !v || v->data(); });
}

std::optional<ir::Dims> static_dims(const ir::Value* v) { return v->shape() ? ir::static_shape(*v->shape()) : std::nullopt; }

// The parts of Split as recipes; empty when their sizes are not known.
std::vector<ir::TensorPtr> parts_of(const ir::Node& split) {
  const auto& x = split.input(0)->data();
  auto axis = split.int_attribute("axis", 0);
  if (axis < 0) axis += static_cast<std::int64_t>(x->dims().size());
  std::vector<ir::TensorPtr> parts;
  for (std::int64_t begin = 0; const auto* o : split.outputs()) {
    const auto dims = o ? static_dims(o) : std::nullopt;
    if (!dims) return {};
    const auto end = begin + (*dims)[static_cast<std::size_t>(axis)];
    parts.push_back(ir::slice(x, axis, begin, end));
    begin = end;
  }
  return parts;
}

// Data movement as a recipe; nullptr when the node is none, or not in this form.
ir::TensorPtr as_recipe(const ir::Node& n) {
  if (!n.op.domain.empty()) return nullptr;
  const auto& x = n.input(0)->data();
  const auto rank = static_cast<std::int64_t>(x->dims().size());
  if (n.op.type == "Transpose") {
    std::vector<std::int64_t> reversed(static_cast<std::size_t>(rank));
    std::iota(reversed.rbegin(), reversed.rend(), 0);
    return ir::transpose(x, n.ints_attribute("perm").value_or(reversed));
  }
  if (n.op.type == "Cast") {
    const auto to = static_cast<ir::DataType>(n.int_attribute("to", 0));
    const bool floats = ir::is_floating_point(to) && ir::is_floating_point(x->dtype()) && ir::bit_width(to) >= 16 && ir::bit_width(x->dtype()) >= 16;
    return floats ? ir::cast(x, to) : nullptr;
  }
  if (n.op.type == "Reshape" || n.op.type == "Squeeze" || n.op.type == "Unsqueeze" || n.op.type == "Flatten") {
    const auto dims = static_dims(n.output(0));
    return dims && ir::element_count(*dims) == static_cast<std::int64_t>(x->elements()) ? ir::reshape(x, *dims) : nullptr;
  }
  if (n.op.type == "Concat") {
    std::vector<ir::TensorPtr> parts;
    for (const auto* v : n.inputs()) parts.push_back(v->data());
    auto axis = n.int_attribute("axis", 0);
    if (axis < 0) axis += rank;
    return ir::concat(std::move(parts), axis);
  }
  return nullptr;
}

// ── are integers exact in double precision? ──────────────────────────────────────────────────────────────────────────────

constexpr double exact_limit = 0x1p53;    // below this a double holds every integer
constexpr double product_limit = 0x1p26;  // and the product of two up to here

double magnitude(const ops::Array& a) {
  double most = 0;
  for (const double v : a.values) most = std::max(most, std::abs(v));
  return most;
}

bool is_any_of(const ir::Node& n, std::initializer_list<std::string_view> types) { return std::ranges::find(types, n.op.type) != types.end(); }

// How large the operands may be: what is only moved and compared may be larger than what is multiplied.
double operand_limit(const ir::Node& n) {
  const bool is_moved = is_any_of(
      n, {"Abs",      "And",     "Cast",           "CastLike", "Compress", "Concat",      "Equal",     "Expand",    "Flatten", "Gather", "GatherElements",
          "GatherND", "Greater", "GreaterOrEqual", "Identity", "Less",     "LessOrEqual", "Max",       "Min",       "Neg",     "Not",    "Or",
          "Reshape",  "Sign",    "Slice",          "Split",    "Squeeze",  "Tile",        "Transpose", "Unsqueeze", "Where",   "Xor"});
  return is_moved ? exact_limit : product_limit;
}

// Powers leave what is exact at once: where they might, the runtime computes them.
bool may_grow_beyond(const ir::Node& n, const std::vector<const ops::Array*>& operands) {
  const auto base = std::log2(std::max(magnitude(*operands[0]), 2.0));
  if (is_any_of(n, {"ReduceProd", "CumProd"})) return base * static_cast<double>(operands[0]->values.size()) > 53;
  if (is_any_of(n, {"Pow"})) return base * magnitude(*operands[1]) > 53;
  return is_any_of(n, {"BitShift"}) && base + magnitude(*operands[1]) > 53;
}

// Bounds of a Slice may be as large as they like: they are cut to the axis.
bool operands_are_exact(const ir::Node& n, const std::vector<const ops::Array*>& operands) {
  const auto counted = n.is("Slice") ? 1 : operands.size();
  for (std::size_t i = 0; i < counted; ++i)
    if (operands[i] && ir::is_integer(operands[i]->dtype) && !(magnitude(*operands[i]) < operand_limit(n))) return false;
  return !operands[0] || !ir::is_integer(operands[0]->dtype) || !may_grow_beyond(n, operands);
}

// The standard leaves open what a Cast makes of numbers beyond the type's range, and runtimes differ.
bool casts_within_range(const ir::Node& n, const std::vector<const ops::Array*>& operands, const ops::Array& result) {
  if (!n.is("Cast") && !n.is("CastLike")) return true;
  if (!ir::is_integer(result.dtype) || !operands[0] || !ir::is_floating_point(operands[0]->dtype)) return true;
  for (std::size_t i = 0; i < result.values.size(); ++i)
    if (std::trunc(operands[0]->values[i]) != result.values[i]) return false;
  return true;
}

bool is_exact(const ir::Node& n, const std::vector<const ops::Array*>& operands, const ops::Array& result) {
  if (!ir::is_integer(result.dtype)) return true;
  const bool is_below_zero = result.dtype == ir::DataType::uint64 && std::ranges::any_of(result.values, [](double v) { return v < 0; });
  return !is_below_zero && magnitude(result) < exact_limit && casts_within_range(n, operands, result);
}

// A small result, computed by the reference interpreter. Integers and booleans are exact there, or left; floats only where their operands are
// doubles or float32, so that nothing is rounded in another way than the runtime would. What the interpreter does not take is for the runtime to
// say: it may never come to it.
ir::TensorPtr computed(const ir::Node& n) {
  if (!ops::has_reference(n.op) || n.outputs().size() != 1 || !n.subgraphs().empty()) return nullptr;
  const auto dims = static_dims(n.output(0));
  if (!dims || ir::element_count(*dims) > small) return nullptr;
  std::vector<ops::Array> arrays;
  arrays.reserve(n.inputs().size());
  std::vector<const ops::Array*> operands;
  for (const auto* v : n.inputs()) {
    if (!v) {
      operands.push_back(nullptr);
      continue;
    }
    if (static_cast<std::int64_t>(v->data()->elements()) > small || v->dtype() == ir::DataType::string) return nullptr;
    if (!ir::as_doubles(*v->data())) return nullptr;
    arrays.push_back(ops::to_array(*v->data()));
    operands.push_back(&arrays.back());
  }
  if (!operands_are_exact(n, operands)) return nullptr;
  try {
    const auto result = ops::interpret(n, operands).at(0);
    if (!is_exact(n, operands, result)) return nullptr;
    const auto dtype = n.output(0)->dtype() != ir::DataType::undefined ? n.output(0)->dtype() : result.dtype;
    return ir::make_tensor_of(dtype, result.dims, result.values);
  } catch (const Error&) {
    return nullptr;
  }
}

std::vector<ir::TensorPtr> results_of(const ir::Node& n) {
  if (n.is("Split")) return parts_of(n);
  auto data = as_recipe(n);
  if (!data) data = computed(n);
  return data ? std::vector{std::move(data)} : std::vector<ir::TensorPtr>{};
}

// Named after the operand, so that a weight stays recognisable: "lm_head.weight.Transpose".
std::string name_of(const ir::Node& n) {
  auto name = n.input(0) ? n.input(0)->name + "." + std::string(n.op.type) : n.name;
  std::ranges::replace(name, '/', '.');
  return name;
}

void replace_by(const std::vector<ir::TensorPtr>& results, ir::Node* n) {
  auto& graph = n->graph();
  for (std::size_t i = 0; i < results.size(); ++i)
    if (n->output(i)) graph.replace_all_uses(n->output(i), graph.add_initializer(graph.unique_name(name_of(*n)), results[i]));
  graph.erase(n);
}

// The elements of a small integer tensor when the inference knows all of them: a size that is fixed, however it is computed.
ir::TensorPtr known_integers(const ir::Node& n, const ops::TypeInference& inference) {
  const auto* y = n.output(0);
  if (!ir::is_integer(y->dtype()) || y->rank().value_or(2) > 1) return nullptr;
  const auto contents = inference.contents(y);
  const auto numbers = contents ? ir::static_shape(*contents) : std::nullopt;
  const auto dims = static_dims(y);
  if (!numbers || !dims || ir::element_count(*dims) != static_cast<std::int64_t>(numbers->size())) return nullptr;
  if (y->dtype() == ir::DataType::int64) return ir::make_tensor(*dims, *numbers);
  return ir::make_tensor_of(y->dtype(), *dims, std::vector<double>(numbers->begin(), numbers->end()));
}

}  // namespace

std::size_t fold_sizes(ir::Graph& graph) {
  ops::TypeInference inference;
  std::size_t folded = 0;
  for (auto* n = graph.first(); n;) {
    auto* next = n->next();
    for (auto* g : n->subgraphs()) folded += fold_sizes(*g);
    infer_types(*n, inference);
    if (n->outputs().size() == 1 && n->output(0) && !n->output(0)->is_graph_output()) {
      auto data = known_integers(*n, inference);
      if (!data && constant_operands(*n) && n->output(0)->rank().value_or(2) <= 1) data = computed(*n);
      if (data) {
        replace_by({std::move(data)}, n);
        ++folded;
      }
    }
    n = next;
  }
  return folded;
}

std::size_t fold_constants(ir::Graph& graph) {
  std::size_t folded = 0;
  for (auto* n = graph.first(); n;) {
    auto* next = n->next();
    for (auto* g : n->subgraphs()) folded += fold_constants(*g);
    const bool interface = std::ranges::any_of(n->outputs(), [](auto* o) { return o && o->is_graph_output(); });
    if (constant_operands(*n) && n->output(0) && !interface) {
      if (!n->output(0)->shape()) ops::TypeInference().infer(*n);  // models that others wrote may state no types
      if (const auto results = results_of(*n); !results.empty()) {
        replace_by(results, n);
        ++folded;
      }
    }
    n = next;
  }
  return folded;
}

}  // namespace mobius::passes
