// The rows of each sample.
#include "mobius/rules/mask_samples.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <utility>

namespace mobius::rules {
namespace {
constexpr std::int64_t far_away = 3000, farthest = (1 << 17) + 1;  // tokens; behind the last one of any chunk of a power of two

// A length behind every limit that the numbers in the graph may add up to; where they are multiplied or shifted, behind any.
std::int64_t behind_all_limits(const SampleEvaluation& evaluation) {
  if (evaluation.scales_numbers()) return farthest;
  const auto& thresholds = evaluation.thresholds();
  return std::min(farthest, std::max(far_away, std::accumulate(thresholds.begin(), thresholds.end(), std::int64_t{2})));
}
}  // namespace

Row filled(std::int64_t tokens) { return Row(static_cast<std::size_t>(tokens), 1); }

std::vector<Sample> right_padded() {
  return {{0, 6, {{1, 1, 1, 1, 1, 1}, {1, 1, 1, 1, 0, 0}, {1, 0, 0, 0, 0, 0}}},
          {5, 1, {{1, 1, 1, 1, 1, 1}, {1, 1, 0, 0, 0, 1}, {1, 1, 1, 1, 0, 1}}},
          {3, 3, {{1, 1, 1, 1, 1, 1}, {1, 1, 0, 1, 1, 1}, {1, 1, 1, 1, 0, 0}}}};
}

std::vector<Sample> padded_anywhere() {
  auto samples = right_padded();
  samples.push_back({0, 4, {{0, 0, 1, 1}, {0, 1, 1, 1}, {1, 1, 1, 1}, {0, 1, 0, 1}}});
  samples.push_back({3, 2, {{0, 1, 1, 1, 1}, {0, 0, 0, 1, 1}, {1, 0, 1, 0, 1}}});
  return samples;
}

bool is_within_tables(SampleEvaluation& evaluation, const Sample& sample) {
  const auto fitted = evaluation.fitted(sample);
  return fitted && std::holds_alternative<ops::Array>(evaluation.run(*fitted));
}

std::vector<Sample> with_lengths_of(SampleEvaluation& evaluation, std::vector<Sample> samples) {
  constexpr std::int64_t queries = 3;
  const auto ends_at = [&](std::int64_t total) { return Sample{std::max<std::int64_t>(total - queries, 0), std::min(queries, total), {filled(total)}}; };
  for (const auto n : evaluation.thresholds())
    for (auto total = n; total <= n + 2; ++total) samples.push_back(ends_at(total));
  for (const auto n : evaluation.table_lengths()) samples.push_back({0, n, {filled(n)}});
  // Tables may end before the farthest.
  const auto add_far = [&](std::int64_t total) {
    Sample far{total - 1, 1, {filled(total)}};
    const bool is_within = is_within_tables(evaluation, far);
    if (is_within) samples.push_back(std::move(far));
    return is_within;
  };
  const auto behind = behind_all_limits(evaluation);
  if (!add_far(behind) && behind > far_away) add_far(far_away);
  return samples;
}

std::string show(const Row& row) { return row.size() > 12 ? fmt::format("a row of {} tokens", row.size()) : fmt::format("mask [{}]", fmt::join(row, ", ")); }

std::vector<Sample> with_empty_rows() {
  auto samples = padded_anywhere();
  samples.push_back({0, 2, {{0, 0}, {1, 0}, {0, 1}}});
  samples.push_back({2, 1, {{0, 0, 0}, {0, 0, 1}, {0, 1, 0}}});
  return samples;
}

}  // namespace mobius::rules
