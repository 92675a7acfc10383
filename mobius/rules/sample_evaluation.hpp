// SampleEvaluation: the value of a graph's mask or positions on a small batch, by the reference interpreter.
//
//   SampleEvaluation mask(attention.input(3), attention.input(0), attention.input(4));
//   const auto result = mask.run({.past = 0, .length = 3, .rows = {{1, 1, 1}, {1, 0, 0}}});
//
// Only what the value depends on is evaluated: nodes between it and graph inputs (attention_mask, position_ids, cache_position),
// constants and shapes. Shapes come from the inputs' symbols, which the query [batch, new, ...] and the cache [batch, heads, past, ...] name.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "mobius/ir/graph.hpp"
#include "mobius/ops/interpreter.hpp"

namespace mobius::rules {

struct Sample {
  std::int64_t past = 0, length = 0;    // slots in the cache, new slots
  std::vector<std::vector<int>> rows;   // attention_mask [batch][past + length]
  std::vector<std::int64_t> ends = {};  // where packed sequences begin and end: 0, ..., length

  std::int64_t total() const { return past + length; }
  std::int64_t ordinal(std::size_t row, std::int64_t slot) const;  // tokens before this one
};

class SampleEvaluation {
 public:
  // `value` may be nullptr (nothing to evaluate), `past` too (no cache). `ends`: a value [sequences + 1] that samples give, whatever made it.
  SampleEvaluation(ir::Value* value, const ir::Value* query, const ir::Value* past, const ir::Value* ends = nullptr);

  // The sample as the graph's fixed sizes allow it (batch 1: its first row); nullopt: not at all.
  std::optional<Sample> fitted(const Sample& sample) const;
  // The value, or why it can't be evaluated.
  std::variant<ops::Array, std::string> run(const Sample& sample);

  ir::Value* attention_mask() const { return attention_mask_; }  // nullptr: the value does not depend on one
  // Sizes at which the value may change its kind: the small numbers among its constants.
  const std::vector<std::int64_t>& thresholds() const { return thresholds_; }
  // Whether it does more with numbers than to add and compare them: then they stand for other thresholds.
  bool scales_numbers() const;
  // Lengths of the constants that hold a number for each position, whatever it may be: only all of them tell.
  const std::vector<std::int64_t>& table_lengths() const { return table_lengths_; }

 private:
  using Symbols = std::map<std::string, std::int64_t, std::less<>>;
  void collect(ir::Value* value);
  void visit(ir::Value* value, std::vector<ir::Value*>& open);
  void note_constant(const ir::Value* value);
  void stand_in(const ir::Value& weight);
  void note_table(const ops::Array& constant);
  bool bind(const ir::Dim& dim, std::int64_t size, Symbols& symbols) const;
  std::optional<Symbols> symbols_of(const Sample& sample) const;
  std::optional<ops::Array> input(const ir::Value& value, const Sample& sample) const;
  std::optional<std::string> evaluate(const ir::Node& node, const Symbols& symbols, std::map<const ir::Value*, ops::Array>& known) const;

  ir::Value* value_;
  const ir::Value* query_;
  const ir::Value* past_;
  const ir::Value* ends_;
  ir::Value* attention_mask_ = nullptr;
  std::vector<ir::Node*> nodes_;                      // in order
  std::vector<ir::Value*> inputs_;                    // graph inputs whose elements are read
  std::map<const ir::Value*, ops::Array> constants_;  // looked up only
  std::vector<std::int64_t> thresholds_, table_lengths_;
  std::string problem_;
};

}  // namespace mobius::rules
