// disprove: looks for inputs on which a rule, or any rewrite, changes what a graph computes. Both sides go through the reference
// interpreter in double precision.
//
//   const Example example{.variables = {{"x", "B,S,8"}, {"skip", "B,S,8"}, {"gamma", "8"}}};
//   const auto why = disprove({skip_norm}, {example});
//   // "y element 5 is 0.25, expected 0.5 (inputs x [2, 3, 8], ...) ...", or nothing
#pragma once
#include <cstdint>
#include <deque>
#include <functional>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mobius/ir/model.hpp"
#include "mobius/ops/interpreter.hpp"
#include "mobius/rewrite/rule.hpp"

namespace mobius::rewrite {

// ── two graphs ───────────────────────────────────────────────────────────────────────────────────────────────────────────

// What a graph's inputs hold, by name; and from what range a shape's symbols are drawn. Expressions are those of dimensions, "P + S".
//   "3", "P + S"     that number everywhere                       "0..V"   integers from 0 to V - 1
//   "P.."            P, P + 1, ... along the last axis            "0.5~2"  reals between the two
//   "0, 2, -inf"     these elements, again and again              "right padded", "left padded"   rows of ones with zeros behind or before
// Without a word: reals around 0, any booleans, integers 0 and 1; symbols from 1 to 5.
using Contents = std::map<std::string, std::string>;

struct Trials {
  Contents contents = {};
  double tolerance = 1e-9;  // relative to the largest element of an output, at least 1
  int rounds = 4;           // each with new shapes; in the second one all symbols are as small as they may be
  std::uint64_t seed = 1;
  bool prefer_functions = false;  // run the rewritten model's function bodies instead of the operators they stand for
};

// Random inputs for round `round`, by name. Weights without data are bound to random data too, in all `models`, by name.
std::map<std::string, ops::Array> random_inputs(std::initializer_list<const ir::Model*> models, const Trials& trials, int round);

// The first difference between two models with the same inputs and outputs; nullopt: none was found.
std::optional<std::string> difference(const ir::Model& original, const ir::Model& rewritten, const Trials& trials = {});

// ── rules ────────────────────────────────────────────────────────────────────────────────────────────────────────────────

// Something that a rule must match: its own pattern written out, or a whole graph where it wants more than the pattern says.
// From one example many graphs are made:
// - of a pattern, every alternative, both orders of commutative operands, numbers as scalars and as tensors of one element,
//   attributes with a default also left out, results besides the root's also as graph outputs;
// - of a graph, the one with the operands of all commutative nodes swapped too.
struct Example {
  // Of the pattern's variables: "B,S,8" (of the example's float type), "int64[B,S]", "constant 4,8" (a weight without data), "= 4, 2, 2"
  // (an int64 constant).
  std::map<std::string, std::string> variables = {};
  std::map<std::string, std::string> attributes = {};  // of the pattern: numbers, "0, 2, 1" or words; floats may go without
  std::string graph = {};                              // ONNX's textual syntax; instead of `variables`
  Trials trials = {};
  // What kernels ask for beyond that, where the example goes to a runtime: one round for each.
  std::vector<Contents> on_runtime = {};
  std::optional<Padding> padding = {};  // only for such targets
};

// Walks combinations of decisions: first none but the usual ones, then all that differ in one decision, then in two.
class Choices {
 public:
  std::size_t pick(std::size_t n);  // the next decision, one of n; 0 is the usual one
  bool next();                      // on to another combination; false: there is none left
  // The alternatives that were taken on the way: the node of a | b, and which.
  std::vector<std::pair<const PatNode*, std::size_t>> taken = {};

 private:
  std::vector<std::size_t> prefix_;   // decisions to repeat; behind them all are usual
  std::vector<std::size_t> options_;  // of how many each decision was one
  std::deque<std::vector<std::size_t>> to_do_;
};

// One of the example's graphs, floats in `float_type`. Errors: invalid_argument: this combination does not fit the example's shapes.
ir::Model example_model(const Rule& rule, const Example& example, Choices& choices, ir::DataType float_type = ir::DataType::float32);

// What the rule is tried on: each EP of the registry with its dtypes and both paddings, as far as the rule is for them, in the first
// role that it is for.
std::vector<Target> targets_of(const Rule& rule);

// What is wrong with a rule: numbers that it changes, or a gap in the examples:
// - an example that it matches in some of its graphs and not in all (on any target); or that it does not match at all;
// - an alternative of its pattern that no example has. (Combinations that don't fit an example's shapes are left out.)
// Variants of a rule are judged together: each example is one of at least one of them, and each has at least one. nullopt: nothing was found.
std::optional<std::string> disprove(const std::vector<Rule>& variants, const std::vector<Example>& examples);

// ── mutants: does the judge notice? ──────────────────────────────────────────────────────────────────────────────────────

// The rule with one thing wrong in what it inserts. `what`: from mutations_of.
Rule mutant(const Rule& rule, std::string_view what);

// All the ways to get a rule's right-hand side wrong, as far as its examples show it: "Mul 2: operands 0 and 1 swapped".
std::vector<std::string> mutations_of(const Rule& rule, const std::vector<Example>& examples);
// Whether the examples tell the mutant from the rule.
bool is_noticed(const Rule& mutant, const std::vector<Example>& examples);

// The same for any nodes of a graph: one wrong change to one node each, ready to be made.
struct Mutation {
  std::string what;
  std::function<void()> make;
};
std::vector<Mutation> mutations_of(ir::Graph& graph, const std::vector<ir::Node*>& nodes);

}  // namespace mobius::rewrite
