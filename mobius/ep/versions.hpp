// What an execution provider's max_opset and max_ir may be:
//
//   register_ep({.name = "my-ep", .max_opset = 20});   // Error invalid_argument: "... max_opset is 20, expected 21 to 28"
//
// Below the lowest opset, lowerings have no form to write; beyond the newest, it is not known what operators mean (ops/versions.hpp).
#pragma once
#include <cstdint>

namespace mobius {

inline constexpr std::int64_t lowest_opset = 21, newest_opset = 28;
inline constexpr std::int64_t lowest_max_ir = 10;  // the IR version that came with the lowest opset

}  // namespace mobius
