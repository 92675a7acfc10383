// Reading rope keys, and the frequency formulas.
#include "mobius/config/rope.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "mobius/base/error.hpp"

namespace mobius {
namespace {

constexpr std::int64_t max_rotary_dim = 65536;  // far above any published model: there is a frequency for each pair

struct Kind {
  std::string_view name;
  RopeType type;
};
constexpr std::array kinds{
    Kind{"default", RopeType::standard},  Kind{"linear", RopeType::linear}, Kind{"dynamic", RopeType::dynamic},           Kind{"yarn", RopeType::yarn},
    Kind{"longrope", RopeType::longrope}, Kind{"llama3", RopeType::llama3}, Kind{"proportional", RopeType::proportional},
};

RopeType type_of(const ConfigReader& r, const RopeDefaults& defaults) {
  auto name = r.text("rope_type", r.text("type", "default"));
  for (const auto& [older, now] : defaults.type_aliases)
    if (name == older) name = now;
  for (const auto& k : kinds)
    if (k.name == name) return k.type;
  std::string known;
  for (const auto& k : kinds) known += (known.empty() ? "" : ", ") + std::string(k.name);
  fail(ErrorKind::unsupported, "{}: unknown rope type '{}'; known: {}", r.where(), name, known);
}

// Among rope's keys a null is as good as none, but for its one switch, which is off.
Json without_nulls(const Json& keys) {
  Json stated(Json::Object{});
  for (const auto& [name, value] : keys.as_object())
    if (!value.is_null() || name == "truncate") stated.set(name, value);
  return stated;
}

// What the config calls its rope keys: transformers lets a rope_scaling that is not empty win over rope_parameters.
std::string_view rope_key(const ConfigReader& config) {
  for (const std::string_view key : {"rope_scaling", "rope_parameters"}) {
    const auto* v = config.find(key);
    if (!v) continue;
    if (!v->is_object()) config.refuse(key, v->kind(), "an object");
    if (!v->as_object().empty()) return key;
  }
  return "rope_parameters";
}

// The parameters that hold for a layer type: the nested object of that name, or the flat object itself.
ConfigReader parameters_for(const ConfigReader& config, std::string_view layer_type) {
  auto all = rope_parameters(config);
  const std::string where = fmt::format("{}: {}", config.where(), rope_key(config));
  if (const auto* nested = layer_type.empty() ? nullptr : all.find(layer_type); nested && nested->is_object())
    return ConfigReader(without_nulls(*nested), where + "." + std::string(layer_type));
  for (const auto& [key, value] : all.as_object())
    if (value.is_object()) fail(ErrorKind::unsupported, "{} is nested by layer type ('{}', ...), which this model type does not use", where, key);
  return ConfigReader(std::move(all), where);
}

// transformers' default rope of most types doesn't look at the key; its other kinds do, and then contradict the model that calls them.
double rotated_part(const ConfigReader& config, const ConfigReader& r, RopeType type, const RopeDefaults& defaults) {
  if (type == RopeType::proportional) return 1;
  const bool unset = config.json().find("partial_rotary_factor") && !config.has("partial_rotary_factor");  // null: not the type's default, but whole heads
  const auto otherwise = unset ? 1 : defaults.partial_rotary_factor.value_or(1);
  const auto stated = r.positive("partial_rotary_factor", config.nullable_positive("partial_rotary_factor", otherwise).value_or(otherwise));
  if (defaults.partial_rotary_factor || type == RopeType::standard) return defaults.partial_rotary_factor ? stated : 1;
  if (stated != 1) r.unsupported(fmt::format("partial_rotary_factor = {} is not supported: this model type rotates whole heads", stated));
  return 1;
}

double yarn_mscale(double scale, double mscale) { return scale <= 1 ? 1.0 : 0.1 * mscale * std::log(scale) + 1.0; }

void read_yarn(RopeConfig& rope, const ConfigReader& r) {
  rope.factor = r.positive("factor", static_cast<double>(rope.max_position_embeddings) / static_cast<double>(rope.original_max_position_embeddings));
  const auto mscale = r.number("mscale", 0), mscale_all_dim = r.number("mscale_all_dim", 0);
  const bool both = mscale != 0 && mscale_all_dim != 0;
  rope.attention_factor =
      r.number("attention_factor", both ? yarn_mscale(rope.factor, mscale) / yarn_mscale(rope.factor, mscale_all_dim) : yarn_mscale(rope.factor, 1));
  const auto fast = r.number("beta_fast", 0), slow = r.number("beta_slow", 0);
  rope.beta_fast = fast != 0 ? fast : 32;
  rope.beta_slow = slow != 0 ? slow : 1;
  rope.truncate = r.boolean("truncate", true);
}

void read_longrope(RopeConfig& rope, const ConfigReader& r) {
  const auto original = static_cast<double>(rope.original_max_position_embeddings);
  rope.factor = r.positive("factor", static_cast<double>(rope.max_position_embeddings) / original);
  rope.attention_factor = r.number("attention_factor", rope.factor <= 1 ? 1.0 : std::sqrt(1 + std::log(rope.factor) / std::log(original)));
  rope.short_factor = r.numbers("short_factor");
  rope.long_factor = r.numbers("long_factor");
  for (const auto& [name, list] : {std::pair{"short_factor", &rope.short_factor}, std::pair{"long_factor", &rope.long_factor}})
    if (static_cast<std::int64_t>(list->size()) != rope.rotary_dim / 2)
      fail(ErrorKind::invalid_argument, "{}: {} has {} numbers, expected {}", r.where(), name, list->size(), rope.rotary_dim / 2);
}

void read_llama3(RopeConfig& rope, const ConfigReader& r) {
  for (const auto* key : {"factor", "low_freq_factor", "high_freq_factor"})
    if (!r.has(key)) fail(ErrorKind::not_found, "{}: {} is missing", r.where(), key);
  rope.factor = r.positive("factor", 1);
  rope.low_freq_factor = r.positive("low_freq_factor", 1);
  rope.high_freq_factor = r.positive("high_freq_factor", 4);
  // Equal ones leave nothing between the frequencies that stay and those that are divided, as in Llama 4 Scout.
  if (rope.high_freq_factor < rope.low_freq_factor)
    fail(ErrorKind::invalid_argument, "{}: high_freq_factor {} must not be below low_freq_factor {}", r.where(), rope.high_freq_factor, rope.low_freq_factor);
}

void read_proportional(RopeConfig& rope, const ConfigReader& r) {
  const auto part = r.positive("partial_rotary_factor", 1);
  if (part > 1) r.refuse("partial_rotary_factor", fmt::format("{}", part), "a number of at most 1");
  rope.turning_pairs = static_cast<std::int64_t>(std::floor(part * static_cast<double>(rope.rotary_dim) / 2));
  rope.factor = r.positive("factor", 1);
}

// An odd part is rounded up to whole pairs, whose frequencies go by the odd number: θ^(2i/d) is θ'^(2i/(d+1)).
void spread_over_odd_part(RopeConfig& rope, std::int64_t stated, const ConfigReader& r) {
  if (rope.type == RopeType::yarn || rope.type == RopeType::dynamic) r.unsupported(fmt::format("a rope of this kind on {} elements is not supported", stated));
  rope.theta = std::pow(rope.theta, static_cast<double>(rope.rotary_dim) / static_cast<double>(stated));
}

// Each key may be in its range, and the formulas still have no value: a logarithm of a negative number, a division by nothing.
void check_finite(const RopeConfig& rope, const ConfigReader& r) {
  bool all = std::isfinite(rope.attention_factor) && (rope.type != RopeType::dynamic || rope.rotary_dim > 2);
  for (const bool long_range : {false, true})
    for (const float f : inverse_frequencies(rope, long_range)) all = all && std::isfinite(f);
  if (!all) fail(ErrorKind::invalid_argument, "{} give frequencies or a scale that are no finite numbers", r.where());
}

}  // namespace

Json rope_parameters(const ConfigReader& config) {
  const auto* keys = config.find(rope_key(config));
  return keys ? without_nulls(*keys) : Json(Json::Object{});
}

RopeConfig read_rope(const ConfigReader& config, const RopeShape& shape, const RopeDefaults& defaults, std::string_view layer_type) {
  const auto r = parameters_for(config, layer_type);
  RopeConfig rope;
  rope.type = type_of(r, defaults);
  rope.max_position_embeddings = shape.max_position_embeddings;
  rope.interleaved = defaults.interleaved;
  rope.theta = (r.has("rope_theta") ? r : config).positive("rope_theta", defaults.theta);
  const auto partial = rotated_part(config, r, rope.type, defaults);
  const auto stated = static_cast<std::int64_t>(static_cast<double>(shape.head_dim) * partial);
  rope.rotary_dim = stated + stated % 2;
  if (rope.rotary_dim < 2 || rope.rotary_dim > shape.head_dim)
    fail(ErrorKind::invalid_argument, "{}: head size {} with partial_rotary_factor {} rotates {} elements; expected pairs within the head", config.where(),
         shape.head_dim, partial, stated);
  if (rope.rotary_dim > max_rotary_dim)
    fail(ErrorKind::invalid_argument, "{}: head size {} is too large, expected at most {}", config.where(), shape.head_dim, max_rotary_dim);
  if (rope.theta <= 1) config.refuse("rope_theta", fmt::format("{}", rope.theta), "a number above 1");
  if (stated % 2 != 0) spread_over_odd_part(rope, stated, r);

  const auto own_key = config.optional_size("original_max_position_embeddings");
  const auto outside = own_key ? own_key : defaults.original_max_position_embeddings;
  rope.original_max_position_embeddings = outside ? *outside : r.size("original_max_position_embeddings", shape.max_position_embeddings);
  switch (rope.type) {
    case RopeType::standard: rope.original_max_position_embeddings = 0; break;
    case RopeType::dynamic:
      if (defaults.fixed_alpha && r.number("alpha", 0) != 0) {
        const auto d = static_cast<double>(shape.head_dim);
        rope.theta *= std::pow(r.positive("alpha", 1), d / (d - 2));
        rope.type = RopeType::standard;
        rope.original_max_position_embeddings = 0;
        break;
      }
      [[fallthrough]];
    case RopeType::linear:
      if (!r.has("factor")) fail(ErrorKind::not_found, "{}: factor is missing", r.where());
      rope.factor = r.positive("factor", 1);
      rope.original_max_position_embeddings = 0;
      break;
    case RopeType::yarn: read_yarn(rope, r); break;
    case RopeType::longrope: read_longrope(rope, r); break;
    case RopeType::llama3: read_llama3(rope, r); break;
    case RopeType::proportional:
      read_proportional(rope, r);
      rope.original_max_position_embeddings = 0;
      break;
  }
  check_finite(rope, r);
  return rope;
}

RopeConfig read_rope_of_kind(const ConfigReader& config, std::string_view kind, const RopeShape& shape, RopeDefaults defaults, std::string_view older_theta) {
  Json keys(Json::Object{});
  if (const auto* all = config.find("rope_parameters")) {
    if (!all->is_object()) config.refuse("rope_parameters", all->kind(), "an object");
    for (const auto& [name, value] : all->as_object())
      if (!value.is_object() && !value.is_null())
        fail(ErrorKind::unsupported, "{}: rope_parameters is flat ('{}', ...); this model type has one object per kind of layer", config.where(), name);
    if (const auto* own = all->find(kind); own && own->is_object()) keys = *own;
  }
  const auto* scaling = config.find("rope_scaling");
  if (scaling && !scaling->is_object()) config.refuse("rope_scaling", scaling->kind(), "an object");
  if (scaling && kind == "full_attention")
    for (const auto& [key, value] : scaling->as_object()) keys.set(key, value);
  keys.erase("truncate");  // which the definition looks for beside the kinds
  if (!older_theta.empty()) defaults.theta = config.positive(older_theta, defaults.theta);
  const ConfigReader own(Json(Json::Object{{"rope_parameters", std::move(keys)}}), config.where() + " (" + std::string(kind) + ")");
  return read_rope(own, shape, defaults);
}

// ── frequencies ──────────────────────────────────────────────────────────────────────────────────────────────────────────

namespace {

// θ^(2i/d) for i = 0 ... d/2 - 1
std::vector<float> position_frequencies(const RopeConfig& rope) {
  std::vector<float> out(static_cast<std::size_t>(rope.rotary_dim / 2));
  const auto base = static_cast<float>(rope.theta);
  for (std::size_t i = 0; i < out.size(); ++i) {
    const float exponent = static_cast<float>(2 * i) / static_cast<float>(rope.rotary_dim);
    out[i] = static_cast<float>(std::pow(static_cast<double>(base), static_cast<double>(exponent)));
  }
  return out;
}

std::vector<float> yarn(const RopeConfig& rope) {
  const auto dim = static_cast<double>(rope.rotary_dim);
  const auto correction = [&](double rotations) {
    return dim * std::log(static_cast<double>(rope.original_max_position_embeddings) / (rotations * 2 * std::numbers::pi)) / (2 * std::log(rope.theta));
  };
  double low = correction(rope.beta_fast), high = correction(rope.beta_slow);
  if (rope.truncate) low = std::floor(low), high = std::ceil(high);
  low = std::max(low, 0.0);
  high = std::min(high, dim - 1);
  if (low == high) high += 0.001;  // the original's guard against a ramp without width

  auto f = position_frequencies(rope);
  for (std::size_t i = 0; i < f.size(); ++i) {
    const float ramp = std::clamp((static_cast<float>(i) - static_cast<float>(low)) / static_cast<float>(high - low), 0.0f, 1.0f);
    const float extrapolated = 1.0f / f[i], interpolated = 1.0f / (static_cast<float>(rope.factor) * f[i]), keep = 1.0f - ramp;
    f[i] = interpolated * (1.0f - keep) + extrapolated * keep;
  }
  return f;
}

std::vector<float> llama3(const RopeConfig& rope) {
  auto f = position_frequencies(rope);
  const auto original = static_cast<double>(rope.original_max_position_embeddings);
  const auto low_wavelength = static_cast<float>(original / rope.low_freq_factor), high_wavelength = static_cast<float>(original / rope.high_freq_factor);
  const auto factor = static_cast<float>(rope.factor), low = static_cast<float>(rope.low_freq_factor), high = static_cast<float>(rope.high_freq_factor);
  for (auto& x : f) {
    const float plain = 1.0f / x;
    const float wavelength = static_cast<float>(2 * std::numbers::pi) / plain;
    x = wavelength > low_wavelength ? plain / factor : plain;
    if (wavelength < high_wavelength || wavelength > low_wavelength) continue;
    const float smooth = (static_cast<float>(original) / wavelength - low) / (high - low);
    x = (1.0f - smooth) * x / factor + smooth * x;
  }
  return f;
}

}  // namespace

std::vector<float> inverse_frequencies(const RopeConfig& rope, bool long_range) {
  if (rope.type == RopeType::yarn) return yarn(rope);
  if (rope.type == RopeType::llama3) return llama3(rope);
  auto f = position_frequencies(rope);
  if (rope.type == RopeType::longrope) {
    const auto& factors = long_range ? rope.long_factor : rope.short_factor;
    for (std::size_t i = 0; i < f.size(); ++i) f[i] = 1.0f / (static_cast<float>(factors[i]) * f[i]);
    return f;
  }
  for (auto& x : f) x = 1.0f / x;
  if (rope.type == RopeType::linear || rope.type == RopeType::proportional)
    for (auto& x : f) x /= static_cast<float>(rope.factor);
  if (rope.type == RopeType::proportional) std::fill(f.begin() + rope.turning_pairs, f.end(), 0.0f);
  return f;
}

}  // namespace mobius
