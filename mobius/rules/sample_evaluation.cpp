// Which nodes a value depends on, what its inputs hold in a sample, and the walk through the nodes.
#include "mobius/rules/sample_evaluation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "mobius/base/error.hpp"
#include "mobius/ir/unbound.hpp"

namespace mobius::rules {
namespace {

constexpr std::size_t most_nodes = 500;
constexpr std::int64_t most_elements = 1 << 22;      // of one value
constexpr std::size_t most_thresholds = 16;          // constants with more elements are tables
constexpr std::int64_t longest_threshold = 1 << 20;  // tokens; larger numbers stand for "no limit"

std::optional<std::int64_t> size_of(const ir::Dim& dim, const auto& symbols) {
  if (dim.is_static()) return dim.value();
  if (!dim.is_symbolic()) return std::nullopt;
  std::int64_t sum = 0;
  for (const auto& term : *dim.sum()) {
    auto product = term.coefficient;
    for (const auto& s : term.symbols) {
      const auto it = symbols.find(s);
      if (it == symbols.end()) return std::nullopt;
      product *= it->second;
    }
    sum += product;
  }
  return sum;
}

std::optional<ir::Dims> sizes_of(const ir::Value& value, const auto& symbols) {
  if (!value.shape()) return std::nullopt;
  ir::Dims dims;
  for (const auto& d : *value.shape()) {
    const auto size = size_of(d, symbols);
    if (!size) return std::nullopt;
    dims.push_back(*size);
  }
  return dims;
}

bool has_equal_steps(const ops::Array& a, std::size_t axis) {
  const auto inner = static_cast<std::size_t>(ir::element_count(ir::Dims(a.dims.begin() + static_cast<std::ptrdiff_t>(axis) + 1, a.dims.end())));
  const auto length = static_cast<std::size_t>(a.dims[axis]);
  for (std::size_t i = 0; i < a.values.size(); ++i) {
    if (i / inner % length < 2) continue;
    const double x = a.values[i], before = a.values[i - inner], first = a.values[i - 2 * inner];
    if (!(std::abs((x - before) - (before - first)) <= 1e-5 * (std::abs(x) + std::abs(first)))) return false;
  }
  return true;
}

bool is_shape(const ir::Node& node) { return node.is("Shape"); }

// Shape's result, without the tensor.
ops::Array part_of(const ir::Dims& dims, const ir::Node& shape) {
  const auto rank = static_cast<std::int64_t>(dims.size());
  const auto bound = [&](std::int64_t i) { return std::clamp<std::int64_t>(i < 0 ? i + rank : i, 0, rank); };
  const auto first = bound(shape.int_attribute("start", 0)), last = std::max(first, bound(shape.int_attribute("end", rank)));
  return {ir::DataType::int64, {last - first}, std::vector<double>(dims.begin() + first, dims.begin() + last)};
}

bool holds(const ir::Value& value, std::string_view word) { return value.name.find(word) != std::string::npos; }

}  // namespace

std::int64_t Sample::ordinal(std::size_t row, std::int64_t slot) const {
  return std::count(rows[row].begin(), rows[row].begin() + static_cast<std::ptrdiff_t>(slot), 1);
}

SampleEvaluation::SampleEvaluation(ir::Value* value, const ir::Value* query, const ir::Value* past, const ir::Value* ends)
    : value_(value), query_(query), past_(past), ends_(ends) {
  if (!query || !query->shape() || query->shape()->size() < 2) problem_ = "the query's shape is not known";
  else if (value) collect(value);
}

// ── what the value depends on ────────────────────────────────────────────────────────────────────────────────────────────

void SampleEvaluation::collect(ir::Value* value) {
  std::vector<ir::Value*> open{value};
  std::map<const ir::Value*, bool> seen;
  while (!open.empty() && problem_.empty()) {
    auto* v = open.back();
    open.pop_back();
    if (!seen.emplace(v, true).second) continue;
    visit(v, open);
  }
  std::ranges::sort(nodes_, [](auto* a, auto* b) { return a->graph().precedes(a, b); });
  nodes_.erase(std::unique(nodes_.begin(), nodes_.end()), nodes_.end());
  for (auto* list : {&thresholds_, &table_lengths_}) {
    std::ranges::sort(*list);
    list->erase(std::unique(list->begin(), list->end()), list->end());
  }
}

void SampleEvaluation::visit(ir::Value* v, std::vector<ir::Value*>& open) {
  if (v->data()) return note_constant(v);
  if (v == ends_) return inputs_.push_back(v);
  auto* node = v->producer();
  if (!node) {
    if (!v->is_graph_input()) problem_ = "it reads " + v->name + " from another graph";
    inputs_.push_back(v);
    if (v->rank() == 2u && holds(*v, "mask") && !ir::is_floating_point(v->dtype())) attention_mask_ = v;
    return;
  }
  if (&node->graph() != value_->graph() || !node->subgraphs().empty()) problem_ = "it depends on " + node->name;
  nodes_.push_back(node);
  if (nodes_.size() > most_nodes) problem_ = fmt::format("it takes more than {} nodes", most_nodes);
  if (is_shape(*node) && node->input(0)->shape()) return;  // sizes are known from symbols
  for (auto* input : node->inputs())
    if (input) open.push_back(input);
}

void SampleEvaluation::note_constant(const ir::Value* v) {
  if (static_cast<std::int64_t>(v->data()->elements()) > most_elements) {
    problem_ = v->name + " is too large";
    return;
  }
  if (ir::unbound_leaf(*v->data())) return stand_in(*v);
  constants_.emplace(v, ops::to_array(*v->data()));
  const auto& constant = constants_.at(v);
  if (constant.values.size() > most_thresholds) return note_table(constant);
  for (const double x : constant.values)
    // A number below −10⁴ is a score that hides a key, not a size.
    if (std::abs(x) >= 1 && x > -1e4 && std::abs(x) <= static_cast<double>(longest_threshold)) thresholds_.push_back(static_cast<std::int64_t>(std::abs(x)));
}

bool SampleEvaluation::scales_numbers() const {
  constexpr std::string_view plain[] = {"Abs",    "Add",     "And",         "Cast",    "CastLike", "Concat",   "ConstantOfShape", "CumSum",    "Equal",
                                        "Expand", "Flatten", "Gather",      "Greater", "GatherND", "Identity", "GreaterOrEqual",  "IsNaN",     "Less",
                                        "Max",    "Min",     "LessOrEqual", "Neg",     "Not",      "Or",       "Range",           "ReduceMax", "Reshape",
                                        "Shape",  "Slice",   "Split",       "Squeeze", "Sub",      "Tile",     "Transpose",       "Trilu",     "Unsqueeze",
                                        "Where",  "Xor"};
  return std::ranges::any_of(nodes_, [&](const ir::Node* n) { return std::ranges::find(plain, n->op.type) == std::end(plain); });
}

// A weight that nobody has loaded, as in a build without weights: some numbers between 0 and 1. What a rule finds out must not depend on weights that
// checkpoints differ in.
void SampleEvaluation::stand_in(const ir::Value& weight) {
  if (!ir::is_floating_point(weight.dtype())) {
    problem_ = weight.name + " has no values";
    return;
  }
  ops::Array some{weight.dtype(), weight.data()->dims(), std::vector<double>(weight.data()->elements())};
  for (std::size_t i = 0; i < some.values.size(); ++i) some.values[i] = static_cast<double>(1 + i * 5 % 7) / 8;
  constants_.emplace(&weight, std::move(some));
}

// Along an axis of equal steps the numbers only count, as those of a Range and ALiBi's do.
void SampleEvaluation::note_table(const ops::Array& constant) {
  for (std::size_t axis = 0; axis < constant.dims.size(); ++axis)
    if (!has_equal_steps(constant, axis)) table_lengths_.push_back(constant.dims[axis]);
}

// ── sizes ────────────────────────────────────────────────────────────────────────────────────────────────────────────────

// False: the dimension is fixed to another size.
bool SampleEvaluation::bind(const ir::Dim& dim, std::int64_t size, Symbols& symbols) const {
  if (dim.is_symbolic() && dim.sum()->size() == 1 && dim.sum()->front().symbols.size() == 1 && dim.sum()->front().coefficient == 1)
    return symbols.emplace(dim.sum()->front().symbols.front(), size).first->second == size;
  const auto known = size_of(dim, symbols);
  return !known || *known == size;
}

std::optional<SampleEvaluation::Symbols> SampleEvaluation::symbols_of(const Sample& sample) const {
  Symbols symbols;
  const auto batch = static_cast<std::int64_t>(sample.rows.size());
  const auto& query = *query_->shape();
  // [B, S, heads·D] or [B, heads, S, D]
  if (!bind(query[0], batch, symbols) || !bind(query[query.size() == 4 ? 2 : 1], sample.length, symbols)) return std::nullopt;
  if (past_ && past_->shape() && past_->shape()->size() == 4) {
    if (!bind((*past_->shape())[0], batch, symbols) || !bind((*past_->shape())[2], sample.past, symbols)) return std::nullopt;
  } else if (!past_ && sample.past != 0) {
    return std::nullopt;
  }
  if (ends_ && !bind((*ends_->shape())[0], static_cast<std::int64_t>(sample.ends.size()), symbols)) return std::nullopt;
  for (const auto* v : query_->graph()->inputs())
    if (v->rank() == 2u && holds(*v, "mask") && !bind((*v->shape())[1], sample.total(), symbols)) return std::nullopt;
  return symbols;
}

std::optional<Sample> SampleEvaluation::fitted(const Sample& sample) const {
  if (!problem_.empty() || symbols_of(sample)) return sample;  // a problem is for run() to tell
  const auto batch = (*query_->shape())[0].as_static();
  if (!batch || *batch < 1) return std::nullopt;
  Sample some{sample.past, sample.length, {}};
  for (std::size_t i = 0; i < static_cast<std::size_t>(*batch); ++i) some.rows.push_back(sample.rows[i % sample.rows.size()]);
  return symbols_of(some) ? std::optional(some) : std::nullopt;
}

// ── evaluation ───────────────────────────────────────────────────────────────────────────────────────────────────────────

// What the interface's inputs hold: by their names, which runtimes bind to.
std::optional<ops::Array> SampleEvaluation::input(const ir::Value& v, const Sample& sample) const {
  const auto batch = static_cast<std::int64_t>(sample.rows.size());
  ops::Array a{v.dtype(), {}, {}};
  if (&v == ends_) {
    a.dims = {static_cast<std::int64_t>(sample.ends.size())};
    a.values.assign(sample.ends.begin(), sample.ends.end());
  } else if (&v == attention_mask_) {
    a.dims = {batch, sample.total()};
    for (const auto& row : sample.rows) a.values.insert(a.values.end(), row.begin(), row.end());
  } else if (v.rank() == 2u && holds(v, "position")) {
    a.dims = {batch, sample.length};
    for (std::size_t row = 0; row < sample.rows.size(); ++row)
      for (std::int64_t s = 0; s < sample.length; ++s) a.values.push_back(static_cast<double>(sample.ordinal(row, sample.past + s)));
  } else if (v.rank() == 1u && holds(v, "cache_position")) {
    a.dims = {sample.length};
    for (std::int64_t s = 0; s < sample.length; ++s) a.values.push_back(static_cast<double>(sample.past + s));
  } else {
    return std::nullopt;
  }
  return a;
}

std::optional<std::string> SampleEvaluation::evaluate(const ir::Node& node, const Symbols& symbols, std::map<const ir::Value*, ops::Array>& known) const {
  for (const auto* o : node.outputs()) {
    const auto dims = o ? sizes_of(*o, symbols) : std::nullopt;
    if (dims && ir::element_count(*dims) > most_elements) return o->name + " is too large to evaluate";
  }
  if (const auto dims = is_shape(node) ? sizes_of(*node.input(0), symbols) : std::nullopt; dims) {
    known.emplace(node.output(), part_of(*dims, node));
    return std::nullopt;
  }
  std::vector<const ops::Array*> operands;
  for (const auto* in : node.inputs()) {
    operands.push_back(nullptr);
    if (!in) continue;
    if (const auto c = constants_.find(in); c != constants_.end()) operands.back() = &c->second;
    else if (const auto k = known.find(in); k != known.end()) operands.back() = &k->second;
    else return "the shape of " + in->name + " is not known";
  }
  try {
    auto results = ops::interpret(node, operands);
    for (std::size_t i = 0; i < node.outputs().size() && i < results.size(); ++i)
      if (node.output(i)) known.emplace(node.output(i), std::move(results[i]));
  } catch (const Error& e) {
    return std::string(e.what());
  }
  return std::nullopt;
}

std::variant<ops::Array, std::string> SampleEvaluation::run(const Sample& sample) {
  if (!problem_.empty()) return problem_;
  const auto symbols = symbols_of(sample);
  if (!symbols) return "its sizes contradict each other";
  if (const auto c = constants_.find(value_); c != constants_.end()) return c->second;
  std::map<const ir::Value*, ops::Array> known;
  for (const auto* v : inputs_) {
    auto a = input(*v, sample);
    if (!a) return "it depends on " + v->name;
    known.emplace(v, std::move(*a));
  }
  for (const auto* node : nodes_)
    if (auto why = evaluate(*node, *symbols, known)) return *why;
  return known.at(value_);
}

}  // namespace mobius::rules
