// Symbolic shapes. A dimension is a number, a sum of products of named symbols, or unknown.
//
//   Dim past = Dim::symbol("past_sequence_len"), seq = Dim::symbol("sequence_len");
//   Dim total = past + seq;                       // prints as "past_sequence_len + sequence_len"
//   total - past == seq;                          // true
//   (seq * 64).divided_by(16) == seq * 4;         // exact division, else nullopt
//   Dim() == Dim();                               // false: an unknown dimension equals nothing
#pragma once
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mobius::ir {

class Dim {
 public:
  Dim() = default;  // unknown
  Dim(std::int64_t n) : n_(n), known_(true) {}
  Dim(int n) : Dim(std::int64_t{n}) {}
  Dim(const char* symbol_or_expression) : Dim(parse(symbol_or_expression)) {}
  static Dim symbol(std::string_view name);
  // Reads what to_string writes; anything else non-empty becomes one symbol with that whole text as its name.
  static Dim parse(std::string_view text);

  bool is_unknown() const { return !known_ && !sum_; }
  bool is_static() const { return known_; }
  bool is_symbolic() const { return sum_ != nullptr; }
  std::int64_t value() const { return n_; }  // of a static dimension
  std::optional<std::int64_t> as_static() const { return known_ ? std::optional(n_) : std::nullopt; }
  std::string to_string() const;  // "" when unknown

  friend Dim operator+(const Dim& a, const Dim& b);
  friend Dim operator-(const Dim& a, const Dim& b);
  friend Dim operator*(const Dim& a, const Dim& b);
  std::optional<Dim> divided_by(const Dim& b) const;  // exact, for all values of the symbols; nullopt otherwise
  bool operator==(const Dim& other) const;

  // A sum of coefficient · product(symbols), sorted, without zero terms; never just a constant.
  struct Term {
    std::vector<std::string> symbols;  // sorted; empty for the constant term
    std::int64_t coefficient;
    bool operator==(const Term&) const = default;
  };
  using Sum = std::vector<Term>;
  const Sum* sum() const { return sum_.get(); }

 private:
  static Dim from(Sum sum);
  Sum terms() const;

  std::int64_t n_ = 0;
  bool known_ = false;
  std::shared_ptr<const Sum> sum_;
};

using Shape = std::vector<Dim>;

std::string to_string(const Shape& shape);  // "[batch, sequence_len, 64]", "?" for unknown
std::optional<std::vector<std::int64_t>> static_shape(const Shape& shape);
std::optional<std::int64_t> element_count(const Shape& shape);  // nullopt unless static
// The smaller of a number and a symbolic dimension, as a symbol of its own: "Min(96, sequence_len)", as PyTorch's exporter names it.
Dim smaller_of(std::int64_t n, const Dim& d);
// The numpy broadcast of two shapes; nullopt when they can't be broadcast. A symbol against 1 gives the symbol;
// two different symbols give an unknown dimension, but for a symbol against the smaller of it and a number.
std::optional<Shape> broadcast(const Shape& a, const Shape& b);

}  // namespace mobius::ir
