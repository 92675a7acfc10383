// Symbolic dimensions as sums of products, kept in one canonical order so that equality is comparison.
#include "mobius/ir/shape.hpp"

#include <algorithm>
#include <charconv>
#include <limits>

namespace mobius::ir {
namespace {

// Highest degree first, then by name; the constant comes last: "batch*sequence_len + past + 1".
bool before(const Dim::Term& a, const Dim::Term& b) {
  if (a.symbols.empty() != b.symbols.empty()) return b.symbols.empty();
  return a.symbols < b.symbols;
}

// Nothing when a coefficient does not fit.
std::optional<Dim::Sum> normalised(Dim::Sum sum) {
  std::ranges::sort(sum, before);
  Dim::Sum out;
  for (auto& term : sum) {
    if (out.empty() || out.back().symbols != term.symbols) out.push_back(std::move(term));
    else if (__builtin_add_overflow(out.back().coefficient, term.coefficient, &out.back().coefficient)) return std::nullopt;
  }
  std::erase_if(out, [](const Dim::Term& t) { return t.coefficient == 0; });
  return out;
}

bool is_name_start(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

// sum := ['-'] product (('+' | '-') product)* ; product := factor ('*' factor)* ; factor := name | number
struct SumParser {
  std::string_view text;
  std::size_t at = 0;

  void skip_spaces() {
    while (at < text.size() && text[at] == ' ') ++at;
  }
  bool accept(char c) {
    skip_spaces();
    if (at >= text.size() || text[at] != c) return false;
    ++at;
    return true;
  }
  bool factor(Dim::Term& term) {
    skip_spaces();
    const auto start = at;
    if (at < text.size() && is_name_start(text[at])) {
      while (at < text.size() && (is_name_start(text[at]) || is_digit(text[at]) || text[at] == '.')) ++at;
      term.symbols.emplace_back(text.substr(start, at - start));
      return true;
    }
    while (at < text.size() && is_digit(text[at])) ++at;
    std::int64_t number = 0;
    if (at == start || std::from_chars(text.data() + start, text.data() + at, number).ec != std::errc()) return false;
    return !__builtin_mul_overflow(term.coefficient, number, &term.coefficient);
  }
  std::optional<Dim::Sum> parse() {
    Dim::Sum sum;
    std::int64_t sign = accept('-') ? -1 : 1;
    while (true) {
      Dim::Term term{{}, sign};
      do {
        if (!factor(term)) return std::nullopt;
      } while (accept('*'));
      std::ranges::sort(term.symbols);
      sum.push_back(std::move(term));
      if (accept('+')) sign = 1;
      else if (accept('-')) sign = -1;
      else break;
    }
    skip_spaces();
    return at == text.size() ? std::optional(std::move(sum)) : std::nullopt;
  }
};

}  // namespace

Dim Dim::from(Sum sum) {
  auto terms = normalised(std::move(sum));
  if (!terms) return {};
  if (terms->empty()) return Dim(0);
  if (terms->size() == 1 && terms->front().symbols.empty()) return Dim(terms->front().coefficient);
  Dim d;
  d.sum_ = std::make_shared<const Sum>(std::move(*terms));
  return d;
}

Dim::Sum Dim::terms() const { return sum_ ? *sum_ : Sum{{{}, n_}}; }

Dim Dim::symbol(std::string_view name) {
  Dim d;
  d.sum_ = std::make_shared<const Sum>(Sum{{{std::string(name)}, 1}});
  return d;
}

Dim Dim::parse(std::string_view text) {
  if (text.empty()) return {};
  if (auto sum = SumParser{text}.parse()) return from(std::move(*sum));
  return symbol(text);
}

std::string Dim::to_string() const {
  if (known_) return std::to_string(n_);
  if (!sum_) return {};
  std::string out;
  for (const auto& [symbols, coefficient] : *sum_) {
    const bool negative = coefficient < 0;
    if (!out.empty()) out += negative ? " - " : " + ";
    else if (negative) out += "-";
    const auto magnitude = negative ? -coefficient : coefficient;
    if (magnitude != 1 || symbols.empty()) out += std::to_string(magnitude) + (symbols.empty() ? "" : "*");
    for (std::size_t i = 0; i < symbols.size(); ++i) out += (i ? "*" : "") + symbols[i];
  }
  return out;
}

Dim operator+(const Dim& a, const Dim& b) {
  if (a.is_unknown() || b.is_unknown()) return {};
  if (std::int64_t n = 0; a.known_ && b.known_) return __builtin_add_overflow(a.n_, b.n_, &n) ? Dim() : Dim(n);
  auto sum = a.terms();
  for (auto& t : b.terms()) sum.push_back(t);
  return Dim::from(std::move(sum));
}

Dim operator*(const Dim& a, const Dim& b) {
  if (a.is_unknown() || b.is_unknown()) return {};
  if (std::int64_t n = 0; a.known_ && b.known_) return __builtin_mul_overflow(a.n_, b.n_, &n) ? Dim() : Dim(n);
  Dim::Sum sum;
  for (const auto& x : a.terms())
    for (const auto& y : b.terms()) {
      Dim::Term t{x.symbols, 0};
      if (__builtin_mul_overflow(x.coefficient, y.coefficient, &t.coefficient)) return {};
      t.symbols.insert(t.symbols.end(), y.symbols.begin(), y.symbols.end());
      std::ranges::sort(t.symbols);
      sum.push_back(std::move(t));
    }
  return Dim::from(std::move(sum));
}

Dim operator-(const Dim& a, const Dim& b) { return a + b * Dim(-1); }

std::optional<Dim> Dim::divided_by(const Dim& b) const {
  if (is_unknown() || b.is_unknown()) return std::nullopt;
  if (*this == b) return Dim(1);
  const auto divisor = b.terms();
  if (divisor.size() != 1 || divisor[0].coefficient == 0) return std::nullopt;
  Sum out;
  for (auto term : terms()) {
    if (divisor[0].coefficient == -1 && term.coefficient == std::numeric_limits<std::int64_t>::min()) return std::nullopt;  // it has no opposite
    if (term.coefficient % divisor[0].coefficient != 0) return std::nullopt;
    term.coefficient /= divisor[0].coefficient;
    for (const auto& s : divisor[0].symbols) {
      const auto it = std::ranges::find(term.symbols, s);
      if (it == term.symbols.end()) return std::nullopt;
      term.symbols.erase(it);
    }
    out.push_back(std::move(term));
  }
  return from(std::move(out));
}

bool Dim::operator==(const Dim& other) const {
  if (known_ || other.known_) return known_ && other.known_ && n_ == other.n_;
  return sum_ && other.sum_ && (sum_ == other.sum_ || *sum_ == *other.sum_);
}

std::string to_string(const Shape& shape) {
  std::string out = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) out += (i ? ", " : "") + (shape[i].is_unknown() ? "?" : shape[i].to_string());
  return out + "]";
}

std::optional<std::vector<std::int64_t>> static_shape(const Shape& shape) {
  std::vector<std::int64_t> out;
  for (const auto& d : shape) {
    if (!d.is_static()) return std::nullopt;
    out.push_back(d.value());
  }
  return out;
}

std::optional<std::int64_t> element_count(const Shape& shape) {
  std::int64_t n = 1;
  for (const auto& d : shape) {
    if (!d.is_static() || __builtin_mul_overflow(n, d.value(), &n)) return std::nullopt;
  }
  return n;
}

Dim smaller_of(std::int64_t n, const Dim& d) { return Dim::symbol("Min(" + std::to_string(n) + ", " + d.to_string() + ")"); }

namespace {

// "Min(96, d)", with 1 or more in place of 96.
bool is_smaller_of_number_and(const Dim& d, const Dim& min) {
  if (!min.is_symbolic() || min.sum()->size() != 1 || min.sum()->front().symbols.size() != 1 || min.sum()->front().coefficient != 1) return false;
  std::string_view text = min.sum()->front().symbols.front();
  if (!text.starts_with("Min(") || !text.ends_with(')')) return false;
  text = text.substr(4, text.size() - 5);
  const auto comma = text.find(", ");
  if (comma == std::string_view::npos || text.substr(comma + 2) != d.to_string()) return false;
  std::int64_t n = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + comma, n);
  return parsed.ec == std::errc() && parsed.ptr == text.data() + comma && n >= 1;
}

}  // namespace

std::optional<Shape> broadcast(const Shape& a, const Shape& b) {
  const auto rank = std::max(a.size(), b.size());
  Shape out(rank);
  for (std::size_t i = 0; i < rank; ++i) {
    const Dim x = i < a.size() ? a[a.size() - 1 - i] : Dim(1), y = i < b.size() ? b[b.size() - 1 - i] : Dim(1);
    auto& d = out[rank - 1 - i];
    if (x == y || y == Dim(1)) d = x;
    else if (x == Dim(1)) d = y;
    else if (x.is_static() && y.is_static()) return std::nullopt;
    else if (x.is_static()) d = x;  // a number above 1 decides; the other must be it, or 1
    else if (y.is_static()) d = y;
    // It is the symbol where that is 1; else the two are equal, or can't be broadcast.
    else if (is_smaller_of_number_and(x, y)) d = x;
    else if (is_smaller_of_number_and(y, x)) d = y;
  }
  return out;
}

}  // namespace mobius::ir
