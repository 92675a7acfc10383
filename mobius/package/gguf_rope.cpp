// Rope scaling: llama.cpp stores llama3 scaling only as its effect, a tensor of factors; here the parameters are found again.
#include "mobius/package/gguf_rope.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <numbers>

#include "mobius/base/error.hpp"

namespace mobius::package {
namespace {

using formats::GgufFile;

std::string key(const GgufFile& gguf, std::string_view name) { return fmt::format("{}.rope.{}", gguf.architecture(), name); }

// A small float32 vector; nullopt when the tensor is absent. Values are the decimal numbers they stand for.
std::optional<std::vector<double>> vector_of(const GgufFile& gguf, std::string_view name, std::int64_t size) {
  const ir::TensorPtr tensor = gguf.tensor(name);
  if (!tensor) return std::nullopt;
  if (tensor->dtype() != ir::DataType::float32 || tensor->elements() != static_cast<std::uint64_t>(size)) {
    fail(ErrorKind::corrupt_file, "tensor {} is {} x {}, expected {} x f32", name, tensor->elements(), ir::short_name(tensor->dtype()), size);
  }
  const std::vector<std::byte> bytes = tensor->bytes();
  std::vector<double> values;
  for (std::size_t i = 0; i + 4 <= bytes.size(); i += 4) {
    float value;
    std::memcpy(&value, bytes.data() + i, 4);
    if (!std::isfinite(value) || value <= 0) fail(ErrorKind::corrupt_file, "tensor {} holds {}, expected positive factors", name, value);
    values.push_back(std::strtod(fmt::format("{}", value).c_str(), nullptr));
  }
  return values;
}

Json array(const std::vector<double>& values) { return Json::Array(values.begin(), values.end()); }

// llama3 with its usual parameters; the factor itself is the largest in the tensor.
Json llama3(const std::vector<double>& factors, std::int64_t rotary_dim, double rope_theta) {
  const double factor = *std::max_element(factors.begin(), factors.end());
  if (factor == 1) return nullptr;
  const std::vector<double> expected = llama3_rope_factors(rotary_dim, rope_theta, factor, 1, 4, 8192);
  for (std::size_t i = 0; i < factors.size(); ++i) {
    if (std::abs(factors[i] - expected[i]) <= 1e-4 * expected[i]) continue;
    fail(ErrorKind::unsupported,
         "rope_freqs.weight[{}] is {}, but llama3 scaling by {} (low 1, high 4, original length 8192) gives {}: rope scaling of another kind", i, factors[i],
         factor, expected[i]);
  }
  return Json::Object{
      {"rope_type", "llama3"}, {"factor", factor}, {"low_freq_factor", 1.0}, {"high_freq_factor", 4.0}, {"original_max_position_embeddings", 8192}};
}

Json longrope(const std::vector<double>& long_factor, const std::vector<double>& short_factor, std::int64_t original_length) {
  return Json::Object{{"rope_type", "longrope"},
                      {"type", "longrope"},
                      {"long_factor", array(long_factor)},
                      {"short_factor", array(short_factor)},
                      {"original_max_position_embeddings", original_length}};
}

Json yarn(const GgufFile& gguf, double factor) {
  Json::Object scaling{{"rope_type", "yarn"}, {"factor", factor}};
  if (const auto length = gguf.integer(key(gguf, "scaling.original_context_length"))) scaling.emplace_back("original_max_position_embeddings", *length);
  if (const auto x = gguf.number(key(gguf, "scaling.yarn_attn_factor"))) scaling.emplace_back("attention_factor", *x);
  if (const auto x = gguf.number(key(gguf, "scaling.yarn_beta_fast"))) scaling.emplace_back("beta_fast", *x);
  if (const auto x = gguf.number(key(gguf, "scaling.yarn_beta_slow"))) scaling.emplace_back("beta_slow", *x);
  for (std::string_view name : {"scaling.yarn_log_multiplier", "scaling.attn_factor"}) {
    const std::string full = key(gguf, name);
    if (gguf.find(full)) fail(ErrorKind::unsupported, "metadata {} has no counterpart in rope_scaling", full);
  }
  if (const auto x = gguf.number(key(gguf, "scaling.yarn_ext_factor")); x && *x != 1 && *x != -1) {
    fail(ErrorKind::unsupported, "metadata {} is {}, which has no counterpart in rope_scaling", key(gguf, "scaling.yarn_ext_factor"), *x);
  }
  return scaling;
}

// Scaling that is stated by keys.
Json stated(const GgufFile& gguf) {
  const std::string* type = gguf.string(key(gguf, "scaling.type"));
  std::optional<double> factor = gguf.number(key(gguf, "scaling.factor"));
  if (!type && !factor) {
    factor = gguf.number(key(gguf, "scale_linear"));  // what files said before scaling.type
    return factor && *factor != 1 ? Json(Json::Object{{"rope_type", "linear"}, {"factor", *factor}}) : Json();
  }
  const std::string_view kind = type ? std::string_view(*type) : "linear";
  if (kind == "none" || kind == "longrope") return nullptr;  // longrope: its tensors say the rest
  if (!factor || !std::isfinite(*factor) || *factor <= 0) {
    fail(ErrorKind::corrupt_file, "metadata {} is absent or not positive", key(gguf, "scaling.factor"));
  }
  if (kind == "linear") return *factor == 1 ? Json() : Json(Json::Object{{"rope_type", "linear"}, {"factor", *factor}});
  if (kind == "yarn") return yarn(gguf, *factor);
  fail(ErrorKind::unsupported, "rope scaling {} is not supported (linear, yarn, longrope and llama3 are)", kind);
}

}  // namespace

std::vector<double> llama3_rope_factors(std::int64_t rotary_dim, double rope_theta, double factor, double low_freq_factor, double high_freq_factor,
                                        double original_max_position_embeddings) {
  std::vector<double> factors;
  for (std::int64_t i = 0; i < rotary_dim; i += 2) {
    const double frequency = std::pow(rope_theta, -static_cast<double>(i) / static_cast<double>(rotary_dim));
    const double wavelength = 2 * std::numbers::pi / frequency;
    if (wavelength < original_max_position_embeddings / high_freq_factor) {
      factors.push_back(1);
    } else if (wavelength > original_max_position_embeddings / low_freq_factor) {
      factors.push_back(factor);
    } else {
      const double smooth = (original_max_position_embeddings / wavelength - low_freq_factor) / (high_freq_factor - low_freq_factor);
      factors.push_back(1 / ((1 - smooth) / factor + smooth));
    }
  }
  return factors;
}

Json rope_scaling_from_gguf(const GgufFile& gguf, std::int64_t rotary_dim, double rope_theta) {
  Json scaling = stated(gguf);
  const auto freqs = vector_of(gguf, "rope_freqs.weight", rotary_dim / 2);
  const auto longs = vector_of(gguf, "rope_factors_long.weight", rotary_dim / 2);
  const auto shorts = vector_of(gguf, "rope_factors_short.weight", rotary_dim / 2);
  const int kinds = (scaling.is_null() ? 0 : 1) + (freqs ? 1 : 0) + (longs || shorts ? 1 : 0);
  if (kinds > 1) fail(ErrorKind::unsupported, "two kinds of rope scaling at once are not supported");

  if (freqs && !freqs->empty()) return llama3(*freqs, rotary_dim, rope_theta);
  if (longs || shorts) {
    const auto length = gguf.integer(key(gguf, "scaling.original_context_length"));
    if (!longs || !shorts || !length)
      fail(ErrorKind::corrupt_file, "longrope needs rope_factors_long.weight, rope_factors_short.weight and {}", key(gguf, "scaling.original_context_length"));
    return longrope(*longs, *shorts, *length);
  }
  return scaling;
}

}  // namespace mobius::package
