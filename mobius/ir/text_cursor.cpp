// TextCursor: the tokens of ONNX's textual syntax.
#include "mobius/ir/text_cursor.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <system_error>

#include "mobius/ir/data_type.hpp"

namespace mobius::ir {

namespace {

bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool starts_word(char c) { return is_letter(c) || c == '_'; }

template <class T>
std::errc convert(std::string_view digits, T& out) {
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), out);
  if (error == std::errc() && end != digits.data() + digits.size()) return std::errc::invalid_argument;
  return error;
}

}  // namespace

bool is_text_identifier(std::string_view text) {
  return !text.empty() && starts_word(text.front()) && std::all_of(text.begin(), text.end(), [](char c) { return starts_word(c) || is_digit(c); });
}

bool is_text_type_name(std::string_view text) {
  return text == "seq" || text == "map" || text == "optional" || text == "sparse_tensor" || text == "opaque" || data_type_from_text(text).has_value();
}

void TextCursor::skip_space() {
  while (position_ < text_.size()) {
    if (is_space(text_[position_])) {
      ++position_;
    } else if (text_[position_] == '#') {
      position_ = std::min(text_.find('\n', position_), text_.size());
    } else {
      return;
    }
  }
}

std::size_t TextCursor::position() {
  skip_space();
  return position_;
}

char TextCursor::peek() {
  skip_space();
  return position_ < text_.size() ? text_[position_] : '\0';
}

bool TextCursor::at_end() {
  skip_space();
  return position_ >= text_.size();
}

bool TextCursor::accept(char c) {
  if (at_end() || text_[position_] != c) return false;
  ++position_;
  return true;
}

void TextCursor::expect(char c, std::string_view what) {
  if (!accept(c)) fail_here("expected '{}' {}, found {}", c, what, found());
}

bool TextCursor::accept_arrow() {
  skip_space();
  if (!text_.substr(position_).starts_with("=>")) return false;
  position_ += 2;
  return true;
}

std::size_t TextCursor::end_of_identifier(std::size_t from) const {
  if (from >= text_.size() || !starts_word(text_[from])) return from;
  while (from < text_.size() && (starts_word(text_[from]) || is_digit(text_[from]))) ++from;
  return from;
}

std::string TextCursor::peek_identifier() {
  skip_space();
  return std::string(text_.substr(position_, end_of_identifier(position_) - position_));
}

std::string TextCursor::identifier(std::string_view what) {
  std::string word = peek_identifier();
  if (word.empty()) fail_here("expected {}, found {}", what, found());
  position_ += word.size();
  return word;
}

std::string TextCursor::quotable(std::string_view what) {
  if (peek() == '"') return scan_string();
  return identifier(what);
}

bool TextCursor::next_is_float_word() {
  std::string word = peek_identifier();
  std::transform(word.begin(), word.end(), word.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  return word == "nan" || word == "inf" || word == "infinity";
}

std::string TextCursor::scan_string() {
  const std::size_t from = position();
  std::string value;
  for (++position_; position_ < text_.size(); ++position_) {
    char c = text_[position_];
    if (c == '"') {
      ++position_;
      return value;
    }
    if (c == '\\') {
      if (++position_ == text_.size()) break;
      c = text_[position_];
    }
    value.push_back(c);
  }
  fail_at(from, "this string has no closing quote");
}

Literal TextCursor::scan_number(std::size_t from) {
  bool real = false;
  while (position_ < text_.size() && (is_digit(text_[position_]) || (text_[position_] == '.' && !real))) {
    real = real || text_[position_] == '.';
    ++position_;
  }
  if (position_ < text_.size() && (text_[position_] == 'e' || text_[position_] == 'E')) {
    real = true;
    ++position_;
    if (position_ < text_.size() && (text_[position_] == '+' || text_[position_] == '-')) ++position_;
    while (position_ < text_.size() && is_digit(text_[position_])) ++position_;
  }
  return {real ? Literal::Kind::real : Literal::Kind::integer, std::string(text_.substr(from, position_ - from)), from};
}

Literal TextCursor::literal(std::string_view what) {
  const std::size_t from = position();
  if (peek() == '"') return {Literal::Kind::string, scan_string(), from};
  if (peek() == '-') ++position_;
  if (position_ < text_.size() && is_digit(text_[position_])) return scan_number(from);
  if (position_ < text_.size() && is_letter(text_[position_]) && next_is_float_word()) {
    position_ = end_of_identifier(position_);
    return {Literal::Kind::real, std::string(text_.substr(from, position_ - from)), from};
  }
  position_ = from;
  fail_here("expected {}, found {}", what, found());
}

std::string TextCursor::quoted(std::string_view what) {
  if (peek() != '"') fail_here("expected {} in quotes, found {}", what, found());
  return scan_string();
}

std::int64_t TextCursor::integer(std::string_view what) {
  const Literal number = literal(what);
  if (number.kind != Literal::Kind::integer) fail_at(number.at, "expected {}, found \"{}\"", what, number.text);
  return as_int64(number);
}

std::int64_t TextCursor::as_int64(const Literal& literal) const {
  std::int64_t value = 0;
  if (literal.kind != Literal::Kind::integer) fail_at(literal.at, "expected an integer, found \"{}\"", literal.text);
  if (convert(literal.text, value) != std::errc()) fail_at(literal.at, "{} is outside the range of int64", literal.text);
  return value;
}

std::uint64_t TextCursor::as_uint64(const Literal& literal) const {
  std::uint64_t value = 0;
  if (literal.kind != Literal::Kind::integer) fail_at(literal.at, "expected an integer, found \"{}\"", literal.text);
  if (convert(literal.text, value) != std::errc()) fail_at(literal.at, "{} is outside the range of uint64", literal.text);
  return value;
}

float TextCursor::as_float(const Literal& literal) const {
  float value = 0;
  if (convert(literal.text, value) == std::errc() && literal.kind != Literal::Kind::string) return value;
  return static_cast<float>(as_small_real(literal, "float"));
}

double TextCursor::as_double(const Literal& literal) const {
  double value = 0;
  if (convert(literal.text, value) == std::errc() && literal.kind != Literal::Kind::string) return value;
  return static_cast<double>(as_small_real(literal, "double"));
}

// For what the type cannot hold: a number too near to zero is rounded, one too large is an error.
long double TextCursor::as_small_real(const Literal& literal, std::string_view type) const {
  long double value = 0;
  if (literal.kind == Literal::Kind::string) fail_at(literal.at, "expected a number, found \"{}\"", literal.text);
  const std::errc error = convert(literal.text, value);
  if (error == std::errc::invalid_argument) fail_at(literal.at, "\"{}\" is not a number", literal.text);
  if (error != std::errc() || std::abs(value) >= 1) fail_at(literal.at, "{} is outside the range of {}", literal.text, type);
  return value;
}

std::string TextCursor::place(std::size_t position) const {
  const std::string_view before = text_.substr(0, position);
  const std::size_t line = 1 + static_cast<std::size_t>(std::count(before.begin(), before.end(), '\n'));
  const std::size_t start = before.rfind('\n') == std::string_view::npos ? 0 : before.rfind('\n') + 1;
  return fmt::format("line {}, column {}", line, position - start + 1);
}

std::string TextCursor::found() {
  if (at_end()) return "the end of the text";
  if (const std::string word = peek_identifier(); !word.empty()) return fmt::format("\"{}\"", word.substr(0, 60));
  const char c = text_[position_];
  return c >= ' ' && c <= '~' ? fmt::format("'{}'", c) : fmt::format("byte {:#04x}", static_cast<unsigned char>(c));
}

}  // namespace mobius::ir
