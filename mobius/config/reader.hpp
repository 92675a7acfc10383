// ConfigReader: reads a Hugging Face config.json key by key, with the model type's defaults, checked and remembered.
//
//   ConfigReader r(Json::parse(text));
//   auto hidden = r.size("hidden_size", 4096);                 // a positive count; absent: 4096
//   auto eps = r.number("rms_norm_eps", 1e-6);
//   auto dense = r.places("mlp_only_layers", layers);          // true at each index that the list names
//   r.only("pretraining_tp", 1);                               // any other value is refused by name
//
// A number that is whole counts as an integer however it is written: 8.0 is 8. Errors: invalid_argument for a value of the wrong kind or
// range ("config.json: hidden_size is -1, expected a positive integer"), not_found for a required key, unsupported for a switch that is refused.
#pragma once
#include <cstdint>
#include <limits>
#include <memory>
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
  static constexpr std::int64_t max_size = std::numeric_limits<std::int32_t>::max();

  explicit ConfigReader(Json json, std::string where = "config.json");

  const Json& json() const { return json_; }
  const std::string& where() const { return where_; }
  bool has(std::string_view key) const;          // present and not null
  const Json* find(std::string_view key) const;  // nullptr when absent or null
  std::string model_type() const;                // Error not_found when the config has none

  // Absent gives the default; without a default the key is required. An explicit null is refused: what stands for it differs by key,
  // which the readers called nullable or optional say.
  std::int64_t size(std::string_view key, std::optional<std::int64_t> otherwise = {}) const;  // 1 ... max_size
  std::int64_t count(std::string_view key, std::int64_t otherwise) const;                     // 0 ... max_size
  std::int64_t integer(std::string_view key, std::int64_t otherwise) const;                   // -max_size ... max_size
  double number(std::string_view key, double otherwise) const;                                // finite
  double positive(std::string_view key, double otherwise) const;
  std::string text(std::string_view key, std::string_view otherwise) const;
  bool boolean(std::string_view key, bool otherwise) const;  // null is off

  // Absent or null: nothing.
  std::optional<std::int64_t> optional_size(std::string_view key) const;
  // Absent: `otherwise`; an explicit null: nothing, as in the original's configuration classes.
  std::optional<std::int64_t> nullable_size(std::string_view key, std::optional<std::int64_t> otherwise) const;
  std::optional<double> nullable_positive(std::string_view key, std::optional<double> otherwise) const;

  // Lists. Each says which entry is wrong, and callers how many there have to be; absent or null: empty, or nothing.
  std::vector<double> numbers(std::string_view key) const;  // finite ones
  std::optional<std::vector<std::string>> texts(std::string_view key) const;
  std::vector<bool> flags(std::string_view key) const;                       // 0, 1, false, true
  std::vector<bool> places(std::string_view key, std::int64_t count) const;  // a list of indices below `count`: true at those
  // A size for each layer: a list of them, or one for all.
  std::vector<std::int64_t> sizes(std::string_view key, std::int64_t layers, std::int64_t otherwise) const;
  ConfigReader nested(std::string_view key) const;  // an object; "config.json: rope_scaling"
  ConfigReader with(Json json) const;               // the same config with other values; what is asked of it counts as asked of this one

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
  const Json* given(std::string_view key, std::string_view expected) const;  // nullptr when absent; refuses null
  std::int64_t whole(std::string_view key, const Json& value, std::int64_t least, std::string_view expected) const;
  const std::vector<Json>* list(std::string_view key, std::string_view expected) const;  // nullptr when absent or null

  Json json_;
  std::string where_;
  std::shared_ptr<std::set<std::string, std::less<>>> read_;
};

}  // namespace mobius
