// References: mixtures of experts, linear attention, causal convolution with a state.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "mobius/ops/interpreter_call.hpp"

namespace mobius::ops {
namespace {

using ir::DataType;
using ir::Dims;
using Results = std::vector<Array>;

// ── MoE ──────────────────────────────────────────────────────────────────────────────────────────────────────────────────

struct Expert {
  const OpCall& c;
  std::int64_t hidden, inter, fused;  // widths; fused: rows of fc1 per inner channel

  // y = W[e]·x + b[e], with W [E, rows, columns]
  std::vector<double> linear(std::size_t weight, std::int64_t e, const std::vector<double>& x, std::int64_t rows) const {
    auto columns = static_cast<std::int64_t>(x.size());
    std::vector<double> y(at(rows));
    for (std::int64_t r = 0; r < rows; ++r) {
      double sum = c.has(weight + 1) ? c.in(weight + 1).values.at(at(e * rows + r)) : 0;
      for (std::int64_t k = 0; k < columns; ++k) sum += c.in(weight).values.at(at((e * rows + r) * columns + k)) * x[at(k)];
      y[at(r)] = sum;
    }
    return y;
  }

  double swiglu(double gate, double up) const {
    double alpha = c.number("activation_alpha", 1), beta = c.number("activation_beta", 0), limit = c.number("swiglu_limit", 0);
    if (limit > 0) {
      gate = std::min(gate, limit);
      up = std::clamp(up, -limit, limit);
    }
    return gate / (1 + std::exp(-alpha * gate)) * (up + beta);
  }

  std::vector<double> run(std::int64_t e, const std::vector<double>& x) const {
    auto inner = linear(2, e, x, inter * fused);
    auto kind = c.text("activation_type", "relu");
    auto fusion = c.integer("swiglu_fusion", 0);
    std::vector<double> h(at(inter));
    if (kind == "swiglu") {
      auto up = fusion == 0 ? linear(6, e, x, inter) : std::vector<double>{};
      for (std::int64_t i = 0; i < inter; ++i) {
        if (fusion == 0) h[at(i)] = swiglu(inner[at(i)], up[at(i)]);
        if (fusion == 1) h[at(i)] = swiglu(inner[at(2 * i)], inner[at(2 * i + 1)]);
        if (fusion == 2) h[at(i)] = swiglu(inner[at(i)], inner[at(inter + i)]);
      }
    } else {
      for (std::int64_t i = 0; i < inter; ++i) h[at(i)] = activate(c, kind == "gelu" ? "gelu_tanh" : kind, inner[at(i)]);
      if (c.has(6)) {
        auto up = linear(6, e, x, inter);
        for (std::int64_t i = 0; i < inter; ++i) h[at(i)] *= up[at(i)];
      }
    }
    return linear(4, e, h, hidden);
  }
};

// input, router_probs, fc1, fc1_bias?, fc2, fc2_bias?, fc3?, fc3_bias?
Results moe(const OpCall& c) {
  if (c.integer("use_sparse_mixer", 0) != 0) c.unsupported("use_sparse_mixer");
  const Array &x = c.in(0), &router = c.in(1), &fc1 = c.in(2), &fc2 = c.in(4);
  if (fc1.dims.size() != 3 || fc2.dims.size() != 3 || router.dims.size() != 2)
    c.error("fc1 is {}, fc2 is {}, router_probs are {}", show(fc1.dims), show(fc2.dims), show(router.dims));
  if (x.dims.empty()) c.error("input has rank 0");
  auto hidden = x.dims.back(), inter = fc2.dims[2], experts = fc1.dims[0], k = c.integer("k", 1), tokens = size_of(x) / std::max<std::int64_t>(hidden, 1);
  bool fused = c.text("activation_type", "relu") == "swiglu" && c.integer("swiglu_fusion", 0) != 0;
  bool fits = fc1.dims == Dims{experts, inter * (fused ? 2 : 1), hidden} && fc2.dims == Dims{experts, hidden, inter} && router.dims == Dims{tokens, experts} &&
              k >= 1 && k <= experts;
  if (!fits) c.error("input is {}, router_probs are {}, fc1 is {}, fc2 is {}, k is {}", show(x.dims), show(router.dims), show(fc1.dims), show(fc2.dims), k);
  bool normalizes = c.integer("normalize_routing_weights", 0) != 0;
  Expert expert{c, hidden, inter, fused ? 2 : 1};
  Array y = zeros(x.dtype, x.dims);
  for (std::int64_t t = 0; t < tokens; ++t) {
    std::vector<double> p(router.values.begin() + t * experts, router.values.begin() + (t + 1) * experts);
    double top = *std::max_element(p.begin(), p.end()), sum = 0;
    for (auto& v : p) sum += v = std::exp(v - top);
    for (auto& v : p) v /= sum;
    std::vector<std::int64_t> order(at(experts));
    std::iota(order.begin(), order.end(), std::int64_t{0});
    std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) { return p[at(a)] > p[at(b)]; });
    double chosen = 0;
    for (std::int64_t i = 0; i < k; ++i) chosen += p[at(order[at(i)])];
    std::vector<double> row(x.values.begin() + t * hidden, x.values.begin() + (t + 1) * hidden);
    for (std::int64_t i = 0; i < k; ++i) {
      auto e = order[at(i)];
      auto out = expert.run(e, row);
      double weight = normalizes ? p[at(e)] / chosen : p[at(e)];
      for (std::int64_t h = 0; h < hidden; ++h) y.values[at(t * hidden + h)] += weight * out[at(h)];
    }
  }
  return {std::move(y)};
}

// ── linear attention ─────────────────────────────────────────────────────────────────────────────────────────────────────

// A state S [dk, dv] per key head:  S ← exp(decay)·S;  S ← S + k (β·(v − Sᵀk))ᵀ  (delta rules)  or  S + k vᵀ;  o = scale·Sᵀq
Results linear_attention(const OpCall& c) {
  const Array &query = c.in(0), &key = c.in(1), &value = c.in(2);
  auto hq = c.required("q_num_heads"), hkv = c.required("kv_num_heads");
  bool fits = hq > 0 && hkv > 0 && query.dims.size() == 3 && key.dims.size() == 3 && value.dims.size() == 3 && query.dims[2] % hq == 0 &&
              value.dims[2] % hkv == 0 && std::max(hq, hkv) % std::min(hq, hkv) == 0 && query.dims[0] == key.dims[0] && query.dims[1] == key.dims[1] &&
              key.dims[0] == value.dims[0] && key.dims[1] == value.dims[1] && query.dims[2] > 0;
  if (!fits) c.error("query {}, key {}, value {} for {} and {} heads", show(query.dims), show(key.dims), show(value.dims), hq, hkv);
  auto batch = query.dims[0], length = query.dims[1], dk = query.dims[2] / hq, dv = value.dims[2] / hkv, hk = key.dims[2] / dk, heads = std::max(hq, hkv);
  if (hk <= 0 || hkv % hk != 0) c.error("key is {} for {} heads of {}", show(key.dims), hkv, dk);
  auto rule = c.text("update_rule", "gated_delta");
  bool gated = rule == "gated" || rule == "gated_delta", delta = rule == "delta" || rule == "gated_delta";
  if (!gated && !delta && rule != "linear") c.error("update_rule '{}'", rule);
  double scale = c.number("scale", 0);
  if (scale == 0) scale = 1 / std::sqrt(static_cast<double>(dk));
  Array state = c.has(3) ? c.in(3) : zeros(query.dtype, {batch, hkv, dk, dv});
  if (state.dims != Dims{batch, hkv, dk, dv}) c.error("past_state is {}", show(state.dims));
  Array y = zeros(query.dtype, {batch, length, heads * dv});
  auto per_channel = gated && c.in(4).dims.at(2) == hkv * dk && dk > 1;
  auto beta_heads = delta ? c.in(5).dims.at(2) : 1;
  std::vector<double> update(at(dv));
  for (std::int64_t b = 0; b < batch; ++b) {
    for (std::int64_t t = 0; t < length; ++t) {
      auto row = b * length + t;
      for (std::int64_t h = 0; h < hkv; ++h) {
        double* s = state.values.data() + (b * hkv + h) * dk * dv;
        const double *k = key.values.data() + (row * hk + h / (hkv / hk)) * dk, *v = value.values.data() + (row * hkv + h) * dv;
        for (std::int64_t i = 0; gated && i < dk * dv; ++i)
          s[i] *= std::exp(c.in(4).values.at(at(per_channel ? (row * hkv + h) * dk + i / dv : row * hkv + h)));
        double beta = delta ? c.in(5).values.at(at(row * beta_heads + (beta_heads == 1 ? 0 : h))) : 1;
        for (std::int64_t j = 0; j < dv; ++j) {
          double read = 0;
          for (std::int64_t i = 0; delta && i < dk; ++i) read += s[i * dv + j] * k[i];
          update[at(j)] = beta * (v[j] - read);
        }
        for (std::int64_t i = 0; i < dk * dv; ++i) s[i] += k[i / dv] * update[at(i % dv)];
        for (std::int64_t n = h * heads / hkv; n < (h + 1) * heads / hkv; ++n) {
          const double* q = query.values.data() + (row * hq + n * hq / heads) * dk;
          for (std::int64_t i = 0; i < dk * dv; ++i) y.values[at((row * heads + n) * dv + i % dv)] += scale * s[i] * q[i / dv];
        }
      }
    }
  }
  return {std::move(y), std::move(state)};
}

// A depthwise convolution over [state, input]; the state is what the next step needs of it.
Results causal_conv(const OpCall& c) {
  if (c.integer("ndim", 1) != 1) c.unsupported("ndim {}", c.integer("ndim", 1));
  bool last = c.integer("channels_last", 0) != 0;
  Array x = last ? transposed(c.in(0), {0, 2, 1}) : c.in(0);
  const Array& weight = c.in(1);
  if (x.dims.size() != 3 || weight.dims.size() != 3 || weight.dims[0] != x.dims[1] || weight.dims[1] != 1)
    c.error("input is {}, weight is {}", show(c.in(0).dims), show(weight.dims));
  auto kernel = weight.dims[2], dilation = c.integer("dilation", 1), kept = (kernel - 1) * dilation, length = x.dims[2], rows = x.dims[0] * x.dims[1];
  Array past = c.has(3) ? (last ? transposed(c.in(3), {0, 2, 1}) : c.in(3)) : zeros(x.dtype, {x.dims[0], x.dims[1], kept});
  if (past.dims != Dims{x.dims[0], x.dims[1], kept}) c.error("past_state is {}, expected {} steps", show(past.dims), kept);
  Array y = zeros(x.dtype, x.dims), present = past;
  auto kind = c.text("activation", "none");
  for (std::int64_t r = 0; r < rows; ++r) {
    auto sample = [&](std::int64_t t) { return t < kept ? past.values[at(r * kept + t)] : x.values[at(r * length + t - kept)]; };
    auto channel = r % x.dims[1];
    for (std::int64_t t = 0; t < length; ++t) {
      double sum = c.has(2) ? c.in(2).values.at(at(channel)) : 0;
      for (std::int64_t k = 0; k < kernel; ++k) sum += weight.values[at(channel * kernel + k)] * sample(t + k * dilation);
      y.values[at(r * length + t)] = activate(c, kind, sum);
    }
    for (std::int64_t t = 0; t < kept; ++t) present.values[at(r * kept + t)] = sample(length + t);
  }
  if (last) return {transposed(y, {0, 2, 1}), transposed(present, {0, 2, 1})};
  return {std::move(y), std::move(present)};
}

}  // namespace

void add_reference_experts(ReferenceTable& table) {
  table.microsoft["MoE"] = moe;
  table.microsoft["LinearAttention"] = linear_attention;
  table.microsoft["CausalConvWithState"] = causal_conv;
  table.onnx["LinearAttention"] = linear_attention;
  table.onnx["CausalConvWithState"] = causal_conv;
}

}  // namespace mobius::ops
