// Json on top of nlohmann-json's streaming parser: no recursion on the input, and Python's extensions to JSON.
#include "mobius/base/json.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <unordered_map>

#include "mobius/base/error.hpp"

namespace mobius {
namespace {

constexpr std::size_t max_depth = 512;
constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

// ── reading ──────────────────────────────────────────────────────────────────────────────────────────────────────────────

// Python's bare words, which JSON lacks.
struct BareWord {
  std::string_view text;
  double value;
};
constexpr BareWord bare_words[] = {{"NaN", not_a_number}, {"Infinity", infinity}, {"-Infinity", -infinity}};

// What a first look over the text finds. Bare words are replaced by strings of the same length, so that offsets stay true;
// which of the document's strings they are tells them from real ones.
struct Scan {
  std::optional<std::string> rewritten;
  std::vector<std::pair<std::size_t, double>> words;  // (index among all strings, value)
};

const BareWord* bare_word_at(std::string_view text, std::size_t at) {
  for (const BareWord& word : bare_words) {
    if (text.substr(at, word.text.size()) == word.text) return &word;
  }
  return nullptr;
}

// The index behind the string whose opening quote is at `at`.
std::size_t skip_string(std::string_view text, std::size_t at) {
  for (std::size_t i = at + 1; i < text.size(); ++i) {
    if (text[i] == '\\') ++i;
    else if (text[i] == '"') return i + 1;
  }
  return text.size();
}

Scan scan(std::string_view text) {
  Scan result;
  std::size_t depth = 0;
  std::size_t strings = 0;
  for (std::size_t i = 0; i < text.size();) {
    const char c = text[i];
    if (c == '"') {
      i = skip_string(text, i);
      ++strings;
      continue;
    }
    // The parser takes it for the end of the text.
    if (c == '\0') fail(ErrorKind::corrupt_file, "JSON: at byte {}: found a NUL", i);
    if (c == '[' || c == '{') {
      if (++depth > max_depth) fail(ErrorKind::corrupt_file, "JSON: nested deeper than {} at byte {}", max_depth, i);
    } else if ((c == ']' || c == '}') && depth > 0) {
      --depth;
    } else if (c == 'N' || c == 'I' || c == '-') {
      if (const BareWord* word = bare_word_at(text, i)) {
        if (!result.rewritten) result.rewritten.emplace(text);
        result.rewritten->replace(i, word->text.size(), '"' + std::string(word->text.size() - 2, ' ') + '"');
        result.words.emplace_back(strings++, word->value);
        i += word->text.size();
        continue;
      }
    }
    ++i;
  }
  return result;
}

// {"__float__": "Infinity"}: how Hugging Face writes such numbers where plain JSON is wanted.
std::optional<double> tagged_float(const Json::Object& object) {
  if (object.size() != 1 || object[0].first != "__float__" || !object[0].second.is_string()) return std::nullopt;
  for (const BareWord& word : bare_words) {
    if (word.text == object[0].second.as_string()) return word.value;
  }
  return std::nullopt;
}

// As in Python: a repeated key keeps its first place and takes its last value. Unless that is refused.
void merge_repeated_keys(Json::Object& object, Json::RepeatedKeys keys) {
  std::unordered_map<std::string_view, std::size_t> places;
  places.reserve(object.size());
  std::vector<std::size_t> repeated;
  for (std::size_t i = 0; i < object.size(); ++i) {
    const auto [it, added] = places.emplace(object[i].first, i);
    if (added) continue;
    if (keys == Json::RepeatedKeys::refused) fail(ErrorKind::corrupt_file, "JSON: the key '{}' is given twice", object[i].first);
    object[it->second].second = std::move(object[i].second);
    repeated.push_back(i);
  }
  if (repeated.empty()) return;
  Json::Object kept;
  kept.reserve(object.size() - repeated.size());
  for (std::size_t i = 0, r = 0; i < object.size(); ++i) {
    if (r < repeated.size() && repeated[r] == i) ++r;
    else kept.push_back(std::move(object[i]));
  }
  object = std::move(kept);
}

// "[json.exception.parse_error.101] parse error at line 1, column 2: syntax error ... - what": the last part is for people.
std::string_view reason_of(std::string_view message) {
  const std::size_t at = message.find("syntax error");
  if (at != std::string_view::npos) return message.substr(at);
  const std::size_t bracket = message.find("] ");
  return bracket == std::string_view::npos ? message : message.substr(bracket + 2);
}

// Receives the parser's events and builds the value; open arrays and objects wait on a stack.
class Builder {
 public:
  Builder(const Scan& scan, Json::RepeatedKeys keys) : scan_(scan), keys_(keys) {}

  Json result() { return std::move(root_); }

  bool null() { return add(Json()); }
  bool boolean(bool v) { return add(Json(v)); }
  bool number_integer(std::int64_t v) { return add(Json(v)); }
  bool number_unsigned(std::uint64_t v) { return add(Json(v)); }
  bool number_float(double v, const std::string&) { return add(Json(v)); }
  bool string(std::string& v) {
    if (const auto word = next_bare_word()) return add(Json(*word));
    return add(Json(std::move(v)));
  }
  bool binary(std::vector<std::uint8_t>&) { return false; }

  bool start_object(std::size_t) { return open(false); }
  bool start_array(std::size_t) { return open(true); }
  bool key(std::string& v) {
    if (next_bare_word()) fail(ErrorKind::corrupt_file, "JSON: found NaN or Infinity where a key was expected");
    open_.back().key = std::move(v);
    return true;
  }
  bool end_object() {
    Json::Object object = std::move(open_.back().object);
    open_.pop_back();
    if (const auto number = tagged_float(object)) return add(Json(*number));
    merge_repeated_keys(object, keys_);
    return add(Json(std::move(object)));
  }
  bool end_array() {
    Json::Array array = std::move(open_.back().array);
    open_.pop_back();
    return add(Json(std::move(array)));
  }

  bool parse_error(std::size_t position, const std::string&, const nlohmann::json::exception& e) {
    fail(ErrorKind::corrupt_file, "JSON: at byte {}: {}", position == 0 ? 0 : position - 1, reason_of(e.what()));
  }

 private:
  struct Open {
    bool is_array;
    std::string key;
    Json::Array array;
    Json::Object object;
  };

  bool open(bool is_array) {
    open_.push_back({is_array, {}, {}, {}});
    return true;
  }

  bool add(Json value) {
    if (open_.empty()) root_ = std::move(value);
    else if (open_.back().is_array) open_.back().array.push_back(std::move(value));
    else open_.back().object.emplace_back(std::move(open_.back().key), std::move(value));
    return true;
  }

  std::optional<double> next_bare_word() {
    const std::size_t index = strings_++;
    if (words_ == scan_.words.size() || scan_.words[words_].first != index) return std::nullopt;
    return scan_.words[words_++].second;
  }

  const Scan& scan_;
  Json::RepeatedKeys keys_;
  std::size_t strings_ = 0;
  std::size_t words_ = 0;
  std::vector<Open> open_;
  Json root_;
};

// ── writing ──────────────────────────────────────────────────────────────────────────────────────────────────────────────

// Length of the UTF-8 sequence at the start of `text`, 0 when it is not one (overlong forms and surrogates are not).
std::size_t utf8_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const auto follows = [&](std::size_t i, unsigned low = 0x80, unsigned high = 0xBF) { return i < text.size() && byte(i) >= low && byte(i) <= high; };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first <= 0xDF) return follows(1) ? 2 : 0;
  if (first >= 0xE0 && first <= 0xEF) return follows(1, first == 0xE0 ? 0xA0 : 0x80, first == 0xED ? 0x9F : 0xBF) && follows(2) ? 3 : 0;
  if (first >= 0xF0 && first <= 0xF4) {
    return follows(1, first == 0xF0 ? 0x90 : 0x80, first == 0xF4 ? 0x8F : 0xBF) && follows(2) && follows(3) ? 4 : 0;
  }
  return 0;
}

void dump_string(std::string_view text, std::string& out) {
  out += '"';
  for (std::size_t i = 0; i < text.size();) {
    const char c = text[i];
    const std::size_t length = utf8_length(text.substr(i));
    if (length == 0) out += "\xEF\xBF\xBD";  // U+FFFD
    else if (c == '"') out += "\\\"";
    else if (c == '\\') out += "\\\\";
    else if (c == '\n') out += "\\n";
    else if (c == '\r') out += "\\r";
    else if (c == '\t') out += "\\t";
    else if (c == '\b') out += "\\b";
    else if (c == '\f') out += "\\f";
    else if (static_cast<unsigned char>(c) < 0x20) out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    else out.append(text, i, length);
    i += std::max<std::size_t>(length, 1);
  }
  out += '"';
}

void dump_double(double v, std::string& out) {
  if (std::isnan(v)) {
    out += "NaN";
  } else if (std::isinf(v)) {
    out += v < 0 ? "-Infinity" : "Infinity";
  } else {
    const std::string text = fmt::format("{}", v);  // the shortest text that reads back equal
    out += text;
    if (text.find_first_of(".e") == std::string::npos) out += ".0";  // stays a float when read
  }
}

class Dumper {
 public:
  Dumper(int indent, std::string& out) : indent_(indent), out_(out) {}

  void dump(const Json& value) {
    if (value.is_null()) out_ += "null";
    else if (value.is_bool()) out_ += value.as_bool() ? "true" : "false";
    else if (value.is_int()) out_ += fmt::format("{}", value.as_int());
    else if (value.is_number()) dump_double(value.as_double(), out_);
    else if (value.is_string()) dump_string(value.as_string(), out_);
    else if (value.is_array()) dump_items(value.as_array(), '[', ']', [&](const Json& item) { dump(item); });
    else dump_items(value.as_object(), '{', '}', [&](const Json::Object::value_type& item) { dump_member(item); });
  }

 private:
  void dump_member(const Json::Object::value_type& member) {
    dump_string(member.first, out_);
    out_ += ": ";
    dump(member.second);
  }

  template <class Items, class Each>
  void dump_items(const Items& items, char open, char close, Each each) {
    out_ += open;
    ++depth_;
    bool first = true;
    for (const auto& item : items) {
      if (!first) out_ += indent_ < 0 ? ", " : ",";
      first = false;
      break_line();
      each(item);
    }
    --depth_;
    if (!items.empty()) break_line();
    out_ += close;
  }

  void break_line() {
    if (indent_ < 0) return;
    out_ += '\n';
    out_.append(static_cast<std::size_t>(indent_) * depth_, ' ');
  }

  int indent_;
  std::string& out_;
  std::size_t depth_ = 0;
};

[[noreturn]] void fail_kind(const Json& found, std::string_view expected) {
  std::string text = found.is_array() || found.is_object() ? std::string() : found.dump();
  if (text.size() > 60) text = text.substr(0, 60) + "...";
  fail(ErrorKind::invalid_argument, "found {}{}{}, expected {}", found.kind(), text.empty() ? "" : " ", text, expected);
}

}  // namespace

// Integers beyond int64 lose their exactness rather than their sign.
Json::Json(std::uint64_t v) {
  if (v <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) value_ = static_cast<std::int64_t>(v);
  else value_ = static_cast<double>(v);
}

Json Json::parse(std::string_view text, RepeatedKeys keys) {
  const Scan found = scan(text);
  const std::string_view input = found.rewritten ? std::string_view(*found.rewritten) : text;
  Builder builder(found, keys);
  nlohmann::json::sax_parse(input.begin(), input.end(), &builder);
  return builder.result();
}

std::string_view Json::kind() const {
  static constexpr std::string_view names[] = {"null", "boolean", "integer", "number", "string", "array", "object"};
  return names[value_.index()];
}

bool Json::as_bool() const {
  if (const auto* v = std::get_if<bool>(&value_)) return *v;
  fail_kind(*this, "a boolean");
}

std::int64_t Json::as_int() const {
  if (const auto* v = std::get_if<std::int64_t>(&value_)) return *v;
  if (const auto* v = std::get_if<double>(&value_); v && std::trunc(*v) == *v && *v >= -0x1p63 && *v < 0x1p63) return static_cast<std::int64_t>(*v);
  fail_kind(*this, "an integer");
}

double Json::as_double() const {
  if (const auto* v = std::get_if<double>(&value_)) return *v;
  if (const auto* v = std::get_if<std::int64_t>(&value_)) return static_cast<double>(*v);
  fail_kind(*this, "a number");
}

const std::string& Json::as_string() const {
  if (const auto* v = std::get_if<std::string>(&value_)) return *v;
  fail_kind(*this, "a string");
}

const Json::Array& Json::as_array() const {
  if (const auto* v = std::get_if<Array>(&value_)) return *v;
  fail_kind(*this, "an array");
}

const Json::Object& Json::as_object() const {
  if (const auto* v = std::get_if<Object>(&value_)) return *v;
  fail_kind(*this, "an object");
}

const Json* Json::find(std::string_view key) const {
  const auto* object = std::get_if<Object>(&value_);
  if (!object) return nullptr;
  const auto it = std::find_if(object->begin(), object->end(), [&](const auto& member) { return member.first == key; });
  return it == object->end() ? nullptr : &it->second;
}

const Json& Json::at(std::string_view key) const {
  if (const Json* value = find(key)) return *value;
  if (!is_object()) fail(ErrorKind::not_found, "no key '{}': found {}, expected an object", key, kind());
  std::string keys;
  for (const auto& [name, value] : as_object()) {
    if (keys.size() > 200) {
      keys += ", ...";
      break;
    }
    keys += (keys.empty() ? "" : ", ") + name;
  }
  fail(ErrorKind::not_found, "no key '{}'; there are: {}", key, keys.empty() ? "none" : keys);
}

void Json::set(std::string_view key, Json value) {
  if (is_null()) value_ = Object();
  if (!is_object()) fail_kind(*this, "an object");
  auto& object = std::get<Object>(value_);
  const auto it = std::find_if(object.begin(), object.end(), [&](const auto& member) { return member.first == key; });
  if (it != object.end()) it->second = std::move(value);
  else object.emplace_back(key, std::move(value));
}

void Json::erase(std::string_view key) {
  if (auto* object = std::get_if<Object>(&value_)) std::erase_if(*object, [&](const auto& member) { return member.first == key; });
}

void Json::push_back(Json value) {
  if (is_null()) value_ = Array();
  if (!is_array()) fail_kind(*this, "an array");
  std::get<Array>(value_).push_back(std::move(value));
}

std::string Json::dump(int indent) const {
  std::string out;
  Dumper(indent, out).dump(*this);
  return out;
}

}  // namespace mobius
