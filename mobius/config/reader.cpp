// Checked access to config.json.
#include "mobius/config/reader.hpp"

#include <cmath>
#include <limits>

#include "mobius/base/error.hpp"

namespace mobius {

ConfigReader::ConfigReader(Json json, std::string where) : json_(std::move(json)), where_(std::move(where)) {
  if (!json_.is_object()) fail(ErrorKind::invalid_argument, "{}: found {}, expected a JSON object", where_, json_.kind());
}

const Json* ConfigReader::find(std::string_view key) const {
  read_.emplace(key);
  const auto* v = json_.find(key);
  return v && !v->is_null() ? v : nullptr;
}
bool ConfigReader::has(std::string_view key) const { return find(key) != nullptr; }

void ConfigReader::refuse(std::string_view key, std::string_view found, std::string_view expected) const {
  fail(ErrorKind::invalid_argument, "{}: {} is {}, expected {}", where_, key, found, expected);
}
void ConfigReader::unsupported(std::string_view what) const { fail(ErrorKind::unsupported, "{}: {}", where_, what); }

const Json& ConfigReader::required(std::string_view key, const Json* value) const {
  if (!value) fail(ErrorKind::not_found, "{}: {} is missing", where_, key);
  return *value;
}

std::string ConfigReader::model_type() const {
  const auto& v = required("model_type", find("model_type"));
  if (!v.is_string()) refuse("model_type", v.kind(), "a string");
  return v.as_string();
}

std::optional<std::int64_t> ConfigReader::optional_size(std::string_view key) const {
  const auto* v = find(key);
  if (!v) return std::nullopt;
  constexpr auto limit = std::numeric_limits<std::int32_t>::max();
  const bool whole = v->is_number() && v->as_double() == std::floor(v->as_double());
  if (!whole || v->as_double() < 1 || v->as_double() > limit) refuse(key, v->dump(), "a positive integer");
  return static_cast<std::int64_t>(v->as_double());
}

std::optional<std::int64_t> ConfigReader::nullable_size(std::string_view key, std::optional<std::int64_t> otherwise) const {
  return json_.find(key) ? optional_size(key) : otherwise;
}

std::int64_t ConfigReader::size(std::string_view key, std::optional<std::int64_t> otherwise) const {
  if (const auto v = optional_size(key)) return *v;
  if (!otherwise) fail(ErrorKind::not_found, "{}: {} is missing", where_, key);
  return *otherwise;
}

std::int64_t ConfigReader::integer(std::string_view key, std::int64_t otherwise) const {
  const auto* v = find(key);
  if (!v) return otherwise;
  if (!v->is_number() || v->as_double() != std::floor(v->as_double()) || std::abs(v->as_double()) > 1e15) refuse(key, v->dump(), "an integer");
  return static_cast<std::int64_t>(v->as_double());
}

double ConfigReader::number(std::string_view key, double otherwise) const {
  const auto* v = find(key);
  if (!v) return otherwise;
  if (!v->is_number() || !std::isfinite(v->as_double())) refuse(key, v->dump(), "a number");
  return v->as_double();
}

double ConfigReader::positive(std::string_view key, double otherwise) const {
  const auto v = number(key, otherwise);
  if (!(v > 0)) refuse(key, fmt::format("{}", v), "a number above 0");
  return v;
}

std::optional<double> ConfigReader::nullable_positive(std::string_view key, std::optional<double> otherwise) const {
  if (find(key)) return positive(key, 0);
  return json_.find(key) ? std::nullopt : otherwise;
}

bool ConfigReader::boolean(std::string_view key, bool otherwise) const {
  const auto* v = find(key);
  if (!v) return json_.find(key) ? false : otherwise;  // an explicit null counts as false, as it does where models are defined
  if (!v->is_bool()) refuse(key, v->dump(), "true or false");
  return v->as_bool();
}

std::string ConfigReader::text(std::string_view key, std::string_view otherwise) const {
  const auto* v = find(key);
  if (!v) return std::string(otherwise);
  if (!v->is_string()) refuse(key, v->dump(), "a string");
  return v->as_string();
}

std::vector<double> ConfigReader::numbers(std::string_view key) const {
  std::vector<double> out;
  const auto* v = find(key);
  if (!v) return out;
  if (!v->is_array()) refuse(key, v->kind(), "a list of numbers");
  for (const auto& e : v->as_array()) {
    if (!e.is_number() || !std::isfinite(e.as_double())) refuse(key, e.dump(), "a list of numbers");
    out.push_back(e.as_double());
  }
  return out;
}

std::optional<std::vector<std::string>> ConfigReader::texts(std::string_view key) const {
  const auto* v = find(key);
  if (!v) return std::nullopt;
  if (!v->is_array()) refuse(key, v->kind(), "a list of strings");
  std::vector<std::string> out;
  for (const auto& e : v->as_array()) {
    if (!e.is_string()) refuse(key, e.dump(), "a list of strings");
    out.push_back(e.as_string());
  }
  return out;
}

ConfigReader ConfigReader::nested(std::string_view key) const {
  const auto& v = required(key, find(key));
  if (!v.is_object()) refuse(key, v.kind(), "an object");
  return ConfigReader(v, fmt::format("{}: {}", where_, key));
}

void ConfigReader::only(std::string_view key, const Json& value) const {
  const auto* v = find(key);
  const bool same = !v || *v == value || (v->is_number() && value.is_number() && v->as_double() == value.as_double());
  if (!same) fail(ErrorKind::unsupported, "{}: {} = {} is not supported (only {})", where_, key, v->dump(), value.dump());
}

ir::DataType ConfigReader::dtype() const {
  const auto* v = find("dtype");
  const auto* older = find("torch_dtype");
  if (!v) v = older;
  if (!v) return ir::DataType::float32;
  const auto name = v->is_string() ? v->as_string() : v->dump();
  const auto t = ir::data_type_from_user(name);
  using enum ir::DataType;
  if (!t || (*t != float32 && *t != float16 && *t != bfloat16)) refuse("dtype", name, "float32, float16 or bfloat16");
  return *t;
}

std::vector<std::string> ConfigReader::unread_keys() const {
  std::vector<std::string> out;
  for (const auto& [key, value] : json_.as_object())
    if (!read_.contains(key)) out.push_back(key);
  return out;
}

}  // namespace mobius
