// GGUF tensors under the names and in the layouts of Hugging Face checkpoints.
//
//   for (const GgufWeight& w : hugging_face_weights(*gguf)) w.name;     // "model.layers.0.self_attn.q_proj.weight"
//   ir::TensorPtr q = load(*gguf, w);                                    // rows back in Hugging Face's order, as a recipe
//
// What the converter of llama.cpp did is undone: the interleaved rows of q and k (architectures whose rope llama.cpp computes on
// adjacent pairs), 1 + w of Gemma's norms, stacked experts and heads. Source: conversion/*.py of github.com/ggml-org/llama.cpp.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "mobius/formats/gguf.hpp"

namespace mobius::weights {

// How the stored tensor becomes the Hugging Face one.
enum class GgufStep {
  as_is,
  split_pairs,   // rows of each head: (0, n/2, 1, n/2 + 1, ...) -> (0, 1, 2, ...); `count` heads
  minus_one,     // norm weights stored as 1 + w
  slice,         // element `index` of the first axis
  leading_axis,  // [n] -> [1, n]
};

struct GgufWeight {
  std::string name;    // Hugging Face's
  std::string source;  // GGUF's
  GgufStep step = GgufStep::as_is;
  std::int64_t count = 0;
  std::int64_t index = 0;
};

// All weights of the file, sorted by name. Errors: unsupported when the architecture is not in the table, or when a tensor has no
// place in it; corrupt_file when counts in the metadata contradict shapes. Rope tables are left out: they belong to the config.
std::vector<GgufWeight> hugging_face_weights(const formats::GgufFile& gguf);

ir::TensorPtr load(const formats::GgufFile& gguf, const GgufWeight& weight);

bool is_known_gguf_architecture(std::string_view architecture);
std::string known_gguf_architectures();  // "gemma, gemma2, ..."

}  // namespace mobius::weights
