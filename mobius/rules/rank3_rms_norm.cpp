//   RMSNorm(x [B, S, N, D]) · γ   ⟶   Reshape(RMSNorm(Reshape(x, [B, S·N, D])) · γ, [B, S, N, D])
//
// The norm of queries and keys by heads. The last axis is what is normalised, so the others may be seen as one.
#include "mobius/base/error.hpp"
#include "mobius/rules/rules.hpp"

namespace mobius::rules {
using namespace rewrite;

namespace {

std::optional<std::string> why_not(const ir::Node& node) {
  const auto* x = node.input(0);
  if (!x || !node.input(1)) return "an operand is missing";
  if (x->rank() != 4u) return fmt::format("the operand is {}, expected rank 4", x->shape() ? ir::to_string(*x->shape()) : "of unknown rank");
  const auto axis = node.int_attribute("axis", -1);
  if (axis != -1 && axis != 3) return fmt::format("axis is {}", axis);
  if (!(*x->shape())[3].is_static() || (*x->shape())[3].value() == 0) return "the last axis has no known size";
  if (node.output(1) && node.output(1)->is_used()) return "the inverse deviation is used";
  return std::nullopt;
}

ir::Value* shape_back(Inserter& at, ir::Value* x) {
  const auto& shape = *x->shape();
  if (shape[2].is_static() && shape[2].value() != 0) return at.integers({0, -1, shape[2].value(), shape[3].value()});
  return at.shared({"", "Shape"}, {x});
}

Rule rank3(ir::OpName op) {
  const auto norm = any_form(op, 2);
  return {.name = "Rank3RMSNorm",
          .from = {norm[0], norm[1]},
          .where = {{[=](const Match& m, const Target&) { return why_not(*m.node(norm[0])); }}},
          .when = [](const Target& t) { return !t.ep.supports_rank4_rmsnorm; },
          .make =
              [=](Inserter& at, const Match& m, const Target&) {
                const auto& node = *m.node(norm[0]);
                auto* x = node.input(0);
                auto* flat = at.add({"", "Reshape"}, {x, at.integers({0, -1, (*x->shape())[3].value()})})[0];
                auto inputs = node.inputs();
                inputs[0] = flat;
                auto attributes = node.attributes;
                if (attributes.contains("axis")) attributes["axis"] = std::int64_t{-1};
                auto* y = at.add(node.op, std::move(inputs), std::move(attributes))[0];
                return std::vector<ir::Value*>{at.add({"", "Reshape"}, {y, shape_back(at, x)})[0], nullptr};
              }};
}

}  // namespace

RuleGroup rank3_rms_norm() { return {"Rank3RMSNorm", {rank3({"", "RMSNormalization"}), rank3({"", "SimplifiedLayerNormalization"})}}; }

}  // namespace mobius::rules
