// Which weights have no data yet.
//
//   if (const auto* p = unbound_leaf(*value->data())) fail(ErrorKind::invalid_argument, "{} has no data", p->name());
#pragma once
#include "mobius/ir/tensor_data.hpp"

namespace mobius::ir {

// The first placeholder without data below `tensor`; nullptr when all are bound, that is, when the tensor can be read.
const Placeholder* unbound_leaf(const TensorData& tensor);

}  // namespace mobius::ir
