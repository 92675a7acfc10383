// ConfigReader: reads a Hugging Face config.json key by key, with the model type's defaults, checked and remembered.
//
//   ConfigReader r(Json::parse(text));
//   auto hidden = r.size("hidden_size", 4096);                 // a positive count; absent: 4096
//   auto eps = r.number("rms_norm_eps", 1e-6);
//   r.only("pretraining_tp", 1);                               // any other value is refused by name
//
// Errors: invalid_argument for a value of the wrong kind or range ("config.json: hidden_size is -1, expected a positive
// integer"), unsupported for a switch that is refused.
#pragma once
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "mobius/base/json.hpp"
#include "mobius/ir/data_type.hpp"

namespace mobius {

class ConfigReader {
 public:
  explicit ConfigReader(Json json, std::string where = "config.json");

  const Json& json() const { return json_; }
  const std::string& where() const { return where_; }
  bool has(std::string_view key) const;          // present and not null
  const Json* find(std::string_view key) const;  // nullptr when absent or null
  std::string model_type() const;                // Error not_found when the config has none

  // Absent or null gives the default; without a default the key is required.
  std::int64_t size(std::string_view key, std::optional<std::int64_t> otherwise = {}) const;  // 1 ... 2^31 - 1
  std::optional<std::int64_t> optional_size(std::string_view key) const;
  // Absent: `otherwise`; an explicit null: nothing, as in the original's configuration classes.
  std::optional<std::int64_t> nullable_size(std::string_view key, std::optional<std::int64_t> otherwise) const;
  std::int64_t integer(std::string_view key, std::int64_t otherwise) const;
  double number(std::string_view key, double otherwise) const;  // finite
  double positive(std::string_view key, double otherwise) const;
  // A number above 0. Absent: `otherwise`; an explicit null: nothing.
  std::optional<double> nullable_positive(std::string_view key, std::optional<double> otherwise) const;
  bool boolean(std::string_view key, bool otherwise) const;
  std::string text(std::string_view key, std::string_view otherwise) const;
  std::vector<double> numbers(std::string_view key) const;  // empty when absent
  std::optional<std::vector<std::string>> texts(std::string_view key) const;
  ConfigReader nested(std::string_view key) const;  // an object; "config.json: rope_scaling"

  // A switch that changes the maths and of which one value is implemented: refuses any other.
  void only(std::string_view key, const Json& value) const;

  // "dtype" or the older "torch_dtype"; float32 when absent.
  ir::DataType dtype() const;

  // Top-level keys that nothing has asked for.
  std::vector<std::string> unread_keys() const;

  [[noreturn]] void refuse(std::string_view key, std::string_view found, std::string_view expected) const;  // invalid_argument
  [[noreturn]] void unsupported(std::string_view what) const;

 private:
  const Json& required(std::string_view key, const Json* value) const;

  Json json_;
  std::string where_;
  mutable std::set<std::string, std::less<>> read_;
};

}  // namespace mobius
