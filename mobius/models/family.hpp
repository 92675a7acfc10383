// Family: one row of the table of model families. A family lives in models/NAME.cpp, which defines `Family family_NAME()`; the table
// of all of them is made from the file names.
//
//   Family mobius::models::family_qwen3() {
//     return {.types = {"qwen3"}, .build = causal_lm_of<qwen3::Qwen3>(qwen3::config)};
//   }
#pragma once
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "mobius/config/decoder.hpp"
#include "mobius/nn/parameter.hpp"
#include "mobius/tasks/causal_lm.hpp"

namespace mobius {

struct Family {
  std::string name = {};                // of its file; filled in by the table
  std::vector<std::string_view> types;  // the values of config.json's model_type that it builds
  std::string_view task = "text-generation";
  std::vector<std::string_view> ignorable = {};  // checkpoint tensors that are rightly unused, as globs: "*.rotary_emb.inv_freq"
  std::function<std::vector<Component>(const ConfigReader&, ir::DataType dtype)> build;
};

// All families, sorted by name.
const std::vector<Family>& families();
const Family* find_family(std::string_view model_type);
// Error unsupported: the type is unknown; names the nearest known ones.
const Family& require_family(std::string_view model_type);

// The build function of a decoder-only language model: Model(Scope, Config) called as model(input_ids, at) -> logits.
template <class Model, class Config>
std::function<std::vector<Component>(const ConfigReader&, ir::DataType)> causal_lm_of(Config (*read)(const ConfigReader&)) {
  return [read](const ConfigReader& reader, ir::DataType dtype) {
    Config config = read(reader);
    config.dtype = dtype;
    const Model model(nn::Scope(dtype), config);
    std::vector<Component> out;
    out.push_back(causal_lm(dtype, [&](Tensor input_ids, Decode& at) { return model(input_ids, at); }));
    return out;
  };
}

}  // namespace mobius
