// TextCursor: the tokens of ONNX's textual syntax, read from a string; errors carry line and column.
#pragma once
#include <fmt/core.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "mobius/base/error.hpp"

namespace mobius::ir {

// Words of the syntax, as onnx.parser reads them: [A-Za-z_][A-Za-z0-9_]*.
bool is_text_identifier(std::string_view text);
bool is_text_type_name(std::string_view text);  // "float", "int64", ..., "seq", "optional", ...

struct Literal {
  enum class Kind { integer, real, string };
  Kind kind;
  std::string text;  // digits as written, or the string without quotes and escapes
  std::size_t at;    // where it starts
};

class TextCursor {
 public:
  explicit TextCursor(std::string_view text) : text_(text) {}

  // White space and # comments are skipped before anything below.
  char peek();  // '\0' at the end
  bool at_end();
  bool accept(char c);
  void expect(char c, std::string_view what);  // `what` completes "expected ',' or ... "
  bool accept_arrow();                         // =>
  std::string peek_identifier();               // "" when there is none
  std::string identifier(std::string_view what);
  std::string quotable(std::string_view what);  // an identifier, or any string in quotes
  bool next_is_quotable() { return peek() == '"' || !peek_identifier().empty(); }
  bool next_is_float_word();  // nan, inf, infinity in any case
  bool next_is_type() { return is_text_type_name(peek_identifier()); }

  Literal literal(std::string_view what);
  std::string quoted(std::string_view what);
  std::int64_t integer(std::string_view what);

  // The number a literal stands for; values outside the type are errors at the literal's place.
  std::int64_t as_int64(const Literal& literal) const;
  std::uint64_t as_uint64(const Literal& literal) const;
  float as_float(const Literal& literal) const;
  double as_double(const Literal& literal) const;

  std::size_t position();  // of the next token
  void seek(std::size_t position) { position_ = position; }
  std::string place(std::size_t position) const;  // "line 3, column 14"
  std::string found();                            // describes the next token for messages

  template <class... Args>
  [[noreturn]] void fail_at(std::size_t position, fmt::format_string<Args...> format, Args&&... args) const {
    fail(ErrorKind::corrupt_file, "{}: {}", place(position), fmt::vformat(format, fmt::make_format_args(args...)));
  }
  template <class... Args>
  [[noreturn]] void fail_here(fmt::format_string<Args...> format, Args&&... args) {
    fail(ErrorKind::corrupt_file, "{}: {}", place(position()), fmt::vformat(format, fmt::make_format_args(args...)));
  }

 private:
  void skip_space();
  std::size_t end_of_identifier(std::size_t from) const;
  std::string scan_string();
  Literal scan_number(std::size_t from);
  long double as_small_real(const Literal& literal, std::string_view type) const;

  std::string_view text_;
  std::size_t position_ = 0;
};

}  // namespace mobius::ir
