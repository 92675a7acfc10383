// Component: one graph of a package, with its name and its role in optimisation.
//
//   Component decoder{.name = "model", .role = "decoder", .model = std::move(model)};
#pragma once
#include <string>

#include "mobius/ir/model.hpp"

namespace mobius {

struct Component {
  std::string name;  // the package key: "model", "decoder", "vision_encoder", ...
  std::string role;  // "decoder", "encoder", "vision", "embedding": some fusions apply to decoders only
  ir::Model model;
};

// Imports the domains of operators that are not the standard's, where a graph has any.
void import_domains(ir::Model& model);

}  // namespace mobius
