//   Range(start, limit, delta)   ⟶   start + delta · Reshape([0, 1, 2, ...][0 : n], [n])   with n = max(0, ⌈(limit − start) / delta⌉)
//
// The constant has room for `capacity` numbers. A Slice beyond its end is cut off without a word, so Reshape says how many there must be: a
// longer range is an error of the runtime, never another range.
#include <fmt/format.h>

#include <numeric>

#include "mobius/rules/conditions.hpp"
#include "mobius/rules/rules.hpp"

namespace mobius::rules {
using namespace rewrite;

namespace {

constexpr std::int64_t capacity = 131072;  // 1 MiB; contexts are shorter

// Whether a value can't be below 0: made of sizes.
bool is_size(const ir::Value* v) {
  if (const auto n = single_integer(v)) return *n >= 0;
  const auto* node = v->producer();
  if (!node || !node->op.domain.empty()) return false;
  const auto op = node->op.type;
  if (op == "Shape" || op == "Size") return true;
  if (op == "Cast" || op == "Identity" || op == "Squeeze" || op == "Unsqueeze" || op == "Reshape" || op == "Gather" || op == "Slice") {
    const auto* x = node->input(0);
    return x && x->dtype() == ir::DataType::int64 && is_size(x);
  }
  if (op == "Add" || op == "Mul" || op == "Max") return is_size(node->input(0)) && is_size(node->input(1));
  return false;
}

class Lowering {
 public:
  explicit Lowering(Inserter& at) : at_(at) {}

  ir::Value* range(const ir::Node& node) {
    const auto delta = *single_integer(node.input(2));
    const auto start = single_integer(node.input(0)), limit = single_integer(node.input(1));
    if (start && limit) return known(node.output()->dtype(), *start, *limit, delta);
    auto* n = as_vector(count(node, start, delta));
    auto* y = at_.add({"", "Slice"}, {numbers(), at_.integers({0}), n, at_.integers({0})})[0];
    y = at_.add({"", "Reshape"}, {y, n})[0];
    if (delta != 1) y = op("Mul", y, scalar(delta));
    if (start != 0) y = op("Add", y, wide(node.input(0)));
    const auto dtype = node.output()->dtype();
    return dtype == ir::DataType::int64 ? y : at_.add({"", "Cast"}, {y}, {{"to", static_cast<std::int64_t>(dtype)}})[0];
  }

 private:
  ir::Value* count(const ir::Node& node, std::optional<std::int64_t> start, std::int64_t delta) {
    auto* limit = wide(node.input(1));
    if (start == 0 && delta == 1) return is_size(node.input(1)) ? limit : op("Max", limit, scalar(0));
    auto* span = limit;
    if (delta < 0) span = op("Sub", wide(node.input(0)), limit);
    else if (start != 0) span = op("Sub", limit, wide(node.input(0)));
    const auto step = std::abs(delta);
    if (step != 1) span = op("Div", op("Add", span, scalar(step - 1)), scalar(step));
    return op("Max", span, scalar(0));
  }

  ir::Value* known(ir::DataType dtype, std::int64_t start, std::int64_t limit, std::int64_t delta) {
    std::vector<double> values;
    for (auto x = start; delta > 0 ? x < limit : x > limit; x += delta) values.push_back(static_cast<double>(x));
    return at_.constant(ir::make_tensor_of(dtype, {static_cast<std::int64_t>(values.size())}, values), "range");
  }

  // One constant for all ranges of a graph.
  ir::Value* numbers() {
    static const auto data = [] {
      std::vector<std::int64_t> values(capacity);
      std::iota(values.begin(), values.end(), 0);
      return ir::make_tensor({capacity}, values);
    }();
    for (auto* v : at_.graph().initializers())
      if (v->data() == data) return v;
    return at_.constant(data, "range");
  }

  // A scalar as [1]; what made a scalar of a [1] is left out.
  ir::Value* as_vector(ir::Value* scalar_value) {
    const auto* node = scalar_value->producer();
    if (node && node->is("Squeeze") && node->input(0)->rank() == 1u) return node->input(0);
    return at_.add({"", "Reshape"}, {scalar_value, at_.integers({1})})[0];
  }

  ir::Value* wide(ir::Value* v) {
    return v->dtype() == ir::DataType::int64 ? v : at_.shared({"", "Cast"}, {v}, {{"to", static_cast<std::int64_t>(ir::DataType::int64)}});
  }
  ir::Value* op(std::string_view type, ir::Value* a, ir::Value* b) { return at_.add({"", type}, {a, b})[0]; }
  ir::Value* scalar(std::int64_t n) { return at_.number(ir::DataType::int64, static_cast<double>(n)); }

  Inserter& at_;
};

std::optional<std::string> why_not(const ir::Node& node) {
  if (!node.input(0) || !node.input(1) || !node.input(2)) return "an operand is missing";
  const auto dtype = node.input(0)->dtype();
  if (dtype != ir::DataType::int64 && dtype != ir::DataType::int32) return "it is of " + std::string(ir::text_name(dtype));
  const auto start = single_integer(node.input(0)), limit = single_integer(node.input(1)), delta = single_integer(node.input(2));
  if (delta.value_or(0) == 0) return "delta is not a constant";
  if (start && limit && std::abs(*limit - *start) / std::abs(*delta) >= capacity) return fmt::format("it has more than {} elements", capacity);
  return std::nullopt;
}

}  // namespace

RuleGroup constant_range() {
  const auto range = any_form({"", "Range"}, 1);
  const Rule rule = {.name = "ConstantRange",
                     .from = range,
                     .where = {{[=](const Match& m, const Target&) { return why_not(*m.node(range[0])); }}},
                     .when = [](const Target& t) { return !t.ep.supports_range; },
                     .make = [=](Inserter& at, const Match& m, const Target&) { return std::vector{Lowering(at).range(*m.node(range[0]))}; }};
  return {"ConstantRange", {rule}};
}

}  // namespace mobius::rules
