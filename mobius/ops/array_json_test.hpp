// Arrays as tests/ort_check.py reads them, which runs them on ONNX Runtime.
//
//   json_of(array)      // {"type": 1, "dims": [2], "values": [0.5, "-inf"]}, the type as ONNX numbers it
#pragma once
#include <cmath>
#include <utility>

#include "mobius/base/json.hpp"
#include "mobius/ops/interpreter.hpp"

namespace mobius::ops {

inline Json json_of(const Array& a) {
  Json::Array dims, values;
  for (const auto d : a.dims) dims.push_back(d);
  for (const auto v : a.values) values.push_back(std::isfinite(v) ? Json(v) : Json(v > 0 ? "inf" : "-inf"));
  return Json::Object{{"type", static_cast<int>(a.dtype)}, {"dims", std::move(dims)}, {"values", std::move(values)}};
}

}  // namespace mobius::ops
