// Json: a parsed JSON document as a plain value. Keys keep their order, so that what is read can be written back.
//
//   Json config = Json::parse(read_text_file("config.json"));
//   auto hidden = config.at("hidden_size").as_int();              // Error says what was found and expected
//   if (const Json* s = config.find("sliding_window"); s && !s->is_null()) ...
//
// Numbers: integers that fit int64 stay exact; everything else is double. Python's NaN and Infinity are accepted, also as
// Hugging Face writes them: {"__float__": "Infinity"}. A repeated key keeps its first place and takes its last value, as in Python; files of
// our own may not have any: Json::parse(text, Json::RepeatedKeys::refused).
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace mobius {

class Json {
 public:
  using Array = std::vector<Json>;
  using Object = std::vector<std::pair<std::string, Json>>;

  Json() = default;
  Json(std::nullptr_t) {}
  Json(bool v) : value_(v) {}
  Json(int v) : value_(std::int64_t{v}) {}
  Json(std::int64_t v) : value_(v) {}
  Json(std::uint64_t v);
  Json(double v) : value_(v) {}
  Json(const char* v) : value_(std::string(v)) {}
  Json(std::string v) : value_(std::move(v)) {}
  Json(std::string_view v) : value_(std::string(v)) {}
  Json(Array v) : value_(std::move(v)) {}
  Json(Object v) : value_(std::move(v)) {}

  enum class RepeatedKeys { last_counts, refused };
  // Errors: corrupt_file with the byte offset and what was expected, or the repeated key; nesting deeper than 512 is refused.
  static Json parse(std::string_view text, RepeatedKeys keys = RepeatedKeys::last_counts);

  bool is_null() const { return std::holds_alternative<std::monostate>(value_); }
  bool is_bool() const { return std::holds_alternative<bool>(value_); }
  bool is_int() const { return std::holds_alternative<std::int64_t>(value_); }
  bool is_number() const { return is_int() || std::holds_alternative<double>(value_); }
  bool is_string() const { return std::holds_alternative<std::string>(value_); }
  bool is_array() const { return std::holds_alternative<Array>(value_); }
  bool is_object() const { return std::holds_alternative<Object>(value_); }
  std::string_view kind() const;  // "null", "boolean", "integer", "number", "string", "array", "object"

  // Each fails with invalid_argument when the value is of another kind. as_int takes 4.0 for 4.
  bool as_bool() const;
  std::int64_t as_int() const;
  double as_double() const;
  const std::string& as_string() const;
  const Array& as_array() const;
  const Object& as_object() const;

  const Json* find(std::string_view key) const;  // nullptr when absent, or when this is not an object
  const Json& at(std::string_view key) const;    // Error not_found when absent
  void set(std::string_view key, Json value);    // replaces, or appends; makes a null an object
  void erase(std::string_view key);
  void push_back(Json value);  // makes a null an array

  // As Python's json.dumps(indent=..., ensure_ascii=False); indent < 0: one line. Non-ASCII text stays as it is (UTF-8); invalid UTF-8 is replaced.
  std::string dump(int indent = -1) const;

  bool operator==(const Json&) const = default;

 private:
  std::variant<std::monostate, bool, std::int64_t, double, std::string, Array, Object> value_;
};

}  // namespace mobius
