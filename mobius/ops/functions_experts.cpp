// Function bodies of MoE, LinearAttention and CausalConvWithState.
#include <algorithm>

#include "mobius/ops/functions_body.hpp"

namespace mobius::ops {
namespace {

using ir::DataType;
using ir::Value;

Value* sigmoid_gate(GraphBuilder& b, Value* x, Value* argument) { return b.mul(x, b.op("Sigmoid", {argument})); }

// ── MoE: every expert on every token, then the sum with the router's weights, which are zero but for the chosen ones ────────

Value* clamped(BodyBuilder& b, Value* x, std::optional<double> low, double high) {
  return b.op("Clip", {x, low ? b.scalar_like(*low, x) : nullptr, b.scalar_like(high, x)});
}

// G·σ(αG)·(L + β), with G at most the limit and L within ± the limit
Value* swiglu(BodyBuilder& b, Value* gate, Value* up) {
  const auto& node = b.node();
  auto alpha = static_cast<double>(node.float_attribute("activation_alpha", 1)), beta = static_cast<double>(node.float_attribute("activation_beta", 0));
  auto limit = static_cast<double>(node.float_attribute("swiglu_limit", 0));
  if (limit > 0) {
    gate = clamped(b, gate, std::nullopt, limit);
    up = clamped(b, up, -limit, limit);
  }
  Value* h = sigmoid_gate(b, gate, alpha == 1 ? gate : b.mul(gate, b.scalar_like(alpha, gate)));
  return b.mul(h, beta == 0 ? up : b.add(up, b.scalar_like(beta, up)));
}

Value* activated(BodyBuilder& b, std::string_view kind, Value* x) {
  if (kind == "relu") return b.op("Relu", {x});
  if (kind == "gelu") return gelu_tanh_body(b, x);  // the form that the kernels use
  if (kind == "silu") return sigmoid_gate(b, x, x);
  return kind == "identity" ? x : nullptr;
}

// x [1, tokens, in] or [E, tokens, in], weight [E, out, in], bias? [E, out] -> [E, tokens, out]
Value* expert_linear(BodyBuilder& b, Value* x, std::size_t weight) {
  Value* y = b.matmul(x, b.transpose(b.input(weight), {0, 2, 1}));
  return b.input(weight + 1) ? b.add(y, b.unsqueeze(b.input(weight + 1), {1})) : y;
}

// [tokens, E]: softmax of the logits, kept where among the k largest.
Value* routing_weights(BodyBuilder& b) {
  const auto& node = b.node();
  Value* p = b.op("Softmax", {b.input(1)}, {{"axis", std::int64_t{-1}}});
  auto top = b.op_n("TopK", {p, b.ints({node.int_attribute("k", 1)})}, 2, {{"axis", std::int64_t{-1}}});
  Value* chosen = top[0];
  if (node.int_attribute("normalize_routing_weights", 0) != 0) chosen = b.div(chosen, b.reduce("ReduceSum", chosen, {-1}));
  return b.op("ScatterElements", {b.sub(p, p), top[1], chosen}, {{"axis", std::int64_t{1}}});
}

// input, router_probs, fc1, fc1_bias?, fc2, fc2_bias?, fc3?, fc3_bias?
std::optional<ir::Function> moe(BodyBuilder& b) {
  const auto& node = b.node();
  auto kind = node.string_attribute("activation_type", "relu");
  auto fusion = node.int_attribute("swiglu_fusion", 0);
  if (node.int_attribute("use_sparse_mixer", 0) != 0 || fusion < 0 || fusion > 2 || (kind == "swiglu" && fusion == 0 && !b.input(6))) return std::nullopt;
  Value* x = b.unsqueeze(b.reshape(b.input(0), b.concat({b.ints({-1}), b.last_dim_of(b.input(0))}, 0)), {0});  // [1, tokens, H]
  Value *inner = expert_linear(b, x, 2), *h = nullptr;
  if (kind != "swiglu") {
    h = activated(b, kind, inner);
    if (!h) return std::nullopt;
    if (b.input(6)) h = b.mul(h, expert_linear(b, x, 6));
  } else if (fusion == 0) {
    h = swiglu(b, inner, expert_linear(b, x, 6));
  } else if (fusion == 1) {
    auto parts = b.split(b.reshape(inner, {0, 0, -1, 2}), {1, 1}, 3);
    h = swiglu(b, b.squeeze(parts[0], {3}), b.squeeze(parts[1], {3}));
  } else {
    auto parts = b.halves(inner, -1);
    h = swiglu(b, parts[0], parts[1]);
  }
  Value* weights = b.unsqueeze(b.transpose(routing_weights(b), {1, 0}), {2});  // [E, tokens, 1]
  Value* y = b.reduce("ReduceSum", b.mul(expert_linear(b, h, 4), weights), {0}, false);
  b.output(0, b.reshape(y, b.op("Shape", {b.input(0)})));
  return b.finish();
}

// ── LinearAttention: one Scan step per token ─────────────────────────────────────────────────────────────────────────────

struct LinearRule {
  std::int64_t q_heads, k_heads, kv_heads;  // of queries, of keys, of values and states
  bool gated, delta;
};

// Keys may have fewer heads than values, as many as their width holds heads of the query's.
std::int64_t key_heads(const ir::Node& node) {
  auto width = [&](std::size_t i) {
    const auto* value = node.input(i);
    return value && value->shape() && !value->shape()->empty() ? value->shape()->back().as_static() : std::nullopt;
  };
  auto q = width(0), k = width(1);
  auto q_heads = node.int_attribute("q_num_heads", 0), kv_heads = node.int_attribute("kv_num_heads", 0);
  if (!q || !k || q_heads <= 0 || *q < q_heads || *k * q_heads % *q != 0) return kv_heads;
  return *k * q_heads / *q;
}
std::string key_heads_text(const ir::Node& node) { return " k_heads=" + std::to_string(key_heads(node)); }

// One token: S ← exp(g)·S;  S ← S + k β(v − kᵀS);  o = qᵀS. Inputs: state [B, KV, dk, dv], q, k, v, (decay,) (beta) [B, heads, ·].
ir::GraphPtr linear_attention_step(const LinearRule& rule, std::int64_t opset) {
  auto graph = std::make_shared<ir::Graph>();
  graph->name = "step";
  auto input = [&](const char* name) { return graph->add_input(name, {}); };
  Value *state = input("step_state"), *q = input("step_q"), *k = input("step_k"), *v = input("step_v");
  Value* decay = rule.gated ? input("step_decay") : nullptr;
  Value* beta = rule.delta ? input("step_beta") : nullptr;
  GraphBuilder b(*graph, opset, "step_");
  if (rule.k_heads != rule.kv_heads) {
    auto repeats = b.ints({1, 1, rule.kv_heads / rule.k_heads, 1});
    k = b.reshape(b.op("Expand", {b.unsqueeze(k, {2}), repeats}), {0, rule.kv_heads, -1});
  }
  Value* s = decay ? b.mul(state, b.op("Exp", {b.unsqueeze(decay, {3})})) : state;  // [B, KV, dk | 1, 1]
  Value* update = b.unsqueeze(v, {2});                                              // [B, KV, 1, dv]
  if (beta) update = b.mul(b.sub(update, b.matmul(b.unsqueeze(k, {2}), s)), b.unsqueeze(beta, {3}));
  s = b.add(s, b.matmul(b.unsqueeze(k, {3}), update));
  Value* o = nullptr;
  if (rule.q_heads >= rule.kv_heads) {
    // Query heads of one state side by side: [B, KV, N/KV, dk].
    auto size = b.ints({0, rule.kv_heads, rule.q_heads / rule.kv_heads, -1});
    o = b.matmul(b.reshape(q, size), s);
  } else {
    // States of one query head side by side: [B, N, KV/N, dk, dv].
    Value* shape = b.concat({b.ints({0, rule.q_heads, rule.kv_heads / rule.q_heads}), b.dims_of(s, 2, 4)}, 0);
    o = b.matmul(b.unsqueeze(q, {2, 3}), b.reshape(s, shape));
  }
  graph->add_output(s);
  graph->add_output(b.reshape(o, {0, -1}));
  return graph;
}

// query, key, value, past_state?, decay?, beta? -> output, present_state?
std::optional<ir::Function> linear_attention(BodyBuilder& b) {
  const auto& node = b.node();
  auto kind = node.string_attribute("update_rule", "gated_delta");
  LinearRule rule{node.int_attribute("q_num_heads", 0), key_heads(node), node.int_attribute("kv_num_heads", 0), kind == "gated" || kind == "gated_delta",
                  kind == "delta" || kind == "gated_delta"};
  bool heads = rule.q_heads > 0 && rule.kv_heads > 0 && std::max(rule.q_heads, rule.kv_heads) % std::min(rule.q_heads, rule.kv_heads) == 0 &&
               rule.k_heads > 0 && rule.kv_heads % rule.k_heads == 0;
  bool known = kind == "linear" || rule.gated || rule.delta;
  if (!heads || !known || (rule.gated && !b.input(4)) || (rule.delta && !b.input(5)) || node.int_attribute("state_window", 0) != 0) return std::nullopt;

  // Everything runs in the state's type, which may be wider than the input's.
  Value* like = b.input(3) ? b.input(3) : b.input(0);
  auto by_heads = [&](std::size_t i, std::int64_t n) { return b.reshape(b.cast_like(b.input(i), like), {0, 0, n, -1}); };
  Value *q = by_heads(0, rule.q_heads), *k = by_heads(1, rule.k_heads), *v = by_heads(2, rule.kv_heads);
  auto scale = static_cast<double>(node.float_attribute("scale", 0));
  q = scale != 0 ? b.mul(q, b.scalar_like(scale, q)) : b.div(q, b.op("Sqrt", {b.cast_like(b.last_dim_of(q), q)}));
  Value* state = b.input(3);
  if (!state) {
    Value* shape = b.concat({b.dim_of(q, 0), b.ints({rule.kv_heads}), b.last_dim_of(k), b.last_dim_of(v)}, 0);
    state = b.op("Expand", {b.scalar_like(0, q), shape});
  }
  // Time first: not every runtime scans another axis.
  std::vector<Value*> inputs{state, q, k, v};
  if (rule.gated) inputs.push_back(by_heads(4, rule.kv_heads));                       // [B, T, KV, dk | 1]
  if (rule.delta) inputs.push_back(b.unsqueeze(b.cast_like(b.input(5), like), {3}));  // [B, T, KV | 1, 1]
  for (std::size_t i = 1; i < inputs.size(); ++i) inputs[i] = b.transpose(inputs[i], {1, 0, 2, 3});
  ir::Attributes attributes{{"body", linear_attention_step(rule, b.opset())}, {"num_scan_inputs", static_cast<std::int64_t>(inputs.size()) - 1}};
  ir::Node* scan = b.graph().append({"", "Scan"}, inputs, std::move(attributes), 2);
  scan->name = "Scan";
  b.output(0, b.cast_like(b.transpose(scan->output(1), {1, 0, 2}), b.input(0)));
  b.output(1, scan->output(0));
  return b.finish();
}

// ── CausalConvWithState: a depthwise convolution over [state, input] ────────────────────────────────────────────────────────

std::optional<ir::Function> causal_conv(BodyBuilder& b) {
  const auto& node = b.node();
  auto weight = node.input(1) && node.input(1)->shape() ? ir::static_shape(*node.input(1)->shape()) : std::nullopt;
  auto kind = node.string_attribute("activation", "none");
  bool activates = kind == "silu" || kind == "swish";
  if (!weight || weight->size() != 3 || node.int_attribute("ndim", 1) != 1 || node.int_attribute("state_window", 0) != 0 || (!activates && kind != "none"))
    return std::nullopt;
  auto dilation = node.int_attribute("dilation", 1), kept = ((*weight)[2] - 1) * dilation;
  bool last = node.int_attribute("channels_last", 0) != 0;
  auto channels_first = [&](Value* x) { return last ? b.transpose(x, {0, 2, 1}) : x; };
  Value* x = channels_first(b.input(0));
  Value* whole = b.input(3) ? b.concat({b.cast_like(channels_first(b.input(3)), x), x}, 2) : b.op("Pad", {x, b.ints({0, 0, kept, 0, 0, 0})});
  Value* y = b.op("Conv", {whole, b.input(1), b.input(2)},
                  {{"group", (*weight)[0]}, {"dilations", std::vector<std::int64_t>{dilation}}, {"kernel_shape", std::vector<std::int64_t>{(*weight)[2]}}});
  if (activates) y = sigmoid_gate(b, y, y);
  Value* present = b.slice(whole, b.dim_of(x, 2), b.everything(), 2);
  if (b.input(3)) present = b.cast_like(present, b.input(3));
  b.output(0, channels_first(y));
  b.output(1, channels_first(present));
  return b.finish();
}

std::string weight_shape(const ir::Node& node) {
  const Value* weight = node.input(1);
  return weight && weight->shape() ? " weight=" + ir::to_string(*weight->shape()) : " weight=?";
}

}  // namespace

void add_expert_functions(FunctionTable& table) {
  table[{"com.microsoft", "MoE"}] = {moe,
                                     {"input", "router_probs", "fc1_experts_weights", "fc1_experts_bias", "fc2_experts_weights", "fc2_experts_bias",
                                      "fc3_experts_weights", "fc3_experts_bias"}};
  FunctionEntry linear{linear_attention, {"query", "key", "value", "past_state", "decay", "beta"}, {}, {{"scale", 0.0F}}, key_heads_text};
  FunctionEntry conv{causal_conv, {"input", "weight", "bias", "past_state"}, {}, {}, weight_shape};
  table[{"com.microsoft", "LinearAttention"}] = linear;
  table[{"com.microsoft", "CausalConvWithState"}] = conv;
  table[{"", "LinearAttention"}] = linear;
  table[{"", "CausalConvWithState"}] = conv;
}

}  // namespace mobius::ops
