// Metadata keys -> Hugging Face keys: what all architectures share, then one function per architecture for the rest.
#include "mobius/package/gguf_config.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

#include "mobius/base/error.hpp"
#include "mobius/package/gguf_rope.hpp"
#include "mobius/package/gguf_tokenizer.hpp"
#include "mobius/weights/gguf_names.hpp"

namespace mobius::package {
namespace {

using formats::GgufFile;
using formats::GgufTensorInfo;

struct Builder {
  const GgufFile& gguf;
  Json config;
  std::int64_t layers = 0, hidden = 0, heads = 0, head_dim = 0, rotary_dim = 0;
  double rope_theta = 10000;

  std::string key(std::string_view name) const { return fmt::format("{}.{}", gguf.architecture(), name); }
  bool has_tensor(std::string_view name) const { return gguf.find_tensor(name) != nullptr; }

  std::int64_t integer(std::string_view name) const {
    const std::optional<std::int64_t> value = gguf.integer(key(name));
    if (!value) fail(ErrorKind::corrupt_file, "metadata {} is absent", key(name));
    return *value;
  }
  std::int64_t positive(std::string_view name) const {
    const std::int64_t value = integer(name);
    if (value <= 0 || value > (1ll << 40)) fail(ErrorKind::corrupt_file, "metadata {} is {}, expected a positive number", key(name), value);
    return value;
  }
  double number(std::string_view name) const {
    const std::optional<double> value = gguf.number(key(name));
    if (!value) fail(ErrorKind::corrupt_file, "metadata {} is absent", key(name));
    return *value;
  }
  void set_number(std::string_view hf, std::string_view name) { config.set(hf, number(name)); }

  void type(std::string_view model_type, std::string_view architecture) {
    config.set("model_type", model_type);
    config.set("architectures", Json::Array{architecture});
  }
};

// The dtype the weights were stored in, for "dtype: auto". Quantised weights are dequantised to float32.
std::string_view stored_dtype(const GgufFile& gguf) {
  for (const GgufTensorInfo& t : gguf.tensors()) {
    if (t.dims.size() < 2) continue;
    if (t.type == static_cast<std::uint32_t>(formats::GgmlType::f16)) return "float16";
    if (t.type == static_cast<std::uint32_t>(formats::GgmlType::bf16)) return "bfloat16";
    if (t.name.starts_with("blk.")) return "float32";
  }
  return "float32";
}

void add_shape(Builder& b) {
  const GgufTensorInfo* embedding = b.gguf.find_tensor("token_embd.weight");
  if (!embedding || embedding->dims.size() != 2) fail(ErrorKind::corrupt_file, "there is no matrix token_embd.weight: not a text model");
  b.hidden = b.positive("embedding_length");
  if (embedding->dims[1] != b.hidden) {
    fail(ErrorKind::corrupt_file, "token_embd.weight has {} columns, expected {} ({})", embedding->dims[1], b.hidden, b.key("embedding_length"));
  }
  b.layers = b.positive("block_count");
  b.heads = b.positive("attention.head_count");
  const std::int64_t kv_heads = b.gguf.find(b.key("attention.head_count_kv")) ? b.positive("attention.head_count_kv") : b.heads;
  if (b.layers > 100'000) fail(ErrorKind::corrupt_file, "metadata {} is {}", b.key("block_count"), b.layers);

  const bool has_head_dim = b.gguf.find(b.key("attention.key_length")) != nullptr;
  b.head_dim = has_head_dim ? b.positive("attention.key_length") : b.hidden / b.heads;
  if (b.head_dim == 0 || (!has_head_dim && b.hidden % b.heads != 0))
    fail(ErrorKind::corrupt_file, "{} heads can't share {} hidden elements", b.heads, b.hidden);
  const auto value_dim = b.gguf.integer(b.key("attention.value_length"));
  if (value_dim && *value_dim != b.head_dim) fail(ErrorKind::unsupported, "value heads of {} beside key heads of {} are not supported", *value_dim, b.head_dim);

  b.config.set("hidden_size", b.hidden);
  if (b.gguf.find(b.key("feed_forward_length"))) b.config.set("intermediate_size", b.positive("feed_forward_length"));
  b.config.set("num_hidden_layers", b.layers);
  b.config.set("num_attention_heads", b.heads);
  b.config.set("num_key_value_heads", kv_heads);
  b.config.set("head_dim", b.head_dim);
  b.config.set("max_position_embeddings", b.positive("context_length"));
  b.config.set("vocab_size", embedding->dims[0]);
  b.config.set("tie_word_embeddings", !b.has_tensor("output.weight"));
  b.config.set("hidden_act", "silu");
}

void add_rope(Builder& b, bool may_be_partial) {
  if (const auto theta = b.gguf.number(b.key("rope.freq_base"))) b.rope_theta = *theta;
  if (!std::isfinite(b.rope_theta) || b.rope_theta <= 0) fail(ErrorKind::corrupt_file, "metadata {} is {}", b.key("rope.freq_base"), b.rope_theta);
  b.rotary_dim = b.gguf.find(b.key("rope.dimension_count")) ? b.positive("rope.dimension_count") : b.head_dim;
  if (b.rotary_dim != b.head_dim && !may_be_partial) {
    fail(ErrorKind::unsupported, "rope on {} of {} elements of a head is not supported for architecture {}", b.rotary_dim, b.head_dim, b.gguf.architecture());
  }
  if (b.rotary_dim > b.head_dim) fail(ErrorKind::corrupt_file, "rope on {} elements of a head of {}", b.rotary_dim, b.head_dim);
  if (may_be_partial) b.config.set("partial_rotary_factor", static_cast<double>(b.rotary_dim) / static_cast<double>(b.head_dim));
  b.config.set("rope_theta", b.rope_theta);
  b.config.set("rope_scaling", rope_scaling_from_gguf(b.gguf, b.rotary_dim, b.rope_theta));
}

// Full and sliding layers with a rope each, as Gemma 3 and OLMo 3 have; scaling is for the full ones.
void split_rope(Builder& b, double sliding_theta) {
  Json full = b.config.at("rope_scaling");
  if (full.is_null()) full.set("rope_type", "default");
  full.set("rope_theta", b.rope_theta);
  b.config.erase("rope_theta");
  b.config.erase("rope_scaling");
  b.config.set("rope_parameters",
               Json::Object{{"full_attention", full}, {"sliding_attention", Json::Object{{"rope_type", "default"}, {"rope_theta", sliding_theta}}}});
}

void set_layer_types(Builder& b, const std::vector<bool>& sliding) {
  Json::Array types;
  for (bool s : sliding) types.emplace_back(s ? "sliding_attention" : "full_attention");
  b.config.set("layer_types", std::move(types));
}

// Which layers slide: attention.sliding_window_pattern (one flag per layer, or every n-th is full), else every `period`-th is full.
std::vector<bool> sliding_layers(const Builder& b, std::int64_t period) {
  const std::string name = b.key("attention.sliding_window_pattern");
  const formats::GgufValue* stated = b.gguf.find(name);
  std::vector<bool> sliding;
  if (stated && std::holds_alternative<formats::GgufArray>(*stated)) {
    const auto& flags = *b.gguf.integers(name);
    if (flags.size() != static_cast<std::size_t>(b.layers))
      fail(ErrorKind::corrupt_file, "metadata {} has {} flags for {} layers", name, flags.size(), b.layers);
    for (std::int64_t flag : flags) sliding.push_back(flag != 0);
    return sliding;
  }
  if (stated) period = b.positive("attention.sliding_window_pattern");
  for (std::int64_t i = 0; i < b.layers; ++i) sliding.push_back((i + 1) % period != 0);
  return sliding;
}

void add_biases(Builder& b) {
  b.config.set("attention_bias", b.has_tensor("blk.0.attn_q.bias"));
  b.config.set("mlp_bias", b.has_tensor("blk.0.ffn_up.bias"));
}

void add_experts(Builder& b, std::string_view count, std::string_view intermediate) {
  b.config.set(count, b.positive("expert_count"));
  b.config.set("num_experts_per_tok", b.positive("expert_used_count"));
  if (b.gguf.find(b.key("expert_feed_forward_length"))) b.config.set(intermediate, b.positive("expert_feed_forward_length"));
}

void llama(Builder& b) {
  b.type("llama", "LlamaForCausalLM");
  b.set_number("rms_norm_eps", "attention.layer_norm_rms_epsilon");
  add_biases(b);
  if (b.gguf.integer(b.key("expert_count")).value_or(0) == 0) return;
  b.type("mixtral", "MixtralForCausalLM");
  add_experts(b, "num_local_experts", "intermediate_size");
  b.config.set("sliding_window", nullptr);
}

void qwen(Builder& b) {
  const std::string& name = b.gguf.architecture();
  const bool experts = name.ends_with("moe");
  if (name == "qwen2") b.type("qwen2", "Qwen2ForCausalLM");
  if (name == "qwen3") b.type("qwen3", "Qwen3ForCausalLM");
  if (name == "qwen2moe") b.type("qwen2_moe", "Qwen2MoeForCausalLM");
  if (name == "qwen3moe") b.type("qwen3_moe", "Qwen3MoeForCausalLM");
  b.set_number("rms_norm_eps", "attention.layer_norm_rms_epsilon");
  b.config.set("attention_bias", b.has_tensor("blk.0.attn_q.bias"));
  b.config.set("use_sliding_window", false);
  if (!experts) return;
  add_experts(b, "num_experts", "moe_intermediate_size");
  b.config.set("norm_topk_prob", name == "qwen3moe");
  b.config.set("decoder_sparse_step", 1);
  b.config.set("mlp_only_layers", Json::Array{});
  if (name == "qwen2moe") b.config.set("qkv_bias", b.has_tensor("blk.0.attn_q.bias"));
  if (b.gguf.find(b.key("expert_shared_feed_forward_length"))) {
    b.config.set("shared_expert_intermediate_size", b.positive("expert_shared_feed_forward_length"));
  }
}

// The 27B models scale by hidden_size / heads, all others by head_dim.
void gemma_attention_scale(Builder& b, std::int64_t layers_of_27b) {
  b.config.set("query_pre_attn_scalar", b.layers == layers_of_27b ? b.hidden / b.heads : b.head_dim);
}

void gemma(Builder& b) {
  b.type("gemma", "GemmaForCausalLM");
  b.set_number("rms_norm_eps", "attention.layer_norm_rms_epsilon");
  b.config.set("hidden_act", "gelu_pytorch_tanh");
  b.config.set("hidden_activation", "gelu_pytorch_tanh");
  b.config.set("attention_bias", false);
}

void gemma2(Builder& b) {
  gemma(b);
  b.type("gemma2", "Gemma2ForCausalLM");
  gemma_attention_scale(b, 46);
  b.config.set("attn_logit_softcapping", b.gguf.number(b.key("attn_logit_softcapping")).value_or(50));
  b.config.set("final_logit_softcapping", b.gguf.number(b.key("final_logit_softcapping")).value_or(30));
  b.config.set("sliding_window", b.gguf.integer(b.key("attention.sliding_window")).value_or(4096));
  set_layer_types(b, sliding_layers(b, 2));
}

void gemma3(Builder& b) {
  gemma(b);
  b.type("gemma3_text", "Gemma3ForCausalLM");
  gemma_attention_scale(b, 62);
  b.config.set("attn_logit_softcapping", nullptr);
  const auto softcap = b.gguf.number(b.key("final_logit_softcapping"));
  b.config.set("final_logit_softcapping", softcap ? Json(*softcap) : Json());
  if (!b.gguf.find(b.key("rope.freq_base"))) b.rope_theta = 1'000'000;
  b.config.set("sliding_window", b.positive("attention.sliding_window"));
  set_layer_types(b, sliding_layers(b, 6));
  split_rope(b, b.gguf.number(b.key("rope.freq_base_swa")).value_or(10000));
}

void phi3(Builder& b) {
  b.type("phi3", "Phi3ForCausalLM");
  b.set_number("rms_norm_eps", "attention.layer_norm_rms_epsilon");
  const std::int64_t window = b.gguf.integer(b.key("attention.sliding_window")).value_or(0);
  b.config.set("sliding_window", window > 0 ? Json(window) : Json());
  b.config.set("original_max_position_embeddings",
               b.gguf.integer(b.key("rope.scaling.original_context_length")).value_or(b.config.at("max_position_embeddings").as_int()));
}

void smollm3(Builder& b) {
  b.type("smollm3", "SmolLM3ForCausalLM");
  b.set_number("rms_norm_eps", "attention.layer_norm_rms_epsilon");
  add_biases(b);
  Json::Array rope;
  for (std::int64_t i = 0; i < b.layers; ++i) rope.emplace_back((i + 1) % 4 != 0 ? 1 : 0);
  b.config.set("no_rope_layers", std::move(rope));
  b.config.set("no_rope_layer_interval", 4);
  b.config.set("use_sliding_window", false);
  b.config.set("sliding_window", nullptr);
}

void starcoder2(Builder& b) {
  b.type("starcoder2", "Starcoder2ForCausalLM");
  b.set_number("norm_epsilon", "attention.layer_norm_epsilon");
  b.config.set("use_bias", b.has_tensor("blk.0.attn_q.bias"));
  b.config.set("hidden_act", "gelu_pytorch_tanh");
  b.config.set("sliding_window", nullptr);
}

void stablelm(Builder& b) {
  b.type("stablelm", "StableLmForCausalLM");
  b.set_number("layer_norm_eps", "attention.layer_norm_epsilon");
  b.config.set("use_qkv_bias", b.has_tensor("blk.0.attn_q.bias"));
  b.config.set("use_parallel_residual", !b.has_tensor("blk.0.ffn_norm.weight"));
  b.config.set("qk_layernorm", b.has_tensor("blk.0.attn_q_norm.weight"));
}

// OLMo 2, or OLMo 3 when it has a sliding window.
void olmo2(Builder& b) {
  b.type("olmo2", "Olmo2ForCausalLM");
  b.set_number("rms_norm_eps", "attention.layer_norm_rms_epsilon");
  b.config.set("attention_bias", b.has_tensor("blk.0.attn_q.bias"));
  if (b.gguf.integer(b.key("attention.sliding_window")).value_or(0) <= 0) return;
  b.type("olmo3", "Olmo3ForCausalLM");
  b.config.set("sliding_window", b.positive("attention.sliding_window"));
  set_layer_types(b, sliding_layers(b, 4));
  split_rope(b, b.rope_theta);
}

void granite(Builder& b) {
  b.type("granite", "GraniteForCausalLM");
  b.set_number("rms_norm_eps", "attention.layer_norm_rms_epsilon");
  add_biases(b);
  b.set_number("attention_multiplier", "attention.scale");
  b.config.set("embedding_multiplier", b.gguf.number(b.key("embedding_scale")).value_or(1));
  b.config.set("residual_multiplier", b.gguf.number(b.key("residual_scale")).value_or(1));
  b.config.set("logits_scaling", b.gguf.number(b.key("logit_scale")).value_or(1));
}

struct Architecture {
  std::string_view name;
  void (*add)(Builder&);
  bool partial_rope = false;
};

constexpr Architecture architectures[] = {
    {"gemma", gemma},
    {"gemma2", gemma2},
    {"gemma3", gemma3},
    {"granite", granite},
    {"llama", llama},
    {"olmo2", olmo2},
    {"phi3", phi3, true},
    {"qwen2", qwen},
    {"qwen2moe", qwen},
    {"qwen3", qwen},
    {"qwen3moe", qwen},
    {"smollm3", smollm3},
    {"stablelm", stablelm, true},
    {"starcoder2", starcoder2},
};

void add_ids(Builder& b) {
  const GgufSpecialTokens ids = special_tokens_of(b.gguf);
  const auto set = [&](std::string_view name, const std::optional<std::int64_t>& id) { b.config.set(name, id ? Json(*id) : Json()); };
  set("bos_token_id", ids.bos);
  set("eos_token_id", ids.eos);
  set("pad_token_id", ids.pad);
}

}  // namespace

Json config_from_gguf(const GgufFile& gguf) {
  const auto* architecture = std::find_if(std::begin(architectures), std::end(architectures), [&](const auto& a) { return a.name == gguf.architecture(); });
  if (architecture == std::end(architectures)) {
    fail(ErrorKind::unsupported, "a GGUF file of architecture {} is not supported; these are: {}", gguf.architecture().empty() ? "(none)" : gguf.architecture(),
         weights::known_gguf_architectures());
  }
  Builder b{.gguf = gguf, .config = Json::Object{}};
  b.config.set("architectures", nullptr);
  b.config.set("model_type", nullptr);
  add_shape(b);
  add_rope(b, architecture->partial_rope);
  architecture->add(b);
  add_ids(b);
  b.config.set("torch_dtype", stored_dtype(gguf));
  return std::move(b.config);
}

Json generation_config_from_gguf(const GgufFile& gguf) {
  const GgufSpecialTokens ids = special_tokens_of(gguf);
  Json config = Json::Object{{"_from_model_config", true}};
  if (ids.bos) config.set("bos_token_id", *ids.bos);
  if (ids.ends.size() == 1) config.set("eos_token_id", ids.ends.front());
  if (ids.ends.size() > 1) config.set("eos_token_id", Json::Array(ids.ends.begin(), ids.ends.end()));
  if (ids.pad) config.set("pad_token_id", *ids.pad);
  return config;
}

}  // namespace mobius::package
