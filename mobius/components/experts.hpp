// Mixtures of experts (arXiv 1701.06538): a router chooses k experts for each token, and the token's result is the weighted sum of theirs.
//
//   const auto tokens = reshape(x, {-1, hidden});                          // [tokens, hidden]
//   auto routing = choose_by_softmax(gate(tokens), 8);                     // experts and their weights, [tokens, 8]
//   return reshape(experts(tokens, normalised(routing)), shape(x));
//
// A router is a few of the functions below, one after the other. Scores are float32 whatever the model computes in.
//
// The experts of a layer are one stack of matrices each for gate, up and down, and no loop: tokens are grouped by expert into
// [experts in use, most tokens of one, hidden], which one MatMul multiplies with the stack of just those experts. So a token that is decoded alone
// reads the weights of its k experts only, a prompt reads each expert's once, and the graph is as long for 8 experts as for 256.
// Where an execution provider has no place for shapes that depend on values (its graphs are captured), every expert gets every token instead. Where it has
// a kernel for all of that, com.microsoft's MoE, GatedExperts are that one operator.
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "mobius/config/decoder.hpp"
#include "mobius/nn/layers.hpp"

namespace mobius {

using nn::Module;
using nn::Parameter;
using nn::Scope;
using nn::Tensor;

// ── routers ──────────────────────────────────────────────────────────────────────────────────────────────────────────────

// A router that kernels have themselves: the k largest of a softmax, whose sum may be made 1; then scaled.
struct SoftmaxRouter {
  Tensor logits;  // [tokens, experts]
  bool normalises = false;
  double scale = 1;
};

struct Routing {
  Tensor weights, experts;                    // [tokens, k]; experts are int64
  std::optional<SoftmaxRouter> softmax = {};  // what gives the same, where there is one
};

Tensor in_float32(Tensor x);
// 0, 1, ..., count − 1: int64 [count], in the same graph.
Tensor counted_from_zero(Tensor at, std::int64_t count);

// The k experts of the highest score; their scores are the weights.
Routing choose(Tensor scores, std::int64_t k);
// The k most probable experts, by a softmax over all or over the chosen: logits of any float type.
Routing choose_by_softmax(Tensor logits, std::int64_t k);
Routing choose_then_soften(Tensor logits, std::int64_t k);
// The k experts of the highest `preference`; their weights are still `scores` (a correction bias steers the choice alone).
Routing choose_by(Tensor preference, Tensor scores, std::int64_t k);

// Weights divided by their sum + `epsilon`.
Routing normalised(Routing r, double epsilon = 0);
Routing scaled(Routing r, double factor);

// Group-limited routing (arXiv 2405.04434, 2412.19437): experts outside the `kept` best of `groups` equal groups get the preference `outside`. A group is
// worth the sum of its `counted` best experts.
struct GroupLimit {
  std::int64_t experts = 0, groups = 1, kept = 1, counted = 1;
  double outside = 0;
};
Tensor within_groups(Tensor preference, const GroupLimit& limit);

// ── weights ──────────────────────────────────────────────────────────────────────────────────────────────────────────────

// One Linear per expert in the checkpoint, {at}.{e}.{name}.weight [out, in], as one stack [experts, in, out].
Parameter stack_experts(const Scope& at, std::int64_t experts, std::string_view name, std::int64_t out, std::int64_t in);
// The same of a checkpoint tensor w [experts, out, in], of which rows [begin, end) of each expert are meant; absent: all.
Parameter turned(const Parameter& w, std::string name);
Parameter turned_rows(const Parameter& w, std::string name, std::int64_t begin, std::int64_t end);

// ── experts ──────────────────────────────────────────────────────────────────────────────────────────────────────────────

// Tokens grouped by the experts that they were sent to.
class Dispatch {
 public:
  Dispatch(Routing routing, std::int64_t num_experts);

  // [tokens, n] or, a row of its own for each choice, [tokens, k, n] -> [used, capacity, n]. Without groups: [1 or experts, tokens, n].
  Tensor group(Tensor tokens) const;
  Tensor group_choices(Tensor choices) const;
  // Each expert's own matrix of w [experts, in, out] and row of bias [experts, out]: [used, capacity, in] -> [used, capacity, out]
  Tensor linear(Tensor grouped, const Parameter& w, const std::optional<Parameter>& bias = {}) const;
  // [used, capacity, n] -> [tokens, k, n]: what each token's experts gave
  Tensor choices(Tensor grouped) const;
  // [tokens, k, n] -> [tokens, n]: their weighted sum
  Tensor combine(Tensor choices) const;

 private:
  struct Groups {
    Tensor used;    // [used]: experts with at least one token
    Tensor choice;  // [used, capacity]: which choice (token · k + j) stands there; where none does, the first
    Tensor place;   // [tokens, k]: where in used · capacity a choice stands
  };
  static Groups groups_of(Tensor experts, std::int64_t num_experts);

  Routing routing_;
  std::int64_t k_, num_experts_;
  std::optional<Groups> groups_;  // absent: every expert gets every token
};

struct ExpertSizes {
  std::int64_t experts = 0, hidden = 0, inner = 0;
};
struct ExpertNames {
  std::string_view gate = "gate_proj", up = "up_proj", down = "down_proj";
};

// g·σ(αg)·(u + β), with g at most the limit and u within ± the limit.
struct SwiGLU {
  double alpha = 1, beta = 0;
  std::optional<double> limit = {};
};

// What becomes of an expert's gate and up projections: act(g)·u.
class Gating {
 public:
  Gating(std::string activation);  // of which silu, swish and quick_gelu are SwiGLU
  Gating(SwiGLU swiglu) : swiglu_(swiglu) {}

  Tensor operator()(Tensor gate, Tensor up) const;
  const std::optional<SwiGLU>& swiglu() const { return swiglu_; }

 private:
  std::string activation_;
  std::optional<SwiGLU> swiglu_;
};

// Stacks [experts, in, out], and rows [experts, out] where there are biases.
struct ExpertMatrix {
  Parameter weight;
  std::optional<Parameter> bias = {};
};

// down(gating(gate(x), up(x))) for each expert.
class GatedExperts {
 public:
  // One gated MLP per expert in the checkpoint: {at}.{e}.gate_proj.weight, ...
  GatedExperts(const Scope& at, const ExpertSizes& sizes, Gating gating, const ExpertNames& names = {});
  GatedExperts(Scope at, std::int64_t experts, Gating gating, ExpertMatrix gate, ExpertMatrix up, ExpertMatrix down);
  // gate_up's columns take turns: gate, up, gate, ...
  static GatedExperts taking_turns(const Scope& at, std::int64_t experts, Gating gating, const ExpertMatrix& gate_up, ExpertMatrix down);

  Tensor operator()(Tensor tokens, const Routing& routing) const;  // [tokens, hidden] -> [tokens, hidden]

 private:
  bool have_kernel(Tensor tokens, const Routing& routing) const;
  Tensor fused(Tensor tokens, const Routing& routing) const;
  Tensor grouped(Tensor tokens, const Routing& routing) const;

  Scope scope_;
  std::int64_t experts_;
  Gating gating_;
  ExpertMatrix gate_, up_, down_;
  ExpertMatrix gate_up_;  // both, taking turns
};

}  // namespace mobius
