// Calls into several folders of an installed library, so that a missing header, object or dependency shows.
#include <fmt/core.h>

#include "mobius/base/convert.hpp"
#include "mobius/base/json.hpp"
#include "mobius/ir/shape.hpp"
#include "mobius/runtime/onnxruntime.hpp"

int main() {
  const mobius::Json json = mobius::Json::parse(R"({"hidden_size": 64})");
  const mobius::ir::Dim width = mobius::ir::Dim::symbol("heads") * static_cast<int>(json.at("hidden_size").as_int());

  const float one = 1;
  std::uint16_t half = 0;
  mobius::convert_float_to_float16(&one, &half, 1);

  mobius::runtime::Tensor tensor{mobius::ir::DataType::float16, {1}, std::vector<std::byte>(2)};
  fmt::print("{} {:#x} {}\n", width.to_string(), half, tensor.bytes.size());
  return width.is_symbolic() && half == 0x3c00 ? 0 : 1;
}
