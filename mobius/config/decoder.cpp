// The keys that decoder-only language models share.
#include "mobius/config/decoder.hpp"

#include <algorithm>

#include "mobius/base/error.hpp"

namespace mobius {
namespace {
constexpr std::int64_t max_layers = 4096;  // far above any published model; a typo must not fill the memory with layers
}

std::string_view DecoderDefaults::key(const ConfigReader& config, std::string_view common) const {
  for (const auto& [name, own] : own_names)
    if (name == common) return config.has(own) || !config.json().find(common) ? own : common;
  return common;
}

DecoderConfig read_decoder(const ConfigReader& r, const DecoderDefaults& d) {
  auto c = read_decoder_without_rope(r, d);
  c.rope = read_rope(r, c.rope_shape(), d.rope);
  return c;
}

DecoderConfig read_decoder_without_rope(const ConfigReader& r, const DecoderDefaults& d) {
  const auto size = [&](std::string_view common, std::int64_t otherwise) { return r.size(d.key(r, common), otherwise); };
  DecoderConfig c;
  c.model_type = r.model_type();
  c.dtype = r.dtype();
  c.vocab_size = size("vocab_size", d.vocab_size);
  c.hidden_size = size("hidden_size", d.hidden_size);
  if (d.intermediate_size) c.intermediate_size = size("intermediate_size", *d.intermediate_size);
  c.num_hidden_layers = size("num_hidden_layers", d.num_hidden_layers);
  if (c.num_hidden_layers > max_layers) r.refuse("num_hidden_layers", std::to_string(c.num_hidden_layers), fmt::format("at most {}", max_layers));
  c.num_attention_heads = size("num_attention_heads", d.num_attention_heads);
  c.num_key_value_heads = r.nullable_size(d.key(r, "num_key_value_heads"), d.num_key_value_heads).value_or(c.num_attention_heads);
  const auto head_dim = r.nullable_size("head_dim", d.head_dim);
  if (!head_dim && c.hidden_size % c.num_attention_heads != 0)
    fail(ErrorKind::invalid_argument, "{}: hidden_size {} is not a multiple of num_attention_heads {}", r.where(), c.hidden_size, c.num_attention_heads);
  c.head_dim = head_dim.value_or(c.hidden_size / c.num_attention_heads);
  if (c.num_attention_heads % c.num_key_value_heads != 0)
    fail(ErrorKind::invalid_argument, "{}: num_attention_heads {} is not a multiple of num_key_value_heads {}", r.where(), c.num_attention_heads,
         c.num_key_value_heads);
  c.max_position_embeddings = size("max_position_embeddings", d.max_position_embeddings);
  c.rms_norm_eps = r.positive(d.key(r, "rms_norm_eps"), d.rms_norm_eps);
  c.hidden_act = r.text(d.key(r, "hidden_act"), d.hidden_act);
  c.tie_word_embeddings = r.boolean("tie_word_embeddings", d.tie_word_embeddings);
  return c;
}

void set_window(DecoderConfig& config, std::optional<std::int64_t> window) {
  if (window) config.sliding_window.assign(static_cast<std::size_t>(config.num_hidden_layers), window);
}

std::vector<bool> sliding_layers(const DecoderConfig& config, const ConfigReader& reader, const std::vector<bool>& otherwise) {
  const auto kinds = reader.texts("layer_types");
  if (!kinds) return otherwise;
  if (static_cast<std::int64_t>(kinds->size()) != config.num_hidden_layers)
    fail(ErrorKind::invalid_argument, "{}: layer_types has {} entries, expected {} (num_hidden_layers)", reader.where(), kinds->size(),
         config.num_hidden_layers);
  std::vector<bool> sliding(kinds->size());
  for (std::size_t i = 0; i < kinds->size(); ++i) {
    const std::string kind = (*kinds)[i] == "attention" ? "full_attention" : (*kinds)[i];  // as older files say
    if (kind != "sliding_attention" && kind != "full_attention")
      reader.unsupported(fmt::format("layer_types[{}] = '{}' is not supported; known: full_attention, sliding_attention", i, kind));
    sliding[i] = kind == "sliding_attention";
  }
  return sliding;
}

void set_window_by_layer(DecoderConfig& config, const ConfigReader& reader, std::optional<std::int64_t> window, const std::vector<bool>& otherwise) {
  const auto sliding = sliding_layers(config, reader, otherwise);
  if (std::ranges::none_of(sliding, [](bool s) { return s; })) return;
  if (!window) reader.refuse("sliding_window", "missing", "a positive integer, since layer_types has sliding_attention layers");
  config.sliding_window.assign(sliding.size(), std::nullopt);
  for (std::size_t i = 0; i < sliding.size(); ++i)
    if (sliding[i]) config.sliding_window[i] = window;
}

std::vector<bool> all_but_every(std::int64_t period, std::int64_t layers) {
  std::vector<bool> out(static_cast<std::size_t>(layers));
  for (std::int64_t i = 0; i < layers; ++i) out[static_cast<std::size_t>(i)] = (i + 1) % period != 0;
  return out;
}

void set_rope(LayeredConfig& config, const RopeConfig& rope) { config.rope_by_layer.assign(static_cast<std::size_t>(config.num_hidden_layers), rope); }

void set_rope_by_kind(LayeredConfig& config, const std::vector<bool>& sliding, const RopeConfig& in_full, const RopeConfig& in_sliding) {
  for (const bool s : sliding) config.rope_by_layer.emplace_back(s ? in_sliding : in_full);
}

void set_window_above(DecoderConfig& config, const ConfigReader& reader) {
  const auto window = reader.nullable_size("sliding_window", 4096);
  const bool used = reader.boolean("use_sliding_window", false) && window;
  const auto from = reader.integer("max_window_layers", 28);
  std::vector<bool> sliding(static_cast<std::size_t>(config.num_hidden_layers));
  for (std::size_t i = 0; i < sliding.size(); ++i) sliding[i] = used && static_cast<std::int64_t>(i) >= from;
  set_window_by_layer(config, reader, used ? window : std::nullopt, sliding);
}

}  // namespace mobius
