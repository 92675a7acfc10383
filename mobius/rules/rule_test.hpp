// Tests of rules: text in, text out; and both sides give equal numbers on random inputs.
//
//   expect_rewrite(skip_norm(), "cuda",
//                  "g (float[B,S,8] x, float[B,S,8] r, float[8] w) => (y) { s = Add(x, r)  y = RMSNormalization(s, w) }",
//                  "SkipSimplifiedLayerNormalization");
//   expect_unchanged(skip_norm(), "cuda", "g (...) => (...) { ... }", "operands have shapes [B, S, 8] and [8]");
//
// - What is expected is a list of operators in order, or a whole graph (it has braces), equal up to the names of inner values.
// - A weight may be left without data: <float[4,8] w>. It gets random data.
// - Inputs that can't hold any number say what they hold: {.trials = {.contents = {{"position_ids", "P.."}}}} (rewrite/disprove.hpp).
// - The graph's types are inferred first, as the pipeline does; the rewritten model is verified.
// - A group that is not for the target leaves the graph unchanged for no reason: expect_unchanged(..., "").
#pragma once
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <source_location>
#include <string>
#include <string_view>
#include <vector>

#include "mobius/ep/registry.hpp"
#include "mobius/ir/model.hpp"
#include "mobius/ops/infer.hpp"
#include "mobius/rewrite/disprove.hpp"
#include "mobius/rules/rules.hpp"

namespace mobius::rules {

// What rules are judged on (disprove_test.cpp), beside their tests:
//
//   const RuleExamples examples[] = {{"SkipNorm", {{.variables = {{"x", "B,S,8"}, {"skip", "B,S,8"}, {"gamma", "8"}}}}}};
//
// `equivalent`: wrong changes to the right-hand side that change no number, each with the reason why that is right.
struct RuleExamples {
  std::vector<rewrite::Example> examples;
  std::map<std::string, std::string> equivalent;

  RuleExamples() = default;
  RuleExamples(const std::string& rule, std::vector<rewrite::Example> list, std::map<std::string, std::string> equivalent_mutants = {}) {
    auto& entry = all()[rule];
    entry.examples.insert(entry.examples.end(), list.begin(), list.end());
    entry.equivalent.merge(equivalent_mutants);
  }
  static std::map<std::string, RuleExamples>& all() {
    static std::map<std::string, RuleExamples> table;
    return table;
  }
};

// ONNX Runtime's GroupQueryAttention takes several new tokens behind a cache in a batch of one only.
inline const std::vector<rewrite::Contents> one_row_or_one_token = {{{"B", "1..2"}}, {{"S", "1..2"}}};

struct Setup {
  ir::DataType dtype = ir::DataType::float32;
  std::string role = "decoder";
  rewrite::Trials trials = {};
  std::int64_t opset = 24;
  rewrite::Padding padding = rewrite::Padding::right;
};

// "Add RMSNormalization Neg"; subgraphs in brackets behind their node: "If[Neg][Relu]".
inline std::string ops_of(const ir::Graph& graph) {
  std::string ops;
  for (const auto* n : graph.nodes()) {
    ops += (ops.empty() ? "" : " ") + std::string(n->op.type);
    for (const auto* g : n->subgraphs()) ops += "[" + ops_of(*g) + "]";
  }
  return ops;
}

// A graph's weights and nodes without what does not matter: inner values and weights are numbered as they are met, and listed in
// that order; the interface, names of nodes and inner types are left out.
inline std::string canonical_text(const ir::Model& model) {
  auto copy = ir::model_from_text(ir::to_text(*model.graph, {.value_info = false}));
  auto& graph = *copy.graph;
  std::map<const ir::Value*, int> numbers;
  const auto number = [&](ir::Value* v) {
    if (!v || v->is_graph_input() || v->is_graph_output() || v->graph() != &graph) return;
    if (const auto [it, fresh] = numbers.try_emplace(v, static_cast<int>(numbers.size())); fresh) graph.rename(v, fmt::format("_{:04}", it->second));
  };
  for (auto* n : graph.nodes()) {
    for (auto* v : n->inputs()) number(v);
    for (auto* v : n->outputs()) number(v);
    n->name.clear();
  }
  for (auto* v : std::vector(graph.initializers()))
    if (!v->is_used()) graph.remove_initializer(v);
  const auto text = ir::to_text(graph, {.value_info = false});
  const auto body = text.find("{\n"), weights = std::min(text.find("\n   <"), body);
  std::vector<std::string> lines;  // of weights, sorted by their new names
  for (auto at = weights; at + 1 < body;) {
    const auto end = text.find('\n', at + 1);
    auto line = text.substr(at + 5, end - at - 5);
    line.pop_back();  // ',' or '>'
    lines.push_back(line.substr(line.find(' ') + 1) + " : " + line);
    at = end;
  }
  std::ranges::sort(lines);
  return fmt::format("{}{}", fmt::join(lines, "\n"), text.substr(body));
}

struct Rewritten {
  ir::Model original, model;
  rewrite::RuleReport report;
};

// Applies the group; failures of what must always hold are reported.
inline Rewritten rewritten(const rewrite::RuleGroup& group, std::string_view ep, std::string_view text, const Setup& setup = {}) {
  Rewritten r{ir::model_from_text(text), ir::model_from_text(text), {}};
  EXPECT_EQ(ir::verify(r.original), std::vector<std::string>{});
  for (auto* m : {&r.original, &r.model}) ops::TypeInference().infer(*m->graph);
  r.report = rewrite::apply(group, *r.model.graph, {get_ep(ep), setup.dtype, setup.role, setup.opset, setup.padding});
  r.model.opset_imports["com.microsoft"] = 1;
  EXPECT_EQ(ir::verify(r.model), std::vector<std::string>{});
  return r;
}

inline void expect_rewrite(const rewrite::RuleGroup& group, std::string_view ep, std::string_view text, std::string_view expected, const Setup& setup = {},
                           std::source_location at = std::source_location::current()) {
  const testing::ScopedTrace trace(at.file_name(), static_cast<int>(at.line()), "expect_rewrite");
  const auto r = rewritten(group, ep, text, setup);
  EXPECT_GT(r.report.applied, 0u) << r.report.nearest_miss;
  if (expected.find('{') == std::string_view::npos) EXPECT_EQ(ops_of(*r.model.graph), expected);
  else EXPECT_EQ(canonical_text(r.model), canonical_text(ir::model_from_text(expected)));
  if (const auto why = rewrite::difference(r.original, r.model, setup.trials)) ADD_FAILURE() << *why << "\n" << ir::to_text(r.model);
}

inline void expect_unchanged(const rewrite::RuleGroup& group, std::string_view ep, std::string_view text, std::string_view reason, const Setup& setup = {},
                             std::source_location at = std::source_location::current()) {
  const testing::ScopedTrace trace(at.file_name(), static_cast<int>(at.line()), "expect_unchanged");
  const auto r = rewritten(group, ep, text, setup);
  EXPECT_EQ(r.report.applied, 0u);
  EXPECT_EQ(ir::to_text(*r.model.graph), ir::to_text(*r.original.graph));
  const rewrite::Target target{get_ep(ep), setup.dtype, setup.role, setup.opset, setup.padding};
  if (reason.empty()) EXPECT_FALSE(group.applies_to(target)) << "the group is for this target: what is the reason? " << r.report.nearest_miss;
  else EXPECT_THAT(r.report.nearest_miss, testing::HasSubstr(std::string(reason)));
}

}  // namespace mobius::rules
