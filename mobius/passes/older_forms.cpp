// Attributes that became operands, and the softmax over several axes.
#include "mobius/passes/older_forms.hpp"

#include <fmt/format.h>

#include "mobius/ops/versions.hpp"
#include "mobius/passes/passes.hpp"
#include "mobius/passes/walk.hpp"
#include "mobius/rewrite/body.hpp"

namespace mobius::passes {
namespace {

constexpr float float_limit = 3.4028234663852886e38f;  // Clip's bounds where none are given, for all types

bool is_softmax(const ir::Node& n) { return n.is("Softmax") || n.is("LogSoftmax") || n.is("Hardmax"); }

// The axis from which on a softmax of an older opset runs, and whether that is the last one, as far as the rank tells.
std::int64_t first_axis(const ir::Node& n) { return n.int_attribute("axis", 1); }
bool runs_over_last_axis(const ir::Node& n) {
  const auto axis = first_axis(n);
  const auto rank = n.input(0)->rank();
  return axis == -1 || (rank && axis + 1 == static_cast<std::int64_t>(*rank));
}

class Writer {
 public:
  Writer(ir::Graph& main, ir::Node& node) : main_(main), n_(node) {}

  void write() {
    const auto type = n_.op.type;
    if (is_softmax(n_)) return softmax();
    if (type == "Split" && !n_.attribute("split")) n_.attributes["num_outputs"] = static_cast<std::int64_t>(n_.outputs().size());
    else if (type == "Split") integers("split", 1);
    else if (type == "Slice") integers("starts", 1), integers("ends", 2), integers("axes", 3);
    else if (type == "TopK") n_.set_input(1, constant("k", ir::make_tensor({1}, std::vector{n_.int_attribute("k", 0)}))), n_.attributes.erase("k");
    else if (type == "Clip") bound("min", 1, -float_limit), bound("max", 2, float_limit);
    else if (type == "Pad") integers("pads", 1), padding();
    else if (type == "Dropout") n_.attributes.erase("ratio");
    else integers("axes", 1);
  }

 private:
  ir::Value* constant(std::string_view name, ir::TensorPtr data) {
    return main_.add_initializer(main_.unique_name(rewrite::scope_of_call(n_) + "/" + std::string(name)), std::move(data));
  }

  // The attribute becomes operand i.
  void integers(std::string_view name, std::size_t i) {
    const auto values = n_.ints_attribute(name);
    if (!values) return;
    n_.set_input(i, constant(name, ir::make_tensor({static_cast<std::int64_t>(values->size())}, *values)));
    n_.attributes.erase(n_.attributes.find(name));
  }

  // A number of the type of x.
  ir::Value* number(std::string_view name, float value) {
    auto* x = n_.input(0);
    if (x->dtype() != ir::DataType::undefined) return constant(name, ir::make_scalar(x->dtype(), static_cast<double>(value)));
    ir::Value* const operands[] = {constant(name, ir::make_scalar(ir::DataType::float32, static_cast<double>(value))), x};
    return n_.graph().insert(&n_, {"", "CastLike"}, operands)->output();
  }

  // No bound is the lowest or highest number of the type today, and was that of float32.
  void bound(std::string_view name, std::size_t i, float otherwise) {
    const bool is_given = n_.attribute(name) != nullptr;
    if (!is_given && n_.input(0)->dtype() == ir::DataType::float32) return;
    n_.set_input(i, number(name, n_.float_attribute(name, otherwise)));
    if (is_given) n_.attributes.erase(n_.attributes.find(name));
  }

  void padding() {
    const float value = n_.float_attribute("value", 0);
    n_.attributes.erase("value");
    if (value != 0 && n_.string_attribute("mode", "constant") == "constant") n_.set_input(2, number("value", value));
  }

  void softmax() {
    const bool is_over_last = runs_over_last_axis(n_);
    const auto axis = first_axis(n_);
    n_.attributes["axis"] = std::int64_t{-1};
    if (is_over_last) return;
    auto& graph = n_.graph();
    auto *x = n_.input(0), *y = n_.output();
    ir::Value* const operands[] = {x};
    auto* rows = graph.insert(&n_, {"", "Flatten"}, operands, {{"axis", axis}})->output();
    auto* shape = graph.insert(&n_, {"", "Shape"}, operands)->output();
    n_.set_input(0, rows);
    ir::Value* const results[] = {y, shape};
    auto* back = graph.insert(n_.next(), {"", "Reshape"}, results, {{"allowzero", std::int64_t{1}}});
    rows->type.dtype = back->output()->type.dtype = x->dtype();
    shape->type.dtype = ir::DataType::int64;
    graph.replace_all_uses(y, back->output());
    back->set_input(0, y);
    y->type.shape = std::nullopt;
  }

  ir::Graph& main_;
  ir::Node& n_;
};

// An attribute that is written anew, but is the caller's: of a node in a function's body.
const std::string* attribute_of_caller(const ir::Node& n) {
  for (const auto& [name, value] : n.attributes)
    if (std::holds_alternative<ir::AttributeReference>(value) && name != "keepdims" && (name != "axis" || is_softmax(n))) return &name;
  return nullptr;
}

}  // namespace

std::optional<std::string> why_no_newer_form(const ir::Node& n) {
  if (const auto* name = attribute_of_caller(n)) return fmt::format("its {} comes from the function's caller", *name);
  if (!n.input(0)) return "it has no operand";
  if (n.is("Dropout") && n.output(1) && n.output(1)->is_used()) return "its mask is used";
  if (!is_softmax(n)) return std::nullopt;
  const auto rank = n.input(0)->rank();
  const auto axis = first_axis(n), r = static_cast<std::int64_t>(rank.value_or(0));
  return rank && (axis < -r || axis >= r) ? std::optional(fmt::format("it has no axis {}", axis)) : std::nullopt;
}

std::size_t write_newer_forms(ir::Graph& graph, std::int64_t own, std::int64_t opset) {
  std::vector<ir::Node*> softmaxes, others;
  for_each_node(graph, [&](ir::Node& n) {
    const auto since = ops::newer_form_since(n);
    if (own < since && since <= opset) (is_softmax(n) ? softmaxes : others).push_back(&n);
  });
  for (auto* n : others) Writer(graph, *n).write();
  // How many axes there are decides which form is needed: it can be known now.
  if (!softmaxes.empty()) infer_shapes(graph);
  for (auto* n : softmaxes) Writer(graph, *n).write();
  return softmaxes.size() + others.size();
}

}  // namespace mobius::passes
