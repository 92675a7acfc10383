// Checked access to config.json.
#include "mobius/config/reader.hpp"

#include <cmath>

#include "mobius/base/error.hpp"

namespace mobius {

ConfigReader::ConfigReader(Json json, std::string where)
    : json_(std::move(json)), where_(std::move(where)), read_(std::make_shared<std::set<std::string, std::less<>>>()) {
  if (!json_.is_object()) fail(ErrorKind::invalid_argument, "{}: found {}, expected a JSON object", where_, json_.kind());
}

const Json* ConfigReader::find(std::string_view key) const {
  read_->emplace(key);
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

const Json* ConfigReader::given(std::string_view key, std::string_view expected) const {
  const auto* v = find(key);
  if (!v && json_.find(key)) refuse(key, "null", expected);
  return v;
}

std::int64_t ConfigReader::whole(std::string_view key, const Json& v, std::int64_t least, std::string_view expected) const {
  if (!v.is_number() || !(v.as_double() >= static_cast<double>(least)) || v.as_double() != std::floor(v.as_double())) refuse(key, v.dump(), expected);
  if (v.as_double() > static_cast<double>(max_size)) refuse(key, v.dump(), fmt::format("at most {}", max_size));
  return static_cast<std::int64_t>(v.as_double());
}

namespace {
constexpr std::string_view a_size = "a positive integer", a_count = "0 or a positive integer";
}

std::optional<std::int64_t> ConfigReader::optional_size(std::string_view key) const {
  const auto* v = find(key);
  return v ? std::optional(whole(key, *v, 1, a_size)) : std::nullopt;
}

std::optional<std::int64_t> ConfigReader::nullable_size(std::string_view key, std::optional<std::int64_t> otherwise) const {
  return json_.find(key) ? optional_size(key) : otherwise;
}

std::int64_t ConfigReader::size(std::string_view key, std::optional<std::int64_t> otherwise) const {
  if (const auto* v = given(key, a_size)) return whole(key, *v, 1, a_size);
  if (!otherwise) fail(ErrorKind::not_found, "{}: {} is missing", where_, key);
  return *otherwise;
}

std::int64_t ConfigReader::count(std::string_view key, std::int64_t otherwise) const {
  const auto* v = given(key, a_count);
  return v ? whole(key, *v, 0, a_count) : otherwise;
}

std::int64_t ConfigReader::integer(std::string_view key, std::int64_t otherwise) const {
  const auto* v = given(key, "an integer");
  return v ? whole(key, *v, -max_size, "an integer") : otherwise;
}

double ConfigReader::number(std::string_view key, double otherwise) const {
  const auto* v = given(key, "a number");
  if (!v) return otherwise;
  if (!v->is_number() || !std::isfinite(v->as_double())) refuse(key, v->dump(), "a number");
  if (!std::isfinite(static_cast<float>(v->as_double()))) refuse(key, v->dump(), "a number that float32 holds");
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
  const auto* v = given(key, "a string");
  if (!v) return std::string(otherwise);
  if (!v->is_string()) refuse(key, v->dump(), "a string");
  return v->as_string();
}

const std::vector<Json>* ConfigReader::list(std::string_view key, std::string_view expected) const {
  const auto* v = find(key);
  if (!v) return nullptr;
  if (!v->is_array()) refuse(key, v->dump(), expected);
  return &v->as_array();
}

namespace {
std::string entry(std::string_view key, std::size_t i) { return fmt::format("{}[{}]", key, i); }
}  // namespace

std::vector<double> ConfigReader::numbers(std::string_view key) const {
  std::vector<double> out;
  const auto* entries = list(key, "a list of numbers");
  for (std::size_t i = 0; entries && i < entries->size(); ++i) {
    const auto& e = (*entries)[i];
    if (!e.is_number() || !std::isfinite(e.as_double())) refuse(entry(key, i), e.dump(), "a number");
    out.push_back(e.as_double());
  }
  return out;
}

std::optional<std::vector<std::string>> ConfigReader::texts(std::string_view key) const {
  const auto* entries = list(key, "a list of strings");
  if (!entries) return std::nullopt;
  std::vector<std::string> out;
  for (std::size_t i = 0; i < entries->size(); ++i) {
    const auto& e = (*entries)[i];
    if (!e.is_string()) refuse(entry(key, i), e.dump(), "a string");
    out.push_back(e.as_string());
  }
  return out;
}

std::vector<bool> ConfigReader::flags(std::string_view key) const {
  std::vector<bool> out;
  const auto* entries = list(key, "a list of 0 and 1");
  for (std::size_t i = 0; entries && i < entries->size(); ++i) {
    const auto& e = (*entries)[i];
    const bool is_flag = e.is_bool() || (e.is_number() && (e.as_double() == 0 || e.as_double() == 1));
    if (!is_flag) refuse(entry(key, i), e.dump(), "0 or 1");
    out.push_back(e.is_bool() ? e.as_bool() : e.as_double() == 1);
  }
  return out;
}

std::vector<bool> ConfigReader::places(std::string_view key, std::int64_t count) const {
  std::vector<bool> out(static_cast<std::size_t>(count));
  const auto* entries = list(key, "a list of integers");
  for (std::size_t i = 0; entries && i < entries->size(); ++i) {
    const auto& e = (*entries)[i];
    const auto expected = fmt::format("an index from 0 to {}", count - 1);
    const auto place = whole(entry(key, i), e, 0, expected);
    if (place >= count) refuse(entry(key, i), e.dump(), expected);
    out[static_cast<std::size_t>(place)] = true;
  }
  return out;
}

std::vector<std::int64_t> ConfigReader::sizes(std::string_view key, std::int64_t layers, std::int64_t otherwise) const {
  const auto* v = find(key);
  if (!v || !v->is_array()) return std::vector(static_cast<std::size_t>(layers), size(key, otherwise));
  std::vector<std::int64_t> out;
  for (const auto& e : v->as_array()) out.push_back(whole(entry(key, out.size()), e, 1, a_size));
  return out;
}

ConfigReader ConfigReader::nested(std::string_view key) const {
  const auto& v = required(key, find(key));
  if (!v.is_object()) refuse(key, v.kind(), "an object");
  return ConfigReader(v, fmt::format("{}: {}", where_, key));
}

ConfigReader ConfigReader::with(Json json) const {
  auto out = *this;
  out.json_ = std::move(json);
  return out;
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
    if (!read_->contains(key)) out.push_back(key);
  return out;
}

}  // namespace mobius
