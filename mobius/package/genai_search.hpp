// "search" of genai_config.json: how tokens are chosen when the program that generates doesn't say.
//
//   Json search = search_defaults(files.json("generation_config.json"), 49152);
//   search.at("temperature").as_double();
#pragma once
#include <cstdint>

#include "mobius/base/json.hpp"

namespace mobius::package {

// All keys that the runtime takes from there, with transformers' defaults for those that the file (may be nullptr) leaves out. What
// transformers allows and the runtime doesn't, is brought to what it does, with a warning. `has_beams`: whether it can follow beams with this model.
// Error invalid_argument: a value of another kind, or out of its range.
Json search_defaults(const Json* generation_config, std::int64_t vocab_size, bool has_beams = true);

}  // namespace mobius::package
