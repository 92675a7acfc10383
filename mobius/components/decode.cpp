// Masks, rotary tables and caches of a decoder graph.
#include "mobius/components/decode.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "mobius/nn/module.hpp"

namespace mobius {

using ir::DataType;
using nn::Parameter;
using nn::scoped;

Decode::Decode(Tensor input_ids, Tensor attention_mask, Tensor position_ids)
    : input_ids_(input_ids), attention_mask_(attention_mask), position_ids_(position_ids) {}

// ── attention ────────────────────────────────────────────────────────────────────────────────────────────────────────────

namespace {

ir::Attributes attributes_of(const AttentionSpec& spec) {
  ir::Attributes attributes{{"q_num_heads", spec.num_heads}, {"kv_num_heads", spec.num_kv_heads}};
  if (spec.scale && std::abs(*spec.scale * std::sqrt(static_cast<double>(spec.head_dim)) - 1) > 1e-6) attributes["scale"] = static_cast<float>(*spec.scale);
  if (spec.softcap != 0) attributes["softcap"] = static_cast<float>(spec.softcap);
  return attributes;
}

}  // namespace

std::size_t Decode::add_cache(Tensor k, Tensor v, const AttentionSpec& spec) {
  const auto number = next_number();
  const auto cache = [&](std::int64_t dim) { return ir::Shape{"batch", spec.num_kv_heads, "past_sequence_len", dim}; };
  const auto past_key = past(number, "key", cache(spec.head_dim));
  const auto past_value = past(number, "value", cache(spec.value_dim.value_or(spec.head_dim)));
  caches_.push_back({number, k, v, past_key, past_value, {}, {}});
  return caches_.size() - 1;
}

Tensor Decode::mask_of(const AttentionSpec& spec) {
  if (spec.chunk) return chunk_mask(*spec.chunk);
  return spec.bias ? mask(spec.window, *spec.bias) : mask(spec.window);
}

Tensor Decode::attend(Tensor q, Tensor k, Tensor v, const AttentionSpec& spec) {
  auto& cache = caches_[add_cache(k, v, spec)];
  return cache.keep(attention_over(cache, q, mask_of(spec), spec));
}

// The keys are joined once more, so that kernels that fuse the cache into attention serve these layers too.
Tensor Decode::attend_again(Tensor q, std::size_t cache, const AttentionSpec& spec) { return attention_over(caches_.at(cache), q, mask_of(spec), spec)[0]; }

Tensor Decode::attend_masked(Tensor q, Tensor k, Tensor v, const AttentionSpec& spec, const MaskOf& mask) {
  auto& cache = caches_[add_cache(k, v, spec)];
  const auto new_values = transpose(reshape(v, {0, 0, spec.num_kv_heads, -1}), {0, 2, 1, 3});
  const auto values = concat<Tensor>({cache.past_value, new_values}, 2);
  return cache.keep(attention_over(cache, q, mask(values), spec));
}

// The result, and the keys and values of all tokens.
std::array<Tensor, 3> Decode::attention_over(const Cache& c, Tensor q, Tensor mask, const AttentionSpec& spec) {
  if (spec.sink) return attention_with_sink(c, q, mask, spec);
  return attention(q, c.new_key, c.new_value, mask, c.past_key, c.past_value, attributes_of(spec));
}

// A sink s takes part in the softmax only: every weight is multiplied by Z / (Z + eˢ) = σ(ln Z − s), with Z the sum over the keys that are seen. So the plain
// operator does the work, and its scores give Z. Where a kernel has sinks, GQAFusion takes all this back.
std::array<Tensor, 3> Decode::attention_with_sink(const Cache& c, Tensor q, Tensor mask, const AttentionSpec& spec) {
  const auto results = Tensor::apply({"", "Attention"}, {q, c.new_key, c.new_value, mask, c.past_key, c.past_value}, attributes_of(spec), 4);

  const auto heads = spec.num_heads;
  const Parameter sink(spec.sink->name(), ir::cast(ir::reshape(spec.sink->data(), {1, heads, 1, 1}), DataType::float32));
  const auto scores = q.dtype() == DataType::float32 ? results[3] : cast(results[3], DataType::float32);
  const auto seen = where(mask, scores, lowest_score(DataType::float32));
  const auto log_sum = ops::one<Tensor>({"", "ReduceLogSumExp"}, {seen, Tensor::Arg{std::vector<std::int64_t>{3}}}, {{"keepdims", std::int64_t{1}}});
  const auto share = sigmoid(log_sum - sink);  // [B, heads, S, 1]
  const auto by_token = transpose(q.dtype() == DataType::float32 ? share : cast(share, q.dtype()), {0, 2, 1, 3});
  const auto y = reshape(reshape(results[0], {0, 0, heads, spec.value_dim.value_or(spec.head_dim)}) * by_token, {0, 0, -1});
  return {y, results[1], results[2]};
}

Tensor Decode::past(std::int64_t number, const std::string& name, ir::Shape shape) {
  auto& b = input_ids_.builder();
  return b.input(past_prefix_ + std::to_string(number) + "." + name, b.dtype(), std::move(shape));
}

void Decode::output_caches() {
  std::vector<State> all;
  for (const auto& c : caches_) {
    all.push_back({c.number, "key", *c.key});
    all.push_back({c.number, "value", *c.value});
  }
  all.insert(all.end(), states_.begin(), states_.end());
  std::ranges::stable_sort(all, {}, &State::number);
  for (const auto& s : all) s.value.builder().output("present." + std::to_string(s.number) + "." + s.name, s.value);
}

// ── masks ────────────────────────────────────────────────────────────────────────────────────────────────────────────────

// Key t is visible to query s when t is a token and  ordinal(t) ≤ ordinal(s),  within a window W also  ordinal(t) > ordinal(s) − W.
// Ordinals count tokens, so padding on the left, on the right or in the middle of the cache changes nothing. A padding key gets an
// ordinal beyond all queries; a padding query left of the first token counts as the first token: every row sees something, and
// no runtime has to define a softmax over nothing.
const Decode::Ordinals& Decode::ordinals() {
  if (ordinals_) return *ordinals_;
  scoped(attention_mask_.builder(), "attention_mask", [&] {
    const auto& m = attention_mask_;
    const auto count = cumsum(m, 1);
    const auto key = where(cast(m, DataType::boolean), count, std::numeric_limits<std::int32_t>::max());
    const auto recent = slice(count, -shape(input_ids_, 1, 2), {std::numeric_limits<std::int64_t>::max()}, {1});
    const auto query = maximum(recent, 1);
    ordinals_ = Ordinals{unsqueeze(key, {1, 2}), unsqueeze(query, {1, 3})};
  });
  return *ordinals_;
}

Tensor Decode::mask(std::optional<std::int64_t> window) {
  for (const auto& m : masks_)
    if (m.window == window && !m.chunk) return m.visible;
  const auto& [key, query] = ordinals();
  const auto visible = scoped(attention_mask_.builder(), "attention_mask", [&] {
    const auto causal = less_equal(key, query);
    if (!window) return causal;
    return logical_and(causal, greater(key, query - *window));
  });
  masks_.push_back({window, std::nullopt, visible});
  return visible;
}

Tensor Decode::chunk_mask(std::int64_t chunk) {
  for (const auto& m : masks_)
    if (m.chunk == chunk) return m.visible;
  const auto& [key, query] = ordinals();
  const auto visible = scoped(attention_mask_.builder(), "attention_mask", [&] {
    const auto first = (query - 1) / chunk * chunk;  // tokens before the query's chunk
    return logical_and(less_equal(key, query), greater(key, first));
  });
  masks_.push_back({std::nullopt, chunk, visible});
  return visible;
}

double lowest_score(DataType dtype) { return dtype == DataType::float16 ? -65504.0 : -3.3895313892515355e38; }

Tensor Decode::mask(std::optional<std::int64_t> window, Tensor bias) {
  for (const auto& b : biased_)
    if (b.window == window && b.bias == bias.value()) return b.mask;
  const auto visible = mask(window);
  const auto made = scoped(bias.builder(), "attention_mask", [&] { return where(visible, bias, lowest_score(bias.dtype())); });
  biased_.push_back({window, bias.value(), made});
  return made;
}

// ── rotary positions ─────────────────────────────────────────────────────────────────────────────────────────────────────

namespace {

// Rows [first, first + rows) of a table whose row p is cos(p · f) or sin(p · f), in float32 as the original computes it.
ir::RowFunction rope_rows(std::vector<float> frequencies, double factor, bool sine) {
  return [f = std::move(frequencies), scale = static_cast<float>(factor), sine](std::int64_t first, std::int64_t rows, float* out) {
    for (std::int64_t p = first; p < first + rows; ++p)
      for (const float x : f) {
        const double angle = static_cast<float>(p) * x;
        *out++ = static_cast<float>(sine ? std::sin(angle) : std::cos(angle)) * scale;
      }
  };
}

std::string describe(const RopeConfig& r, bool sine, bool long_range) {
  auto id = fmt::format("rope {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {}", static_cast<int>(r.type), r.theta, r.rotary_dim, r.factor, r.attention_factor,
                        r.original_max_position_embeddings, r.beta_fast, r.beta_slow, r.truncate, r.low_freq_factor, r.high_freq_factor, sine, long_range,
                        r.max_position_embeddings, r.clockwise, r.turning_pairs);
  for (double x : long_range ? r.long_factor : r.short_factor) id += fmt::format(" {}", x);
  return id;
}

ir::TensorPtr rope_table(const RopeConfig& r, DataType dtype, std::int64_t rows, bool sine, bool long_range) {
  const auto factor = sine && r.clockwise ? -r.attention_factor : r.attention_factor;
  return ir::computed(dtype, {rows, r.rotary_dim / 2}, describe(r, sine, long_range), rope_rows(inverse_frequencies(r, long_range), factor, sine));
}

}  // namespace

const Decode::Rotary& Decode::rotary(const RopeConfig& rope) {
  for (const auto& r : rotaries_)
    if (r.config == rope) return r;
  const auto made = scoped(position_ids_.builder(), "rotary_emb", [&] { return rope.type == RopeType::dynamic ? computed_in_graph(rope) : table(rope); });
  return rotaries_.emplace_back(made);
}

std::string Decode::name_suffix() const { return rotaries_.empty() ? "" : "_" + std::to_string(rotaries_.size()); }

// Tables for all positions. Longrope has two sets of frequencies and picks by the longest position of this call: its table is the
// short one's rows followed by the long one's, and positions are shifted to the part that holds.
Decode::Rotary Decode::table(const RopeConfig& rope) {
  auto& b = position_ids_.builder();
  const auto suffix = name_suffix();
  const auto make = [&](const char* name, bool sine) {
    auto data = rope_table(rope, b.dtype(), rope.max_position_embeddings, sine, rope.type == RopeType::longrope);
    if (rope.type == RopeType::longrope)
      data = ir::concat({rope_table(rope, b.dtype(), rope.original_max_position_embeddings, sine, false), std::move(data)}, 0);
    return position_ids_.with(Parameter("rotary_emb." + std::string(name) + suffix, std::move(data)));
  };
  const auto cos = make("cos_cache", false), sin = make("sin_cache", true);
  if (rope.type != RopeType::longrope) return {rope, cos, sin, position_ids_};

  const auto original = rope.original_max_position_embeddings;
  const auto longest = reduce_max(position_ids_, {}, 0) + 1;
  const auto shift = cast(greater(longest, original), DataType::int64) * original;
  return {rope, cos, sin, position_ids_ + shift};
}

// Dynamic NTK: θ' = θ · ((factor · n / N) − (factor − 1))^(d / (d − 2)) with n = the longest position of this call + 1, at least N.
Decode::Rotary Decode::computed_in_graph(const RopeConfig& rope) {
  auto& b = position_ids_.builder();
  const auto d = static_cast<double>(rope.rotary_dim), trained = static_cast<double>(rope.max_position_embeddings);
  const auto length = maximum(cast(reduce_max(position_ids_, {}, 0) + 1, DataType::float32), trained);
  const auto theta = pow(length * (rope.factor / trained) - (rope.factor - 1), d / (d - 2)) * rope.theta;

  std::vector<float> exponents;
  for (std::int64_t i = 0; i < rope.rotary_dim; i += 2) exponents.push_back(-static_cast<float>(i) / static_cast<float>(rope.rotary_dim));
  const auto count = static_cast<std::int64_t>(exponents.size());
  const auto frequencies = pow(theta, Parameter("rotary_emb.exponents" + name_suffix(), ir::make_tensor({count}, std::span<const float>(exponents))));

  const auto angles = unsqueeze(cast(position_ids_, DataType::float32), {2}) * frequencies;  // [B, S, d/2]
  const auto finish = [&](Tensor t) { return b.dtype() == DataType::float32 ? t : cast(t, b.dtype()); };
  return {rope, finish(cos(angles)), finish(rope.clockwise ? -sin(angles) : sin(angles)), std::nullopt};
}

Tensor Decode::rope(Tensor x, std::int64_t heads, const RopeConfig& config) {
  const auto& r = rotary(config);
  ir::Attributes attributes{{"num_heads", heads}};
  if (config.interleaved) attributes["interleaved"] = std::int64_t{1};
  if (const auto dim = x.dim(-1).as_static(); dim && *dim != heads * config.rotary_dim) attributes["rotary_embedding_dim"] = config.rotary_dim;
  return rotary_embedding(x, r.cos, r.sin, r.positions ? Tensor::Arg(*r.positions) : Tensor::Arg(), std::move(attributes));
}

}  // namespace mobius
