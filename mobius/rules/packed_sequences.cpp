// The lengths on which a mask is tried, and the search for the value that gives them.
#include "mobius/rules/packed_sequences.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <numeric>
#include <unordered_set>

#include "mobius/rules/sample_evaluation.hpp"

namespace mobius::rules {
namespace {

using Lengths = std::vector<std::int64_t>;

constexpr std::int64_t longest_tried = 512;
constexpr std::size_t most_values = 500;  // of those that a mask depends on

Sample sample_of(const Lengths& lengths) {
  const auto tokens = std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0});
  Sample sample{0, tokens, {std::vector<int>(static_cast<std::size_t>(tokens), 1)}, {0}};
  for (const auto n : lengths) sample.ends.push_back(sample.ends.back() + n);
  return sample;
}

// One sequence, equal ones, growing and shrinking ones, single tokens; and lengths on both sides of the mask's own numbers.
std::vector<Lengths> lengths_to_try(const std::vector<std::int64_t>& thresholds) {
  std::vector<Lengths> tries{{4}, {1}, {2, 2}, {1, 3}, {3, 1, 2}, {1, 1, 1, 1}, {5, 2, 2, 1}};
  for (const auto n : thresholds)
    if (n <= longest_tried) tries.insert(tries.end(), {{n, n + 1}, {n + 2, 1, n}});
  return tries;
}

std::optional<std::string> differs(const ops::Array& mask, const Sample& sample, const Lengths& lengths) {
  const auto with = [&](const std::string& what) { return fmt::format("with sequences of {} tokens: {}", fmt::join(lengths, ", "), what); };
  const auto rank = mask.dims.size();
  ir::Dims want(rank, 1);
  if (rank >= 2) want[rank - 1] = want[rank - 2] = sample.length;
  if (rank < 2 || mask.dims != want) return with(fmt::format("the mask is [{}], not one for all heads", fmt::join(mask.dims, ", ")));
  std::size_t i = 0;
  for (std::size_t query = 0, of_query = 0; query < static_cast<std::size_t>(sample.length); ++query) {
    while (sample.ends[of_query + 1] <= static_cast<std::int64_t>(query)) ++of_query;
    for (std::int64_t key = 0; key < sample.length; ++key) {
      const double v = mask.values[i++];
      const bool is_bias = mask.dtype != ir::DataType::boolean;
      if (is_bias && v != 0 && !(v <= -1e4)) return with(fmt::format("the mask adds {} to scores", v));
      const bool sees = is_bias ? v == 0 : v != 0, same = key >= sample.ends[of_query] && key < sample.ends[of_query + 1];
      if (sees != same) return with(fmt::format("query {} {} key {}", query, sees ? "sees" : "does not see", key));
    }
  }
  return std::nullopt;
}

// Nothing: `ends` bounds the sequences of this mask.
std::optional<std::string> why_not(const ir::Node& attention, ir::Value* ends) {
  SampleEvaluation evaluation(attention.input(3), attention.input(0), nullptr, ends);
  auto numbers = evaluation.thresholds();
  std::ranges::copy(evaluation.table_lengths(), std::back_inserter(numbers));
  for (const auto n : numbers)
    if (n > longest_tried) return fmt::format("the mask depends on the number {}", n);
  bool told_apart = false;
  for (const auto& lengths : lengths_to_try(numbers)) {
    const auto sample = sample_of(lengths);
    if (!evaluation.fitted(sample)) continue;  // the graph fixes another number of sequences or tokens
    const auto result = evaluation.run(sample);
    if (const auto* why = std::get_if<std::string>(&result)) return *why;
    if (auto why = differs(std::get<ops::Array>(result), sample, lengths)) return why;
    told_apart |= lengths.size() > 1;
  }
  return told_apart ? std::nullopt : std::optional<std::string>("the graph fixes the number of tokens or sequences");
}

bool is_list_of_integers(const ir::Value& v) {
  return v.rank() == 1u && !v.data() && (v.dtype() == ir::DataType::int64 || v.dtype() == ir::DataType::int32) && !(v.producer() && v.producer()->is("Shape"));
}

// What the mask depends on, nearest first, as far as it could bound sequences.
std::vector<ir::Value*> lists_behind(ir::Value* mask) {
  std::vector<ir::Value*> open{mask}, found;
  std::unordered_set<const ir::Value*> seen{mask};
  for (std::size_t i = 0; i < open.size() && i < most_values; ++i) {
    if (is_list_of_integers(*open[i])) found.push_back(open[i]);
    if (const auto* node = open[i]->producer())
      for (auto* input : node->inputs())
        if (input && seen.insert(input).second) open.push_back(input);
  }
  return found;
}

}  // namespace

std::variant<ir::Value*, std::string> packed_sequences(const ir::Node& attention) {
  std::string nearest = "the mask depends on no list of integers";
  std::size_t furthest = 0;
  for (auto* ends : lists_behind(attention.input(3))) {
    const auto why = why_not(attention, ends);
    if (!why) return ends;
    // What could be evaluated tells more than what could not.
    if (const std::size_t reached = why->starts_with("with sequences") ? 2 : 1; reached > furthest) {
      furthest = reached;
      nearest = *why;
    }
  }
  return nearest;
}

}  // namespace mobius::rules
