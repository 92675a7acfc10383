// disprove: looks for inputs on which a rule, or any rewrite, changes what a graph computes. Both sides go through the reference
// interpreter in double precision.
//
//   const Example example{.variables = {{"x", "B,S,8"}, {"skip", "B,S,8"}, {"gamma", "8"}}};
//   const auto why = disprove(skip_norm, {example});
//   // "y element 5 is 0.25, expected 0.5 (inputs x [2, 3, 8], ...) ...", or nothing
#pragma once
#include <cstdint>
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
//   "0, 2, 5"        these elements, again and again              "right padded", "left padded"   rows of ones with zeros behind or before
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
  // Of the pattern's variables: "B,S,8" (of the example's float type), "int64[B,S]", "constant 4,8" (a weight without data).
  std::map<std::string, std::string> variables = {};
  std::map<std::string, std::string> attributes = {};  // of the pattern: numbers or words; floats without one are random
  std::string graph = {};                              // ONNX's textual syntax; instead of `variables`
  Trials trials = {};
};

// Walks all combinations of decisions, or as many as are asked for.
class Choices {
 public:
  std::size_t pick(std::size_t n);  // the next decision, one of n
  bool next();                      // on to another combination; false: there is none left
 private:
  struct Decision {
    std::size_t picked, of;
  };
  std::vector<Decision> decisions_;
  std::size_t at_ = 0;
};

// One of the example's graphs, floats in `float_type`. Errors: the example does not fit the rule.
ir::Model example_model(const Rule& rule, const Example& example, Choices& choices, ir::DataType float_type = ir::DataType::float32);

// What the rule is tried on: each EP of the registry with its dtypes and both paddings, as far as the rule is for them, in the first
// role that it is for.
std::vector<Target> targets_of(const Rule& rule);

// What is wrong with the rule: a graph of an example that it does not match on any target, or whose numbers it changes. An example
// that can't be set up or evaluated is an answer too. nullopt: nothing was found.
std::optional<std::string> disprove(const Rule& rule, const std::vector<Example>& examples);

// ── mutants: does the judge notice? ──────────────────────────────────────────────────────────────────────────────────────

// The rule with one thing wrong in what it inserts. `what`: from mutations_of.
Rule mutant(const Rule& rule, std::string_view what);

// All the ways to get the rule's right-hand side wrong, as far as the examples show it: "Mul 2: operands 0 and 1 swapped".
std::vector<std::string> mutations_of(const Rule& rule, const std::vector<Example>& examples);

// The same for any nodes of a graph: one wrong change to one node each, ready to be made.
struct Mutation {
  std::string what;
  std::function<void()> make;
};
std::vector<Mutation> mutations_of(ir::Graph& graph, const std::vector<ir::Node*>& nodes);

}  // namespace mobius::rewrite
