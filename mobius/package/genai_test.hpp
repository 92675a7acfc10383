// A decoder's package for the tests of genai_config.json: a graph as far as the config depends on it, and files from memory.
#pragma once
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mobius/base/error_of_test.hpp"
#include "mobius/base/log.hpp"
#include "mobius/package/companions.hpp"
#include "mobius/package/metadata.hpp"
#include "mobius/package/package.hpp"

namespace mobius::package {

struct Decoder {
  std::string ep = "cpu", type = "llama", config = R"({"hidden_size": 64, "max_position_embeddings": 8192})";
  bool fused = true;  // GroupQueryAttention, else Attention
  std::int64_t layers = 2, heads = 4, kv_heads = 2, key_size = 16, value_size = 16;
  std::vector<std::string> more_inputs = {};
  std::string ids = R"({"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0})";  // generation_config.json; "": no such file
  std::vector<std::pair<std::string, std::string>> files = {};
};

inline Component component_of(const Decoder& d) {
  using enum ir::DataType;
  Component component{"model", "decoder", {}};
  component.model.opset_imports[""] = 24;
  auto& g = *component.model.graph;
  auto* ids = g.add_input("input_ids", {int64, ir::Shape{"batch", "sequence_len"}});
  g.add_input("attention_mask", {int64, ir::Shape{"batch", "total"}});
  for (const auto& name : d.more_inputs) g.add_input(name, {int64, ir::Shape{"batch", "sequence_len"}});
  const std::vector<float> weights(160 * 48);
  auto* embedded = g.append({"", "Gather"}, {g.add_initializer("embedding", ir::make_tensor({160, 48}, std::span<const float>(weights))), ids})->output();
  auto* logits = g.append({"", "MatMul"}, {embedded, embedded})->output();
  g.rename(logits, "logits");
  logits->type = {float32, ir::Shape{"batch", "sequence_len", 160}};
  g.add_output(logits);
  for (std::int64_t i = 0; i < d.layers; ++i) {
    const auto name = [&](const char* head, const char* tail) { return std::string(head) + "." + std::to_string(i) + "." + tail; };
    auto* key = g.add_input(name("past_key_values", "key"), {float32, ir::Shape{"batch", d.kv_heads, "past", d.key_size}});
    auto* value = g.add_input(name("past_key_values", "value"), {float32, ir::Shape{"batch", d.kv_heads, "past", d.value_size}});
    auto* node = d.fused ? g.append({"com.microsoft", "GroupQueryAttention"}, {embedded, embedded, embedded, key, value},
                                    {{"num_heads", d.heads}, {"kv_num_heads", d.kv_heads}}, 3)
                         : g.append({"", "Attention"}, {embedded, embedded, embedded, nullptr, key, value}, {{"q_num_heads", d.heads}}, 3);
    g.rename(node->output(1), name("present", "key"));
    g.rename(node->output(2), name("present", "value"));
    g.add_output(node->output(1));
    g.add_output(node->output(2));
  }
  package::describe(component, {.source_name = "source", .source_id = "sha256:0", .model_type = d.type, .ep = d.ep, .task = "text-generation"});
  return component;
}

inline ModelPackage package_of(const Decoder& d) {
  ModelPackage p;
  p.components().push_back(component_of(d));
  p.config = Json::parse(d.config);
  if (!d.ids.empty()) p.files().push_back({"generation_config.json", d.ids});
  for (const auto& [name, text] : d.files) p.files().push_back({name, text});
  return p;
}

struct State {
  std::string past, present;
  ir::Shape shape;
  ir::DataType dtype = ir::DataType::float32;
};

inline State convolution(std::int64_t layer) {
  const auto i = std::to_string(layer);
  return {"past_key_values." + i + ".conv_state", "present." + i + ".conv_state", {"batch", 96, 3}};
}
inline State recurrence(std::int64_t layer, const std::string& name = "ssm_state") {
  const auto i = std::to_string(layer);
  return {"past_key_values." + i + "." + name, "present." + i + "." + name, {"batch", 4, 16, 8}};
}

// A decoder of keys and values in its first layers, and states besides.
inline ModelPackage with_states(const std::vector<State>& states, Decoder decoder = {}) {
  auto package = package_of(decoder);
  auto& g = *package.components().front().model.graph;
  for (const auto& state : states) {
    auto* present = g.append({"", "Identity"}, {g.add_input(state.past, {state.dtype, state.shape})})->output();
    present->type = {state.dtype, state.shape};
    if (state.present.empty()) continue;
    g.rename(present, state.present);
    g.add_output(present);
  }
  return package;
}

// The lines that are logged while it lives.
class Log {
 public:
  Log() : before_(logging::set_sink([this](logging::Level, std::string_view line) { lines.emplace_back(line); })) {}
  ~Log() { logging::set_sink(std::move(before_)); }
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;
  std::vector<std::string> lines;

 private:
  logging::Sink before_;
};

}  // namespace mobius::package
