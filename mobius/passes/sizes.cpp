// Sizes are read from the graph's inputs.
//
//   Gather(Shape(key), 2)   ⟶   Shape(past)[2:3] + Shape(input_ids)[1:2]        when that is what it is
//
// Exporters read a size wherever they have a tensor that shows it. Equal sizes then have many forms, and values are kept for their
// shape alone: an attention mask may depend on the keys that it is for.
#include <map>
#include <set>

#include "mobius/passes/passes.hpp"

namespace mobius::passes {
namespace {

class SizesOfInputs {
 public:
  explicit SizesOfInputs(ir::Graph& graph) : graph_(graph), first_(graph.first()) {
    for (auto* input : graph.inputs())
      for (std::size_t i = 0; i < input->rank().value_or(0); ++i)
        if (const auto& d = (*input->shape())[i]; d.is_symbolic()) axes_.try_emplace(d.to_string(), input, static_cast<std::int64_t>(i));
  }

  // int64 [1], or [] when it shall be a scalar; nullptr: no input shows this size.
  ir::Value* value(const ir::Dim& size, bool scalar) {
    auto& v = (scalar ? scalars_ : vectors_)[size.to_string()];
    if (!v) v = scalar ? squeezed(value(size, false)) : vector(size);
    return v;
  }
  // Already read from that input.
  bool reads(const ir::Node& n, const ir::Dim& size) const {
    if (made_.contains(n.output())) return true;
    const auto found = axes_.find(size.to_string());
    return found != axes_.end() && n.is("Shape") && n.input(0) == found->second.first && n.int_attribute("start", 0) == found->second.second;
  }

 private:
  ir::Value* vector(const ir::Dim& size) {
    if (const auto found = axes_.find(size.to_string()); found != axes_.end()) {
      const auto [input, axis] = found->second;
      return insert({"", "Shape"}, {input}, {{"start", axis}, {"end", axis + 1}});
    }
    if (size.sum()->size() < 2) return nullptr;
    std::vector<ir::Value*> terms;
    for (const auto& term : *size.sum()) {
      if (term.coefficient != 1 || term.symbols.size() != 1 || !axes_.contains(term.symbols.front())) return nullptr;
      terms.push_back(value(ir::Dim::symbol(term.symbols.front()), false));
    }
    auto* sum = terms[0];
    for (std::size_t i = 1; i < terms.size(); ++i) sum = insert({"", "Add"}, {sum, terms[i]}, {});
    return sum;
  }

  ir::Value* squeezed(ir::Value* vector) {
    if (!vector) return nullptr;
    if (!axis_0_) axis_0_ = graph_.add_initializer(graph_.unique_name("axis_0"), ir::make_tensor({1}, std::vector<std::int64_t>{0}));
    return insert({"", "Squeeze"}, {vector, axis_0_}, {});
  }

  ir::Value* insert(ir::OpName op, std::vector<ir::Value*> operands, ir::Attributes attributes) {
    auto* node = graph_.insert(first_, op, operands, std::move(attributes), 1);
    node->name = node->output()->name;
    infer_types(*node);
    made_.insert(node->output());
    return node->output();
  }

  ir::Graph& graph_;
  ir::Node* first_;
  std::map<std::string, std::pair<ir::Value*, std::int64_t>> axes_;  // by size: the first input's that has it
  std::map<std::string, ir::Value*> vectors_, scalars_;
  std::set<const ir::Value*> made_;  // looked up only
  ir::Value* axis_0_ = nullptr;
};

// The size that a value holds; unknown: it is no single int64.
ir::Dim size_in(const ir::Value& v, const ops::TypeInference& inference) {
  if (v.dtype() != ir::DataType::int64 || v.rank().value_or(2) > 1) return {};
  const auto contents = inference.contents(&v);
  return contents && contents->size() == 1 ? contents->front() : ir::Dim();
}

}  // namespace

std::size_t read_sizes_from_inputs(ir::Graph& graph) {
  if (!graph.first()) return 0;
  SizesOfInputs sizes(graph);
  ops::TypeInference inference;
  std::size_t replaced = 0;
  for (auto* n = graph.first(); n; n = n->next()) {
    infer_types(*n, inference);
    auto* v = n->output();
    if (!v || n->outputs().size() != 1 || v->is_graph_output() || !v->is_used()) continue;
    const auto size = size_in(*v, inference);
    auto* found = size.is_symbolic() && !sizes.reads(*n, size) ? sizes.value(size, v->rank() == 0u) : nullptr;
    if (!found) continue;
    graph.replace_all_uses(v, found);
    ++replaced;
  }
  return replaced;
}

}  // namespace mobius::passes
