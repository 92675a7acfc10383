// Facts of operators that patterns rest on. Internal to rewrite/.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "mobius/ir/graph.hpp"

namespace mobius::rewrite {

bool is_commutative(ir::OpName op);   // of two operands
bool is_broadcasting(ir::OpName op);  // element by element, on operands that are broadcast
// Whether results that nothing reads have to stay, since a kernel needs them: ONNX Runtime's GroupQueryAttention has no other place where
// to join the new keys to the past, and gives wrong numbers without.
bool keeps_all_results(ir::OpName op);
// The default that the operator's specification gives the attribute; nullopt: it has none.
std::optional<ir::Attribute> attribute_default(ir::OpName op, std::string_view attribute);
std::vector<std::pair<std::string, ir::Attribute>> attribute_defaults(ir::OpName op);  // all that are known

// The type of a number that stands as operand `i`: that of the operands beside it (nullptr: not known yet), or int64 where it is an index.
ir::DataType number_type(ir::OpName op, std::size_t i, std::span<ir::Value* const> operands, ir::DataType otherwise);

}  // namespace mobius::rewrite
