// Binding: every placeholder of a model finds its tensor in a checkpoint, and every tensor of the checkpoint is used or excused.
//
//   BindReport report = bind_weights({&model}, checkpoint, {.ignorable = {"*.rotary_emb.inv_freq"}});
//
// Errors (invalid_argument), all findings in one message, each by exact name:
//   missing      model.layers.3.mlp.up_proj.weight is not in model.safetensors
//   wrong shape  model.layers.3.self_attn.q_proj.weight is [4096, 4096], expected [4096, 2048] (model-00002-of-00004.safetensors)
//   wrong dtype  model.norm.weight is i32, expected f32, f16 or bf16 (model.safetensors)
//   contradiction lm_head.weight differs from model.embed_tokens.weight, although the config says that they are one
//   extra        model.layers.3.self_attn.rotary.phase is in the checkpoint but unused (ignore_extra GLOB to allow it)
#pragma once
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "mobius/ir/model.hpp"
#include "mobius/weights/checkpoint.hpp"

namespace mobius::weights {

struct BindOptions {
  std::vector<std::string_view> ignorable = {};  // globs that the family declares
  std::vector<std::string> ignore_extra = {};    // globs of the user
  // What a weight is that the checkpoint does not hold; nullptr, or no function: it is missing.
  std::function<ir::TensorPtr(const ir::Placeholder&)> otherwise = {};
};

struct BindReport {
  std::size_t bound = 0;
  std::vector<std::string> ignored;  // extra tensors that a glob excuses, sorted
};

// A parameter whose second name (a tied head) is stored as well takes the first. The other must hold the same: which of them a model
// with two was trained on, nobody can tell. A glob of the user excuses it.
BindReport bind_weights(const std::vector<ir::Model*>& models, const Checkpoint& checkpoint, const BindOptions& options = {});

// All placeholders that a model's initializers are made from, also those of subgraphs, in graph order, each once.
std::vector<const ir::Placeholder*> placeholders(const ir::Model& model);

// '*' any run of characters, '?' one character.
bool matches_glob(std::string_view text, std::string_view glob);

}  // namespace mobius::weights
