// The samples on which masks and positions are tried.
//
//   SampleEvaluation positions(...);
//   for (const Sample& sample : with_lengths_of(positions, right_padded())) ...
#pragma once
#include <string>
#include <vector>

#include "mobius/rules/sample_evaluation.hpp"

namespace mobius::rules {

using Row = std::vector<int>;  // 1: a token, 0: padding

Row filled(std::int64_t tokens);
std::string show(const Row& row);  // "mask [1, 1, 0]"

// A prompt whose rows are padded on the right; then one token more, and several, in rows that are full or have gaps.
std::vector<Sample> right_padded();
// These, and padding in all places.
std::vector<Sample> padded_anywhere();
// And rows with no token at all.
std::vector<Sample> with_empty_rows();

// The samples, and full rows of the lengths that tell more of this value: on both sides of every threshold, with the last tokens as queries
// (several, since the last one has nothing ahead); far beyond; and all positions of every table. What depends on lengths changes there, if anywhere.
std::vector<Sample> with_lengths_of(SampleEvaluation& evaluation, std::vector<Sample> samples);

// Whether the graph can be run so far at all: its tables may end before.
bool is_within_tables(SampleEvaluation& evaluation, const Sample& sample);

}  // namespace mobius::rules
