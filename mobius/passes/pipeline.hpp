// optimize_model: the EP-aware pipeline, in the stages of the specification.
//
//   optimize_model(model, {.ep = "cuda", .dtype = DataType::float16});
//
//   1 cleanup   always          2 fusion    as far as the EP's capabilities allow
//   2b inline   what the EP lacks, by function bodies
//   3 lowering  what the EP's constraints require               4 fold      always
#pragma once
#include <string>

#include "mobius/ep/capabilities.hpp"
#include "mobius/ir/model.hpp"

namespace mobius {

struct OptimizeOptions {
  std::string ep = "default";
  ir::DataType dtype = ir::DataType::float32;
  std::string model_role = "decoder";  // "decoder", "vision", "embedding", "encoder"
  bool trace = false;                  // log each stage and rule at level info
};

// Error invalid_argument: an unknown EP, with the known ones.
void optimize_model(ir::Model& model, const OptimizeOptions& options = {});

}  // namespace mobius
