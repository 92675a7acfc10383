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
#include "mobius/tasks/state_space_lm.hpp"

namespace mobius {

struct Family {
  std::string name = {};                // of its file; filled in by the table
  std::vector<std::string_view> types;  // the values of config.json's model_type that it builds
  std::string_view task = "text-generation";
  std::vector<std::string_view> ignorable = {};  // checkpoint tensors that are rightly unused, as globs: "*.rotary_emb.inv_freq"
  // What a weight is where a checkpoint leaves it out; nullptr: it must be there. This and `check` are for checkpoints that are read by `build`.
  std::function<ir::TensorPtr(const ConfigReader&, const ir::Placeholder&)> otherwise = {};
  // Refuses a checkpoint whose tensors say what the graphs do not do, by what they hold. A tensor that is not there is nullptr.
  using FindTensor = std::function<ir::TensorPtr(std::string_view name)>;
  std::function<void(const ConfigReader&, const FindTensor&)> check = {};
  std::function<std::vector<Component>(const ConfigReader&, ir::DataType dtype)> build;
};

// All families, sorted by name.
const std::vector<Family>& families();
const Family* find_family(std::string_view model_type);
// Error unsupported: the type is unknown; names the nearest known ones.
const Family& require_family(std::string_view model_type);

// What is proven of a model type, by name and separated by blanks: golden cases whose reference it meets, and the execution providers whose
// packages do. mobius/models/evidence.txt, written by tests/test_families.py.
struct Evidence {
  std::string_view type, cases, eps;
};
const Evidence* find_evidence(std::string_view model_type);

using BuildFunction = std::function<std::vector<Component>(const ConfigReader&, ir::DataType)>;

template <class Model, class Config>
BuildFunction language_model_of(Config (*read)(const ConfigReader&), Component (*task)(ir::DataType, const CausalLMForward&)) {
  return [read, task](const ConfigReader& reader, ir::DataType dtype) {
    Config config = read(reader);
    config.dtype = dtype;
    const Model model(nn::Scope(dtype), config);
    std::vector<Component> out;
    out.push_back(task(dtype, [&](Tensor input_ids, Decode& at) { return model(input_ids, at); }));
    return out;
  };
}

// The build function of a decoder-only language model: Model(Scope, Config) called as model(input_ids, at) -> logits.
template <class Model, class Config>
BuildFunction causal_lm_of(Config (*read)(const ConfigReader&)) {
  return language_model_of<Model>(read, causal_lm);
}
// The same of one that has states instead of attention.
template <class Model, class Config>
BuildFunction state_space_lm_of(Config (*read)(const ConfigReader&)) {
  return language_model_of<Model>(read, state_space_lm);
}

}  // namespace mobius
