// The fixtures in testdata/ops, for tests: one-node models with inputs and what ONNX Runtime made of them (see make_cases.py there).
#pragma once
#include <cmath>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "mobius/base/file.hpp"
#include "mobius/base/json.hpp"
#include "mobius/ir/model.hpp"
#include "mobius/ops/interpreter.hpp"

namespace mobius::ops::fixtures {

inline double number_of(const Json& v) {
  if (!v.is_string()) return v.as_double();
  if (v.as_string() == "nan") return std::nan("");
  return v.as_string() == "inf" ? HUGE_VAL : -HUGE_VAL;
}

inline Array array_of(const Json& json) {
  Array a;
  a.dtype = static_cast<ir::DataType>(json.at("t").as_int());
  for (const auto& d : json.at("d").as_array()) a.dims.push_back(d.as_int());
  double unit = json.find("q") ? 1 / json.at("q").as_double() : 1;
  for (const auto& v : json.at("v").as_array()) a.values.push_back(number_of(v) * unit);
  return a;
}

struct Case {
  std::string name, model;
  std::map<std::string, Array> inputs;
  std::map<std::string, std::optional<Array>> outputs;  // nullopt: left open by the operator
  std::vector<std::int64_t> rows;                       // compare only so many rows of axis 1, per batch entry
};

inline const std::vector<std::string>& topics() {
  static const std::vector<std::string> names{"math",     "linear",    "reduce", "norms", "shape",   "index",
                                              "quantize", "attention", "gqa",    "mha",   "experts", "control"};
  return names;
}

inline std::vector<Case> read(const std::string& topic) {
  std::vector<Case> cases;
  const Json file = Json::parse(read_text_file(std::string(MOBIUS_TESTDATA) + "/ops/" + topic + ".json"));
  for (const auto& json : file.as_array()) {
    Case c;
    c.name = json.at("name").as_string();
    c.model = json.at("model").as_string();
    for (const auto& [name, value] : json.at("inputs").as_object()) c.inputs.emplace(name, array_of(value));
    for (const auto& [name, value] : json.at("outputs").as_object()) c.outputs.emplace(name, value.is_null() ? std::nullopt : std::optional(array_of(value)));
    if (auto rows = json.find("rows")) {
      for (const auto& n : rows->as_array()) c.rows.push_back(n.as_int());
    }
    cases.push_back(std::move(c));
  }
  return cases;
}

inline bool close(double a, double b, double tolerance) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  if (std::isinf(a) || std::isinf(b)) return a == b;
  return std::abs(a - b) <= tolerance * std::max(1.0, std::abs(b));
}

// Where two arrays differ, in words; empty when they agree.
inline std::string difference(const Array& found, const Array& want, double tolerance, const std::vector<std::int64_t>& rows = {}) {
  auto text = [](const ir::Dims& dims) {
    std::string t;
    for (auto d : dims) t += std::to_string(d) + " ";
    return t;
  };
  if (found.dims != want.dims) return "dims " + text(found.dims) + "expected " + text(want.dims);
  if (found.dtype != want.dtype) return "type " + std::string(ir::text_name(found.dtype)) + " expected " + std::string(ir::text_name(want.dtype));
  for (std::size_t i = 0; i < want.values.size(); ++i) {
    if (!rows.empty()) {
      auto row_size = want.values.size() / static_cast<std::size_t>(want.dims[0] * want.dims[1]), row = i / row_size;
      if (static_cast<std::int64_t>(row) % want.dims[1] >= rows[row / static_cast<std::size_t>(want.dims[1])]) continue;
    }
    if (!close(found.values[i], want.values[i], tolerance)) {
      return "element " + std::to_string(i) + " is " + std::to_string(found.values[i]) + ", expected " + std::to_string(want.values[i]);
    }
  }
  return {};
}

}  // namespace mobius::ops::fixtures
