// Component: one graph of a package, with its name and its role in optimisation.
#pragma once
#include <string>

#include "mobius/ir/model.hpp"

namespace mobius {

struct Component {
  std::string name;  // the package key: "model", "decoder", "vision_encoder", ...
  std::string role;  // "decoder", "encoder", "vision", "embedding": some fusions apply to decoders only
  ir::Model model;
};

}  // namespace mobius
