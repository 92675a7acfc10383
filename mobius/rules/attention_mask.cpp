// What is expected of masks, positions and angles on samples.
#include "mobius/rules/attention_mask.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>

#include "mobius/rules/mask_samples.hpp"

namespace mobius::rules {
namespace {

// ── masks ────────────────────────────────────────────────────────────────────────────────────────────────────────────────

// The mask's elements on one sample.
class Visible {
 public:
  // `biases`: other numbers than "nothing" and "lowest" are added to the scores of what is visible.
  Visible(const ops::Array* mask, bool is_causal, const Sample& sample, bool biases) : mask_(mask), is_causal_(is_causal), sample_(sample), biases_(biases) {}

  // What is no yes or no (a bias), or can't be broadcast.
  std::optional<std::string> problem() const {
    if (!mask_) return std::nullopt;
    const std::int64_t want[4] = {static_cast<std::int64_t>(sample_.rows.size()), 0, sample_.length, sample_.total()};
    const auto& dims = mask_->dims;
    if (dims.size() > 4) return fmt::format("the mask has rank {}", dims.size());
    for (std::size_t i = 0; i < dims.size(); ++i) {
      const auto axis = 4 - dims.size() + i;
      if (axis != 1 && dims[i] != 1 && dims[i] != want[axis]) return fmt::format("the mask's dimension {} is {}, expected 1 or {}", i, dims[i], want[axis]);
    }
    if (mask_->dtype == ir::DataType::boolean || biases_) return std::nullopt;
    for (const double v : mask_->values)
      if (v != 0 && !(v <= -1e4)) return fmt::format("the mask adds {} to scores", v);
    return std::nullopt;
  }

  bool operator()(std::size_t row, std::int64_t head, std::int64_t query, std::int64_t key) const {
    if (is_causal_ && key > sample_.past + query) return false;
    if (!mask_) return true;
    const std::int64_t at[4] = {static_cast<std::int64_t>(row), head, query, key};
    const auto& dims = mask_->dims;
    std::size_t index = 0;
    for (std::size_t i = 0; i < dims.size(); ++i) {
      const auto axis = 4 - dims.size() + i;
      index = index * static_cast<std::size_t>(dims[i]) + static_cast<std::size_t>(dims[i] == 1 ? 0 : at[axis]);
    }
    const double v = mask_->values[index];
    return mask_->dtype == ir::DataType::boolean ? v != 0 : biases_ ? !(v <= -1e4) : v == 0;
  }

  std::int64_t heads() const { return mask_ && mask_->dims.size() >= 3 ? mask_->dims[mask_->dims.size() - 3] : 1; }

 private:
  const ops::Array* mask_;
  bool is_causal_;
  const Sample& sample_;
  bool biases_;
};

class MaskTrial {
 public:
  explicit MaskTrial(const ir::Node& attention) : MaskTrial(attention, attention.input(3), false) {}
  MaskTrial(const ir::Node& attention, ir::Value* mask, bool biases)
      : mask_(mask), is_causal_(attention.int_attribute("is_causal", 0) != 0), biases_(biases), evaluation_(mask_, attention.input(0), attention.input(4)) {}

  ir::Value* attention_mask() const { return evaluation_.attention_mask(); }
  bool runs(const Sample& sample) { return !mask_ || is_within_tables(evaluation_, sample); }
  std::vector<Sample> with_lengths(std::vector<Sample> samples) { return mask_ ? with_lengths_of(evaluation_, std::move(samples)) : samples; }

  // Calls expected(visible) for each sample that the graph's fixed sizes allow.
  template <class Check>
  std::optional<std::string> each(const std::vector<Sample>& samples, Check&& check) {
    for (const auto& wanted : samples) {
      const auto sample = evaluation_.fitted(wanted);
      if (!sample) continue;
      std::optional<ops::Array> values;
      if (mask_) {
        auto result = evaluation_.run(*sample);
        if (const auto* why = std::get_if<std::string>(&result)) return *why;
        values = std::move(std::get<ops::Array>(result));
      }
      const Visible visible(values ? &*values : nullptr, is_causal_, *sample, biases_);
      if (auto why = visible.problem()) return why;
      if (auto why = check(*sample, visible)) return why;
    }
    return std::nullopt;
  }

 private:
  ir::Value* mask_;
  bool is_causal_;
  bool biases_;
  SampleEvaluation evaluation_;
};

// The window, as far as full rows show it: what the last query of each sees must be the last keys, as many as in all longer rows.
class WindowSearch {
 public:
  std::optional<std::string> operator()(const Sample& sample, const Visible& visible) {
    for (std::size_t row = 0; row < sample.rows.size(); ++row) {
      if (std::ranges::find(sample.rows[row], 0) != sample.rows[row].end()) continue;
      for (std::int64_t query = 0; query < sample.length; ++query) {
        const auto own = sample.past + query;
        std::int64_t seen = 0;
        while (seen <= own && visible(row, 0, query, own - seen)) ++seen;
        if (seen == 0) return fmt::format("{}: query {} does not see itself", show(sample.rows[row]), own);
        if (seen == own + 1) longest_full_ = std::max(longest_full_, seen);
        else if (!window) window = seen;
        else if (*window != seen) return fmt::format("{}: query {} sees {} keys, another one {}", show(sample.rows[row]), own, seen, *window);
      }
    }
    if (window && longest_full_ > *window) return fmt::format("one query sees {} keys, another one all of {}", *window, longest_full_);
    return std::nullopt;
  }
  std::optional<std::int64_t> window;

 private:
  std::int64_t longest_full_ = 0;
};

// Distances may be counted in tokens or in cache slots: right-padded rows that are decoded have gaps, where the two differ, and both are
// in use. Without a window there is no difference.
std::optional<std::string> compare(const Sample& sample, const Visible& visible, std::optional<std::int64_t> window) {
  for (std::size_t row = 0; row < sample.rows.size(); ++row) {
    const auto& tokens = sample.rows[row];
    const auto token = [&](std::int64_t slot) { return tokens[static_cast<std::size_t>(slot)] != 0; };
    for (std::int64_t query = 0; query < sample.length; ++query) {
      const auto own = sample.past + query;
      if (!token(own)) continue;
      std::int64_t tokens_since = 0;  // from key to query, the key included
      for (auto key = sample.total() - 1; key >= 0; --key) {
        if (key <= own) tokens_since += token(key);
        const bool allowed = token(key) && key <= own;
        const bool by_tokens = allowed && (!window || tokens_since <= *window), by_slots = allowed && (!window || own - key < *window);
        for (std::int64_t head = 0; head < visible.heads(); ++head) {
          const bool sees = visible(row, head, query, key);
          if (sees != by_tokens && sees != by_slots) return fmt::format("{}: query {} {} key {}", show(tokens), own, sees ? "sees" : "does not see", key);
        }
      }
    }
  }
  return std::nullopt;
}

}  // namespace

std::variant<CausalMask, std::string> causal_mask(const ir::Node& attention) {
  MaskTrial trial(attention);
  WindowSearch search;
  auto samples = trial.with_lengths(right_padded());
  if (auto why = trial.each(samples, search)) return *why;
  if (search.window) {
    Sample behind{*search.window, 3, {filled(*search.window + 3)}};
    if (trial.runs(behind)) samples.push_back(std::move(behind));
  }
  if (!trial.attention_mask())
    for (auto& s : samples) s.rows = {filled(s.total())};
  if (auto why = trial.each(samples, [&](const Sample& s, const Visible& v) { return compare(s, v, search.window); })) return *why;
  return CausalMask{trial.attention_mask(), search.window};
}

namespace {

// Where(seen, numbers, lowest) shows no more than `seen` does: the numbers need not be known, and may depend on what the tokens are.
ir::Value* outermost_choice(ir::Value* mask) {
  const auto* where = mask ? mask->producer() : nullptr;
  if (!where || !where->is("Where") || where->input(0)->rank() != 4u) return mask;
  const auto* otherwise = where->input(2);
  const auto number = otherwise->data() && otherwise->data()->elements() == 1 ? ir::as_scalar(*otherwise->data()) : std::nullopt;
  return number && *number <= -1e4 ? where->input(0) : mask;
}

std::optional<std::string> looks_ahead_or_nowhere(const Sample& sample, const Visible& visible) {
  for (std::size_t row = 0; row < sample.rows.size(); ++row)
    for (std::int64_t query = 0; query < sample.length; ++query) {
      const auto own = sample.past + query;
      if (!sample.rows[row][static_cast<std::size_t>(own)]) continue;
      for (std::int64_t head = 0; head < visible.heads(); ++head) {
        for (auto key = own + 1; key < sample.total(); ++key)
          if (visible(row, head, query, key)) return fmt::format("{}: query {} sees key {}", show(sample.rows[row]), own, key);
        auto key = own;
        while (key >= 0 && !visible(row, head, query, key)) --key;
        if (key < 0) return fmt::format("{}: query {} sees no key", show(sample.rows[row]), own);
      }
    }
  return std::nullopt;
}

}  // namespace

std::variant<ir::Value*, std::string> mask_without_lookahead(const ir::Node& attention) {
  MaskTrial trial(attention, outermost_choice(attention.input(3)), /*biases=*/true);
  const auto why = trial.each(trial.with_lengths(padded_anywhere()), looks_ahead_or_nowhere);
  if (why) return *why;
  if (!trial.attention_mask()) return "the mask does not tell where padding is";
  return trial.attention_mask();
}

std::optional<std::string> positions_skip(ir::Value* positions, const ir::Node& attention) {
  SampleEvaluation evaluation(positions, attention.input(0), attention.input(4));
  for (const auto& wanted : with_lengths_of(evaluation, right_padded())) {
    const auto sample = evaluation.fitted(wanted);
    if (!sample) continue;
    const auto result = evaluation.run(*sample);
    if (const auto* why = std::get_if<std::string>(&result)) return *why;
    const auto& found = std::get<ops::Array>(result);
    const auto rows = static_cast<std::int64_t>(sample->rows.size());
    if (found.dims != ir::Dims{rows, sample->length}) return "positions are not [batch, new tokens]";
    for (std::size_t row = 0; row < sample->rows.size(); ++row)
      for (std::int64_t query = 0; query < sample->length; ++query) {
        if (!sample->rows[row][static_cast<std::size_t>(sample->past + query)]) continue;
        const auto position = found.values[row * static_cast<std::size_t>(sample->length) + static_cast<std::size_t>(query)];
        const auto want = sample->ordinal(row, sample->past + query);
        if (position != static_cast<double>(want)) return fmt::format("{}: token {} has position {}", show(sample->rows[row]), want, position);
      }
  }
  return std::nullopt;
}

namespace {

// Whether a query sees any key at all; nullopt: not the same for all heads.
std::optional<bool> sees_anything(const Visible& visible, const Sample& sample, std::size_t row, std::int64_t query) {
  std::optional<bool> found;
  for (std::int64_t head = 0; head < visible.heads(); ++head) {
    bool any = false;
    for (std::int64_t key = 0; key < sample.total() && !any; ++key) any = visible(row, head, query, key);
    if (found && *found != any) return std::nullopt;
    found = any;
  }
  return found;
}

}  // namespace

std::optional<std::string> marks_blind_queries(ir::Value* marks, bool by_token, const ir::Node& attention) {
  MaskTrial trial(attention);
  SampleEvaluation evaluation(marks, attention.input(0), attention.input(4));
  bool seen_blind = false;
  auto samples = with_lengths_of(evaluation, trial.with_lengths(with_empty_rows()));
  const auto why = trial.each(samples, [&](const Sample& sample, const Visible& visible) -> std::optional<std::string> {
    const auto result = evaluation.run(sample);
    if (const auto* problem = std::get_if<std::string>(&result)) return *problem;
    const auto& found = std::get<ops::Array>(result);
    const auto rows = static_cast<std::int64_t>(sample.rows.size());
    if (found.dims != (by_token ? ir::Dims{rows, sample.length, 1, 1} : ir::Dims{rows, 1, sample.length, 1})) return "it does not mark queries";
    for (std::size_t row = 0; row < sample.rows.size(); ++row)
      for (std::int64_t query = 0; query < sample.length; ++query) {
        const bool marked = found.values[row * static_cast<std::size_t>(sample.length) + static_cast<std::size_t>(query)] != 0;
        const auto sees = sees_anything(visible, sample, row, query);
        if (!sees || *sees == marked) return fmt::format("{}: query {} is {}marked", show(sample.rows[row]), sample.past + query, marked ? "" : "not ");
        seen_blind |= marked;
      }
    return std::nullopt;
  });
  if (why) return why;
  return seen_blind ? std::nullopt : std::optional<std::string>("no query is marked that sees nothing");
}

namespace {

// Angles on one sample; `row` is that of the batch, or the only one.
class Angles {
 public:
  Angles(const ops::Array& found, const Sample& sample) : found_(found), sample_(sample) {}

  bool fits() const {
    const auto& d = found_.dims;
    return d.size() == 3 && (d[0] == 1 || d[0] == static_cast<std::int64_t>(sample_.rows.size())) && d[1] == sample_.length;
  }
  std::span<const double> operator()(std::size_t row, std::int64_t query) const {
    const auto columns = static_cast<std::size_t>(found_.dims[2]);
    const auto first = (found_.dims[0] == 1 ? 0 : row) * static_cast<std::size_t>(sample_.length) + static_cast<std::size_t>(query);
    return std::span(found_.values).subspan(first * columns, columns);
  }

 private:
  const ops::Array& found_;
  const Sample& sample_;
};

}  // namespace

std::variant<std::vector<double>, std::string> rope_frequencies(ir::Value* angles, const ir::Node& attention) {
  SampleEvaluation evaluation(angles, attention.input(0), attention.input(4));
  std::vector<double> frequencies;
  for (const auto& wanted : with_lengths_of(evaluation, right_padded())) {
    const auto sample = evaluation.fitted(wanted);
    if (!sample) continue;
    const auto result = evaluation.run(*sample);
    if (const auto* why = std::get_if<std::string>(&result)) return *why;
    const Angles found(std::get<ops::Array>(result), *sample);
    if (!found.fits()) return "angles are not [batch, new tokens, columns]";
    for (std::size_t row = 0; row < sample->rows.size(); ++row)
      for (std::int64_t query = 0; query < sample->length; ++query) {
        if (!sample->rows[row][static_cast<std::size_t>(sample->past + query)]) continue;
        const auto number = sample->ordinal(row, sample->past + query);
        const auto of_token = found(row, query);
        if (frequencies.empty() && number == 1) frequencies.assign(of_token.begin(), of_token.end());
        for (std::size_t i = 0; i < of_token.size(); ++i) {
          if (frequencies.empty() ? of_token[i] == 0 && number == 0
                                  : std::abs(of_token[i] - static_cast<double>(number) * frequencies[i]) <= 1e-9 * std::abs(of_token[i]))
            continue;
          return fmt::format("{}: token {} has the angle {} in column {}", show(sample->rows[row]), number, of_token[i], i);
        }
      }
  }
  if (frequencies.empty()) return "the graph's sizes allow no second token";
  return frequencies;
}

}  // namespace mobius::rules
