// Experts behind gates: grouped by Dispatch, or com.microsoft's MoE.
#include <algorithm>

#include "mobius/base/error.hpp"
#include "mobius/components/experts.hpp"
#include "mobius/ep/context.hpp"
#include "mobius/nn/module.hpp"

namespace mobius {

using nn::scoped;

// ── gating ───────────────────────────────────────────────────────────────────────────────────────────────────────────────

Gating::Gating(std::string activation) : activation_(std::move(activation)) {
  if (activation_ == "silu" || activation_ == "swish") swiglu_ = SwiGLU{};
  if (activation_ == "quick_gelu") swiglu_ = SwiGLU{.alpha = 1.702};
}

Tensor Gating::operator()(Tensor gate, Tensor up) const {
  if (!swiglu_) return nn::activation(activation_, gate) * up;
  const auto [alpha, beta, limit] = *swiglu_;
  if (limit) {
    gate = minimum(gate, *limit);
    up = clip(up, -*limit, *limit);
  }
  const auto opened = gate * sigmoid(alpha == 1 ? gate : gate * alpha);
  return beta == 0 ? opened * up : (up + beta) * opened;
}

// ── weights ──────────────────────────────────────────────────────────────────────────────────────────────────────────────

namespace {

// Rows of a [experts, n, ...] and of b taking turns: [experts, 2n, ...]. Nothing is transposed: rows are read where they lie.
ir::TensorPtr interleaved(const ir::TensorPtr& a, const ir::TensorPtr& b) {
  auto row = a->dims(), both = row;
  both[1] *= 2;
  row.insert(row.begin() + 2, 1);
  return ir::reshape(ir::concat({ir::reshape(a, row), ir::reshape(b, row)}, 2), std::move(both));
}

ir::TensorPtr turned(const ir::TensorPtr& w) { return ir::transpose(w, {0, 2, 1}); }

ExpertMatrix interleaved(const Scope& at, const ExpertMatrix& gate, const ExpertMatrix& up) {
  ExpertMatrix both{{(at / "gate_up" / "weight").path(), turned(interleaved(turned(gate.weight.data()), turned(up.weight.data())))}};
  expect(gate.bias.has_value() == up.bias.has_value(), "experts have a bias of the gate or of the other projection alone");
  if (gate.bias) both.bias = Parameter((at / "gate_up" / "bias").path(), interleaved(gate.bias->data(), up.bias->data()));
  return both;
}

Parameter every_other(const Parameter& both, std::string name, std::int64_t first) {
  const auto axis = static_cast<std::int64_t>(both.dims().size()) - 1;
  std::vector<std::int64_t> columns(static_cast<std::size_t>(both.dims().back() / 2));
  for (std::size_t i = 0; i < columns.size(); ++i) columns[i] = first + 2 * static_cast<std::int64_t>(i);
  return {std::move(name), ir::take(both.data(), axis, std::move(columns))};
}

ExpertMatrix every_other(const Scope& at, const ExpertMatrix& both, std::int64_t first) {
  ExpertMatrix half{every_other(both.weight, (at / "weight").path(), first)};
  if (both.bias) half.bias = every_other(*both.bias, (at / "bias").path(), first);
  return half;
}

}  // namespace

GatedExperts::GatedExperts(const Scope& at, const ExpertSizes& s, Gating gating, const ExpertNames& names)
    : GatedExperts(at, s.experts, std::move(gating), {stack_experts(at, s.experts, names.gate, s.inner, s.hidden)},
                   {stack_experts(at, s.experts, names.up, s.inner, s.hidden)}, {stack_experts(at, s.experts, names.down, s.hidden, s.inner)}) {}

GatedExperts::GatedExperts(Scope at, std::int64_t experts, Gating gating, ExpertMatrix gate, ExpertMatrix up, ExpertMatrix down)
    : scope_(std::move(at)),
      experts_(experts),
      gating_(std::move(gating)),
      gate_(std::move(gate)),
      up_(std::move(up)),
      down_(std::move(down)),
      gate_up_(interleaved(scope_, gate_, up_)) {}

GatedExperts GatedExperts::taking_turns(const Scope& at, std::int64_t experts, Gating gating, const ExpertMatrix& gate_up, ExpertMatrix down) {
  GatedExperts e(at, experts, std::move(gating), every_other(at / "gate_proj", gate_up, 0), every_other(at / "up_proj", gate_up, 1), std::move(down));
  e.gate_up_ = gate_up;
  return e;
}

// ── experts ──────────────────────────────────────────────────────────────────────────────────────────────────────────────

Tensor GatedExperts::operator()(Tensor tokens, const Routing& routing) const {
  return scoped(tokens.builder(), scope_.path(), [&] { return have_kernel(tokens, routing) ? fused(tokens, routing) : grouped(tokens, routing); });
}

Tensor GatedExperts::grouped(Tensor tokens, const Routing& routing) const {
  const Dispatch to(routing, experts_);
  const auto x = to.group(tokens);
  const auto linear = [&](Tensor in, const ExpertMatrix& m) { return to.linear(in, m.weight, m.bias); };
  const auto gate = linear(x, gate_), up = linear(x, up_);
  return to.combine(to.choices(linear(gating_(gate, up), down_)));
}

namespace {

bool is_never_negative(const ir::Value* value);

bool operands_are_never_negative(const ir::Node& node) {
  return std::ranges::all_of(node.inputs(), [](const ir::Value* in) { return is_never_negative(in); });
}

// Whether the graph shows it: a weight that comes out of a softmax, a sigmoid and the like, and of what is done to those.
bool is_never_negative(const ir::Value* value) {
  constexpr std::string_view sources[] = {"Softmax", "Sigmoid", "Exp", "Abs", "Relu", "ReduceL1", "ReduceL2"};
  constexpr std::string_view of_first[] = {"TopK",    "GatherElements", "Gather",  "Cast", "ReduceSum", "ReduceMax",
                                           "Reshape", "Unsqueeze",      "Squeeze", "Sqrt", "Pow",       "Reciprocal"};
  constexpr std::string_view of_all[] = {"Add", "Mul", "Div", "Max", "Min", "Concat"};
  if (!value) return false;
  if (value->data() && ir::is_floating_point(value->dtype())) {
    const auto constants = ir::as_doubles(*value->data());
    return constants && std::ranges::all_of(*constants, [](double v) { return v >= 0; });
  }
  const auto* node = value->producer();
  if (!node || !node->op.domain.empty()) return false;
  const auto is_one_of = [&](const auto& types) { return std::ranges::find(types, node->op.type) != std::end(types); };
  if (is_one_of(sources)) return true;
  if (is_one_of(of_first)) return is_never_negative(node->input(0));
  if (node->op.type == "Where") return is_never_negative(node->input(1)) && is_never_negative(node->input(2));
  return is_one_of(of_all) && operands_are_never_negative(*node);
}

// Routers that lose nothing in the kernel's dtype.
bool is_the_kernels_own(const Routing& routing, ir::DataType dtype) { return routing.softmax && routing.softmax->logits.dtype() == dtype; }

// Logits whose softmax gives each token the chosen experts' weights, as shares of their sum, and nothing to others. [tokens, experts]
Tensor logits_of(const Routing& routing, std::int64_t experts, ir::DataType dtype) {
  constexpr double least = 1e-37;   // a weight of zero has a logarithm then, and is nothing beside those that are not
  constexpr double nothing = -1e4;  // below every logarithm, and exp(nothing) is zero, in float16 too
  auto logits = log(maximum(routing.weights, least));
  // Narrow types are exact where the logarithm is near zero: there stand the weights that count.
  if (dtype != ir::DataType::float32) logits = logits - reduce_max(logits, {-1});
  const auto is_chosen = equal(unsqueeze(routing.experts, {2}), counted_from_zero(routing.experts, experts));  // [tokens, k, experts]
  const auto scattered = reduce_max(where(is_chosen, unsqueeze(logits, {2}), nothing), {1}, 0);
  return dtype == ir::DataType::float32 ? scattered : cast(scattered, dtype);
}

}  // namespace

bool GatedExperts::have_kernel(Tensor tokens, const Routing& routing) const {
  const auto& ep = ep_capabilities();
  const auto fits = [&](std::int64_t size) { return size % ep.fused_moe_size_multiple == 0; };
  // Some routers give a place to an expert that counts nothing, and so may choose more than there are; the kernel can't.
  return gating_.swiglu() && routing.experts.dim(1).value() <= experts_ && ep.fused_moe_dtypes.contains(tokens.dtype()) && fits(down_.weight.dims()[1]) &&
         fits(down_.weight.dims()[2]) && (is_the_kernels_own(routing, tokens.dtype()) || is_never_negative(routing.weights.value()));
}

// The kernel's router is a softmax over logits and the k largest of it. Any other is told to it by the logarithms of its weights, and what the kernel makes
// of their sum, which is 1, is made good afterwards.
Tensor GatedExperts::fused(Tensor tokens, const Routing& routing) const {
  const auto& own = routing.softmax;
  const bool is_plain = is_the_kernels_own(routing, tokens.dtype());
  const auto turned_parameter = [&](const Parameter& w, std::string_view name) { return Parameter((scope_ / name).path(), turned(w.data())); };
  const auto fc1 = turned_parameter(gate_up_.weight, "fc1.weight"), fc2 = turned_parameter(down_.weight, "fc2.weight");
  const auto optional = [](const std::optional<Parameter>& p) { return p ? Tensor::Arg(*p) : Tensor::Arg(); };

  const auto& swiglu = *gating_.swiglu();
  Tensor::AttrArgs attributes{{"k", routing.experts.dim(1).value()},
                              {"activation_type", std::string("swiglu")},
                              {"swiglu_fusion", std::int64_t{1}},
                              {"activation_alpha", static_cast<float>(swiglu.alpha)},
                              {"activation_beta", static_cast<float>(swiglu.beta)},
                              {"normalize_routing_weights", std::int64_t{!is_plain || own->normalises}}};
  if (swiglu.limit) attributes["swiglu_limit"] = static_cast<float>(*swiglu.limit);
  const auto logits = is_plain ? own->logits : logits_of(routing, experts_, tokens.dtype());
  const auto y = ops::one<Tensor>({ops::microsoft, "MoE"}, {tokens, logits, fc1, optional(gate_up_.bias), fc2, optional(down_.bias)}, std::move(attributes));
  if (is_plain) return own->scale == 1 ? y : y * own->scale;
  const auto sum = reduce_sum(routing.weights, {-1});
  return y * (sum.dtype() == y.dtype() ? sum : cast(sum, y.dtype()));
}

}  // namespace mobius
